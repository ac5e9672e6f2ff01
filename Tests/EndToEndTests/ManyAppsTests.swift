import Foundation
import TestSupport
import Testing

extension EndToEnd.Refusals {
    /// Many apps, with keys and certificates in turn, whose connections are dialled when something is to be sent. Some
    /// have credentials that are refused, some hosts that cannot be reached: the others' times against a run without
    /// those.
    @Suite(.serialized) struct ManyAppsTests {
        /// In this order; each is of a number that the others' kinds divide.
        static let well = Long.isWanted ? 60 : 12
        static let refused = Long.isWanted ? 30 : 6
        static let unreachable = Long.isWanted ? 10 : 4
        static var all: Int { well + refused + unreachable }
        /// Records a second of all apps together.
        static let rate = Long.isWanted ? 5_000 : 400
        static let seconds = Long.isWanted ? 40 : 8

        struct Times: Decodable {
            var name: String
            var count: Int
            var p99: Int?
            var max: Int?
        }

        struct Run {
            var times: [Times]
            var kilobytes: Int
            var descriptors: Int

            var p99: Int { times.map { $0.p99 ?? .max }.max() ?? .max }
            var median: Int { times.map { $0.p99 ?? .max }.sorted()[times.count / 2] }
        }

        @Test(.needs(.worker, .broker, .python, .openssl), .timeLimit(.minutes(10)))
        func thoseThatAreWellKeepPace() throws {
            let alone = try run(apps: Self.well)
            let among = try run(apps: Self.all)
            let others = among.times.filter { time in (0..<Self.well).contains { Self.name($0) == time.name } }
            let beside = Run(times: others, kilobytes: among.kilobytes, descriptors: among.descriptors)
            for (what, run) in [("alone", alone), ("beside \(Self.refused + Self.unreachable) others", beside)] {
                print(
                    "\(Self.well) apps \(what), \(Self.rate)/s of \(Self.all): p99 \(run.median) ms in the median of the apps, "
                        + "\(run.p99) ms at most; \(run.kilobytes) kB, \(run.descriptors) descriptors at most")
            }
            #expect(others.count == Self.well)
            for time in others { #expect(time.count >= Self.rate / Self.all * (Self.seconds - 4), "\(time)") }
            // Twice, or what a machine that does other things too may add.
            #expect(beside.p99 <= max(2 * alone.p99, Long.isWanted ? 100 : 1_000))
        }

        private static func name(_ number: Int) -> String { number == 0 ? "shop" : "app\(number)" }

        private func run(apps: Int) throws -> Run {
            let scene = try Scene("manyapps")
            let simulator = try scene.startSimulator("--latency", "5ms")
            // What is held comes round as often as by default.
            let tier = "\(scene.name).tier.30s"
            try scene.create(tier)
            scene.configuration.retries = "tiers: {30s: \(tier)}, max_attempts: 2"
            let credentials = try Credentials(scene)
            let silentPort = KafkaBroker.freePorts(1)[0]
            let silent = try ChildProcess(
                Tool.python.path(), [Scene.program, "silent", "--port", "\(silentPort)"])
            try silent.waitFor("listening", seconds: 20)
            let dead = try DeadListener("127.0.0.1")
            defer { withExtendedLifetime((silent, dead)) {} }
            let away = [
                "host: localhost, port: \(KafkaBroker.freePorts(1)[0])", "host: localhost, port: \(dead.port)",
                "host: localhost, port: \(silentPort)", "host: nobody.invalid, port: 443",
            ]
            let here = "host: localhost, port: \(scene.configuration.port)"
            let strict = try credentials.startStrictServer()
            scene.configuration.apps = try (1..<apps).map { number in
                let credential: String
                switch number {
                case ..<Self.well: credential = try credentials.good(number)
                case ..<(Self.well + Self.refused): credential = try credentials.bad(number)
                default: credential = credentials.token
                }
                let host =
                    switch number {
                    case ..<Self.well: here
                    case ..<(Self.well + Self.refused): number % 3 == 2 ? "host: localhost, port: \(strict.port)" : here
                    default: away[number % away.count]
                    }
                let name = Self.name(number)
                return
                    "  - {name: \(name), bundle_ids: [com.example.\(name)], environment: production, \(host), \(credential), "
                    + "tls: {ca_file: ca.pem}, connections: {min: 0, max: 4}}"
            }.joined(separator: "\n")
            let worker = try scene.startWorker()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            let rate = Self.rate * apps / Self.all
            let load = try ChildProcess(
                Tool.python.path(),
                [
                    Scene.program, "produce", "--servers", scene.servers, "--topic", scene.configuration.requests,
                    "--count", "\(rate * Self.seconds)", "--rate", "\(rate)", "--apps", "\(apps)", "--book",
                    scene.file("book.jsonl"),
                ])
            var descriptors = 0
            while load.ended == nil {
                let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(worker.workerID)/fd").count
                descriptors = max(descriptors, open)
                usleep(200_000)
            }
            #expect(load.ended == .exited(0), "\(load.text.suffix(500))")
            // Of the others none is accepted: some are rejected, some wait in the tier.
            try scene.awaitResults(rate * Self.seconds * Self.well / apps)
            let kilobytes = try worker.largestResidentKilobytes()
            try scene.stop(worker)
            let text = try scene.books(
                "measure", "--results", scene.configuration.results, "--by", "app", "--skip-ms", "3000")
            let times = try text.split(separator: "\n").filter { $0.contains("\"name\"") }
                .map { try JSONDecoder().decode(Times.self, from: Data($0.utf8)) }
            let refusals = strict.process.text.components(separatedBy: "verify error").count - 1
            #expect(apps == Self.well || refusals >= Self.refused / 3, "\(strict.process.text.suffix(500))")
            try strict.process.killNow()
            try silent.stop()
            try simulator.process.stop()
            return Run(times: times, kilobytes: kilobytes, descriptors: descriptors)
        }

        /// Credentials of all kinds, as YAML.
        private struct Credentials {
            let scene: Scene
            let token = "token: {key_file: AuthKey_SIMULATOR1.p8, key_id: SIMULATOR1, team_id: TEAM123456}"

            init(_ scene: Scene) throws {
                self.scene = scene
                try scene.makeSigningKey("AuthKey_OTHER.p8")
                // An authority that nobody trusts.
                try openssl(
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=other", "-keyout", scene.file("other-key.pem"), "-out", scene.file("other.pem"))
            }

            /// Apple's servers refuse a certificate of another authority in the handshake; the simulator takes any.
            func startStrictServer() throws -> (process: ChildProcess, port: Int) {
                try openssl(
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-CA", scene.file("ca.pem"), "-CAkey", scene.file("ca-key.pem"), "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", scene.file("strict-key.pem"), "-out",
                    scene.file("strict.pem"))
                let port = KafkaBroker.freePorts(1)[0]
                let process = try ChildProcess(
                    Tool.openssl.path(),
                    [
                        "s_server", "-accept", "\(port)", "-cert", scene.file("strict.pem"), "-key",
                        scene.file("strict-key.pem"), "-CAfile", scene.file("ca.pem"), "-Verify", "1",
                        "-verify_return_error", "-alpn", "h2",
                    ])
                try process.waitFor("ACCEPT", seconds: 20)
                return (process, port)
            }

            func good(_ number: Int) throws -> String {
                number % 2 == 0 ? token : try certificate(number, by: "ca")
            }

            /// A signature that is not the key's, a key that nobody knows, a certificate that nobody trusts.
            func bad(_ number: Int) throws -> String {
                switch number % 3 {
                case 0: "token: {key_file: AuthKey_OTHER.p8, key_id: SIMULATOR1, team_id: TEAM123456}"
                case 1: "token: {key_file: AuthKey_OTHER.p8, key_id: OTHER12345, team_id: TEAM123456}"
                default: try certificate(number, by: "other")
                }
            }

            private func certificate(_ number: Int, by authority: String) throws -> String {
                let name = ManyAppsTests.name(number)
                try openssl(
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "90",
                    "-CA", scene.file("\(authority).pem"), "-CAkey", scene.file("\(authority)-key.pem"), "-subj",
                    "/UID=com.example.\(name)/CN=\(name)", "-keyout", scene.file("\(name)-key.pem"), "-out",
                    scene.file("\(name).pem"))
                return "certificate: {file: \(name).pem, key_file: \(name)-key.pem}"
            }

            private func openssl(_ arguments: String...) throws {
                let ended = try Scene.run(Tool.openssl.path(), arguments)
                guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
            }
        }
    }
}
