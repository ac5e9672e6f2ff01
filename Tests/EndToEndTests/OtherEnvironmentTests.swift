import TestSupport
import Testing

extension EndToEnd {
    /// Tests of an app with device tokens of both environments. Each environment has its own simulator.
    @Suite struct OtherEnvironmentTests {
        /// A prefix of tokens that are answered 400 BadDeviceToken in both environments.
        static let dead = "fa1740010"

        /// Every second token belongs to the other environment, whose server stops and restarts. The worker is killed
        /// in the meantime.
        @Test(.needs(.worker, .broker, .kcat))
        func `Tokens of both environments are accepted, and none counts as dead`() throws {
            let scene = try Scene("environments")
            // The server will restart on the same port.
            let port = Ports.claim()
            let development = try Self.startDevelopment(in: scene, port: port)
            _ = try scene.startSimulator("--fault", "BadDeviceToken@2")
            scene.configuration.appKeys = "other_environment: shop-dev"
            scene.configuration.apps = scene.configuration.app(
                named: "shop-dev", bundle: "shop", port: port, environment: "development")
            scene.configuration.unregisteredKeys = "include_bad_tokens: true"
            var (worker, pages) = try scene.startWorkerWithPages()
            try Self.write(0..<400, in: scene)
            try Self.awaitResults(of: 0..<400, in: scene, worker)
            try pages.await("/metrics") {
                $0.1.contains(#"apns_worker_connections{app="shop-dev",state="open"} 2"#)
                    && $0.1.contains(/\napns_worker_sent_on_total{app="shop"} [1-9][0-9]+\n/)
                    && $0.1.contains("\napns_worker_sent_on_total{app=\"shop-dev\"} 0\n")
            }
            try pages.await("/status", says: #""name":"shop-dev","environment":"development""#)

            try development.process.stop()
            try Self.write(400..<800, in: scene)
            // The first app continues. Notifications for the other one move to a tier.
            try scene.settleRequests(worker)
            try Self.write(800..<1_200, in: scene)
            try worker.killNow()
            (worker, pages) = try scene.startWorkerWithPages()
            try pages.await("/metrics") {
                $0.1.contains(#"apns_worker_unreachable{app="shop-dev"} 1"#)
                    && $0.1.contains(#"apns_worker_unreachable{app="shop"} 0"#)
            }
            #expect(try Self.outcomes(of: scene).values.allSatisfy { $0 == ["accepted"] || $0 == ["rejected"] })
            _ = try Self.startDevelopment(in: scene, port: port)
            try Self.awaitResults(of: 0..<1_200, in: scene, worker)
            try scene.finish(worker)

            let outcomes = try Self.outcomes(of: scene)
            for number in 0..<1_200 {
                let expected = Self.isDead(number) ? "rejected" : "accepted"
                #expect(outcomes[Self.token(number)] == [expected], "\(number)")
            }
            let tokens = try scene.records(of: scene.configuration.unregistered, "%k %s")
            #expect(
                Set(tokens.map { $0.prefix { $0 != " " } })
                    == Set((0..<1_200).filter(Self.isDead).map { Self.token($0)[...] }))
            #expect(tokens.allSatisfy { $0.contains(#""environment":"production","reason":"BadDeviceToken""#) })
        }

        private static func startDevelopment(in scene: Scene, port: Int) throws -> RunningSimulator {
            try scene.startOtherSimulator(port: port, arguments: ["--environment", "development"])
        }

        private static func isDead(_ number: Int) -> Bool { number % 10 == 9 }

        private static func token(_ number: Int) -> String {
            deviceTokens(1, isDead(number) ? dead : "", from: number)[0]
        }

        private static func write(_ numbers: Range<Int>, in scene: Scene) throws {
            try scene.send(to: numbers.map(token))
        }

        /// Returns the outcomes of each device token's results.
        private static func outcomes(of scene: Scene) throws -> [String: Set<String>] {
            var outcomes: [String: Set<String>] = [:]
            for line in try scene.resultsWithKcat() {
                guard let match = line.firstMatch(of: /^(\S+) outcome=([a-z]+)/) else { throw Unexpected("\(line)") }
                outcomes[String(match.1), default: []].insert(String(match.2))
            }
            return outcomes
        }

        private static func awaitResults(of numbers: Range<Int>, in scene: Scene, _ worker: ChildProcess) throws {
            try scene.awaitResults(numbers.count, of: worker)
            try eventually("results of \(numbers)", of: worker) {
                let outcomes = try outcomes(of: scene)
                return numbers.allSatisfy { outcomes[token($0)] != nil }
            }
        }
    }
}
