import TestSupport
import Testing

extension EndToEnd {
    /// Tests of isolation: of apps from one that is refused or unreachable, and of topics from one with a backlog.
    @Suite struct ManyAppsTests {
        /// The numbers of good and bad apps, which are multiples of the number of kinds.
        static let well = Long.isWanted ? 60 : 8
        static let refused = Long.isWanted ? 30 : 3
        static let unreachable = Long.isWanted ? 10 : 4
        static var all: Int { well + refused + unreachable }
        static let each = 20

        /// The apps alternate between keys and certificates, with connections on demand. All notifications of good apps
        /// are accepted, and none of the others.
        @Test(.needs(.worker, .broker, .python, .openssl))
        func `Apps that are refused or unreachable delay no other app`() throws {
            let scene = try Scene("manyapps")
            _ = try scene.startSimulator()
            let tier = "\(scene.name).tier.30s"
            try scene.create(tier)
            scene.configuration.retries = "tiers: {30s: \(tier)}, max_attempts: 2"
            try scene.makeSigningKey("AuthKey_OTHER.p8")
            try scene.makeCertificate("other", subject: "/CN=other")
            let strict = try startStrictServer(scene)
            let silent = DeadListener(connects: true)
            let dead = DeadListener()
            defer { withExtendedLifetime((silent, dead)) {} }
            let away = [
                "host: localhost, port: \(Ports.claim())", "host: localhost, port: \(dead.port)",
                "host: localhost, port: \(silent.port)", "host: nobody.invalid, port: 443",
            ]
            let here = "host: localhost, port: \(scene.configuration.port)"
            let token = "token: {key_file: AuthKey_SIMULATOR1.p8, key_id: SIMULATOR1, team_id: TEAM123456}"
            scene.configuration.apps = try (1..<Self.all).map { number in
                let name = "app\(number)"
                var (host, credential) = (here, token)
                switch number {
                case ..<Self.well: if number % 2 == 1 { credential = try certificate(name, by: "ca", scene) }
                case ..<(Self.well + Self.refused):
                    // The credentials have a wrong signature, an unknown key, or a certificate of an unknown authority.
                    switch number % 3 {
                    case 0: credential = "token: {key_file: AuthKey_OTHER.p8, key_id: SIMULATOR1, team_id: TEAM123456}"
                    case 1: credential = "token: {key_file: AuthKey_OTHER.p8, key_id: OTHER12345, team_id: TEAM123456}"
                    default:
                        credential = try certificate(name, by: "other", scene)
                        host = "host: localhost, port: \(strict.port)"
                    }
                default: host = away[number % away.count]
                }
                return
                    "  - {name: \(name), bundle_ids: [com.example.\(name)], environment: production, \(host), \(credential), "
                    + "tls: {ca_file: ca.pem}, connections: {min: 0, max: 4}}"
            }.joined(separator: "\n")
            let worker = try scene.startAssignedWorker()
            try scene.produce(Self.each * Self.all, "--apps", "\(Self.all)")
            // The notifications of the other apps are rejected, or wait in the tier.
            let good = Set((0..<Self.well).map { $0 == 0 ? "shop" : "app\($0)" })
            try eventually("all results of the good apps", of: worker) {
                try scene.resultObjects().filter { good.contains($0["app"] as? String ?? "") }.count
                    >= Self.each * Self.well
            }
            let accepted = try scene.resultObjects().filter { $0["outcome"] as? String == "accepted" }
                .map { $0["app"] as? String ?? "" }
            #expect(
                Dictionary(grouping: accepted) { $0 }.mapValues(\.count)
                    == .init(uniqueKeysWithValues: good.map { ($0, Self.each) }))
            try eventually("a certificate that is refused", of: strict.process) {
                strict.process.text.contains("verify error")
            }
            try scene.stop(worker)
        }

        /// Starts a server that refuses a certificate of another authority during the handshake, as APNs does. The
        /// simulator accepts any certificate.
        private func startStrictServer(_ scene: Scene) throws -> (process: ChildProcess, port: Int) {
            try scene.makeCertificate(
                "strict", by: "ca", subject: "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
            let port = Ports.claim()
            let process = try scene.start(
                Tool.openssl.path(),
                [
                    "s_server", "-accept", "\(port)", "-cert", scene.file("strict.pem"), "-key",
                    scene.file("strict-key.pem"), "-CAfile", scene.file("ca.pem"), "-Verify", "1",
                    "-verify_return_error", "-alpn", "h2",
                ])
            try process.waitFor("ACCEPT")
            return (process, port)
        }

        private func certificate(_ name: String, by authority: String, _ scene: Scene) throws -> String {
            try scene.makeCertificate(name, by: authority, subject: "/UID=com.example.\(name)/CN=\(name)")
            return "certificate: {file: \(name).pem, key_file: \(name)-key.pem}"
        }

        /// The server accepts four requests at once, so the backlog would take minutes. Records of the other topic that
        /// are written later have results while most of the backlog has none.
        @Test(.needs(.worker, .broker, .python, .kcat), arguments: Long.isWanted ? [1, 10] : [1])
        func `A backlog does not delay other topics`(weight: Int) throws {
            let scene = try Scene("backlog", partitions: 2)
            let simulator = try scene.startSimulator("--latency", "200ms", "--streams", "1")
            let backlog = scene.configuration.requests
            let urgent = "\(scene.name).urgent"
            try scene.create(urgent)
            let count = 3_000
            try scene.produce(count, "--plain")
            scene.configuration.requestTopics = "\(backlog), {name: \(urgent), weight: \(weight)}"
            let worker = try scene.startWorker()
            try simulator.awaitRequests(10)
            try scene.send(to: deviceTokens(100, "ab"), in: urgent)
            try simulator.awaitRequests(60)
            try simulator.set("latency=0&streams=1000")
            scene.configuration.requests = urgent
            try scene.settle(worker)
            scene.configuration.requests = backlog
            try scene.finish(worker)
            // The results are sorted by their time of sending.
            let keys = try scene.resultObjects().sorted {
                ($0["sent_at_ms"] as? Int ?? 0) < ($1["sent_at_ms"] as? Int ?? 0)
            }
            .map { $0["device_token"] as? String ?? "" }
            let last = try #require(keys.lastIndex { $0.hasPrefix("ab") })
            #expect(keys.count(where: { $0.hasPrefix("ab") }) == 100)
            #expect(
                last < keys.count / 2,
                "the last notification of the other topic was sent after \(last) of \(keys.count)")
        }
    }

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
            let unreachable = "apns_worker_unreachable{app="
            try pages.await("/metrics", says: unreachable + #""shop-dev"} 1"#, unreachable + #""shop"} 0"#)
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
