import Foundation
import TestSupport
import Testing

extension EndToEnd.Refusals {
    /// An app whose device tokens are of both environments, each with a simulator of its own.
    @Suite(.serialized) struct OtherEnvironmentTests {
        /// 400 BadDeviceToken, in either environment.
        static let dead = "fa1740010"

        /// Every second token is one of the other environment. That one goes away and comes back, and the worker is
        /// killed meanwhile: every good token's notification is accepted, every dead one's rejected, and no good one is
        /// called dead.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(4)))
        func mixedTokensAreAllAcceptedAndNoneIsCalledDead() throws {
            let scene = try Scene("environments", partitions: 4)
            var development = try Self.startDevelopment(in: scene)
            let production = try scene.startSimulator("--fault", "BadDeviceToken@2")
            scene.configuration.appKeys = "other_environment: shop-dev"
            scene.configuration.apps = scene.configuration.app(named: "shop-dev", port: development.port)
                .replacingOccurrences(of: "com.example.shop-dev", with: "com.example.shop")
                .replacingOccurrences(of: "production", with: "development")
            scene.configuration.unregisteredKeys = "include_bad_tokens: true"
            scene.configuration.admin = "127.0.0.1:0"
            var worker = try scene.startWorker()
            try Self.write(0..<400, in: scene)
            try Self.awaitResults(of: 0..<400, in: scene, worker)
            let pages = try Pages(of: worker)
            try pages.await("/metrics") {
                $0.1.contains(#"apns_worker_connections{app="shop-dev",state="open"} 2"#)
                    && $0.1.contains(/\napns_worker_sent_on_total{app="shop"} [1-9][0-9]+\n/)
                    && $0.1.contains("\napns_worker_sent_on_total{app=\"shop-dev\"} 0\n")
            }
            #expect(try pages.get("/status").1.contains(#""name":"shop-dev","environment":"development""#))

            try development.process.stop()
            try Self.write(400..<800, in: scene)
            // The first app goes on, and what is for the other leaves the request topic for a tier.
            try scene.books(
                "settle", "--group", scene.configuration.group, "--topics", scene.configuration.requests, "--stall",
                "100", within: 130)
            try Self.write(800..<1_200, in: scene)
            try worker.killNow()
            worker = try scene.startWorker()
            try Pages(of: worker).await("/metrics", within: 60) {
                $0.1.contains(#"apns_worker_unreachable{app="shop-dev"} 1"#)
                    && $0.1.contains(#"apns_worker_unreachable{app="shop"} 0"#)
            }
            #expect(try Self.outcomes(of: scene).values.allSatisfy { $0 == ["accepted"] || $0 == ["rejected"] })
            development = try Self.startDevelopment(in: scene, port: development.port)
            try Self.awaitResults(of: 0..<1_200, in: scene, worker)
            try scene.settle(worker)
            try scene.stop(worker)

            let outcomes = try Self.outcomes(of: scene)
            for number in 0..<1_200 {
                let expected = Self.isDead(number) ? "rejected" : "accepted"
                #expect(outcomes[Self.token(number)] == [expected], "\(number)")
            }
            let tokens = try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.unregistered, "-o", "beginning",
                    "-f", "%k %s\n",
                ]
            ).text.split(separator: "\n")
            #expect(
                Set(tokens.map { $0.prefix { $0 != " " } })
                    == Set((0..<1_200).filter(Self.isDead).map { Self.token($0)[...] }))
            #expect(tokens.allSatisfy { $0.contains(#""environment":"production","reason":"BadDeviceToken""#) })
            try development.process.stop()
            try production.process.stop()
        }

        private static func startDevelopment(in scene: Scene, port: Int? = nil) throws -> RunningSimulator {
            try RunningSimulator(in: scene.folder, port: port, ["--environment", "development"])
        }

        private static func isDead(_ number: Int) -> Bool { number % 10 == 9 }

        private static func token(_ number: Int) -> String {
            isDead(number) ? dead + hex(number, digits: 55) : hex(number, digits: 64)
        }

        private static func write(_ numbers: Range<Int>, in scene: Scene) throws {
            try scene.write(
                numbers.map { #"\#(token($0)):{"aps":{"alert":"Hi"}}"# }.joined(separator: "\n") + "\n", to: "lines.txt"
            )
            try scene.produceWithKcat("lines.txt")
        }

        /// By device token, those that its results say.
        private static func outcomes(of scene: Scene) throws -> [String: Set<String>] {
            var outcomes: [String: Set<String>] = [:]
            for line in try scene.resultsWithKcat() {
                guard let match = line.firstMatch(of: /^(\S+) outcome=([a-z]+)/) else { throw Unexpected("\(line)") }
                outcomes[String(match.1), default: []].insert(String(match.2))
            }
            return outcomes
        }

        private static func awaitResults(of numbers: Range<Int>, in scene: Scene, _ worker: ChildProcess) throws {
            let deadline = Date(timeIntervalSinceNow: 100)
            while true {
                let outcomes = try outcomes(of: scene)
                let missing = numbers.filter { outcomes[token($0)] == nil }
                if missing.isEmpty { return }
                guard Date() < deadline else {
                    throw Unexpected("\(missing.count) without a result\n\(worker.text.suffix(8_000))")
                }
                usleep(200_000)
            }
        }
    }
}
