import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    /// What a provider sends with is replaced while notifications flow: no answer but 200, nothing lost, nothing twice,
    /// nothing in doubt.
    @Suite(.serialized) struct RenewalTests {
        /// Records a second.
        static let rate = Long.isWanted ? 5_000 : 1_000
        static let seconds = Long.isWanted ? 40 : 12

        @Test(.needs(.worker, .broker, .python, .curl, .openssl), .timeLimit(.minutes(4)))
        func keyBundleIDAndCertificateAreReplacedUnderLoad() throws {
            let scene = try Scene("renewal")
            try scene.makeSigningKey("next.p8")
            let simulator = try scene.startSimulator(
                "--latency", "20ms", "--key", "NEXT123456=\(scene.file("next.p8"))")
            try makeCertificate(scene, days: 3)
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.apps = apps(scene)
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            let load = try startLoad(scene, apps: 3, seconds: Self.seconds)
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(Self.rate)")

            scene.configuration.apps = apps(scene, key: "next.p8", keyID: "NEXT123456")
            try scene.reload(worker, saying: "app changed")
            try awaitAccepted(Self.rate, more: simulator, scene)
            scene.configuration.apps = apps(scene, key: "next.p8", keyID: "NEXT123456", more: ", com.example.more")
            try scene.reload(worker, saying: "app changed")
            try scene.send(20, topic: "com.example.more")
            try awaitAccepted(Self.rate, more: simulator, scene)
            try pages.await("/status") { $0.1.contains("its client certificate expires") }
            try makeCertificate(scene, days: 90)
            worker.signal(SIGHUP)
            try worker.waitFor("credential read again", seconds: 10)
            try pages.await("/status") {
                !$0.1.contains("its client certificate") && $0.1.contains(#""health":"fine""#)
            }
            try awaitAccepted(Self.rate, more: simulator, scene)
            #expect(load.ended == nil, "the load ended before all was replaced")

            #expect(try load.wait(seconds: 120) == .exited(0), "\(load.text.suffix(500))")
            try scene.awaitResults(Self.rate * Self.seconds + 20)
            try expectNothingBut200(Self.rate * Self.seconds + 20, pages)
            try scene.stop(worker)
            #expect(worker.text.matches(of: /app changed/).count == 2)
            try simulator.process.stop()
        }

        /// At the next time of the grid on which all that send with a key have the same token: worker and server live
        /// so much later that it comes some seconds after the start.
        @Test(
            .needs(.worker, .broker, .python, .curl),
            .enabled(
                if: Tool.faketime.place != nil, "libfaketime is not installed (by hand: apt-get install libfaketime)"),
            .timeLimit(.minutes(4)))
        func theProviderTokenIsRenewedUnderLoad() throws {
            let scene = try Scene("token")
            // An iat is taken into use a minute after its time, every 40 minutes.
            let untilNext = 2_400 - (Int(Date().timeIntervalSince1970) - 60) % 2_400
            let time = [
                "LD_PRELOAD": try Tool.faketime.path(), "FAKETIME": "+\(untilNext - 10)", "DONT_FAKE_MONOTONIC": "1",
            ]
            let simulator = try scene.startSimulator(arguments: ["--latency", "20ms"], environment: time)
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker(environment: time)
            let pages = try Pages(of: worker)
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ", seconds: 60)
            // The new one comes within ten of them.
            let seconds = max(20, Self.seconds)
            let load = try startLoad(scene, apps: 1, seconds: seconds)
            func issued() throws -> Double? {
                try pages.get("/metrics").1.firstMatch(of: /provider_token_age_seconds\{app="shop"\} ([0-9.]+)/)
                    .flatMap { Double($0.1) }
            }
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(Self.rate)")
            let before = try #require(try issued())
            #expect(before > 2_000)
            try pages.await("/metrics", within: 60) { answer in
                answer.1.firstMatch(of: /provider_token_age_seconds\{app="shop"\} ([0-9.]+)/).flatMap { Double($0.1) }
                    .map { $0 < 200 } == true
            }
            try awaitAccepted(Self.rate, more: simulator, scene)
            #expect(load.ended == nil, "the load ended before the token was renewed")
            #expect(try load.wait(seconds: 120) == .exited(0), "\(load.text.suffix(500))")
            try scene.awaitResults(Self.rate * seconds)
            try expectNothingBut200(Self.rate * seconds, pages)
            try scene.stop(worker)
            try simulator.process.stop()
        }

        // MARK: The parts

        /// Of a key, and of a certificate.
        private func apps(
            _ scene: Scene, key: String = "AuthKey_SIMULATOR1.p8", keyID: String = "SIMULATOR1", more: String = ""
        ) -> String {
            let host =
                "environment: production, host: localhost, port: \(scene.configuration.port), tls: {ca_file: ca.pem}, "
                + "connections: {min: 1, max: 4}"
            return """
                  - {name: app1, bundle_ids: [com.example.app1\(more)], \(host), token: {key_file: \(key), key_id: \(keyID), team_id: TEAM123456}}
                  - {name: app2, bundle_ids: [com.example.app2], \(host), certificate: {file: app2.pem, key_file: app2-key.pem}}
                """
        }

        private func makeCertificate(_ scene: Scene, days: Int) throws {
            let ended = try Scene.run(
                Tool.openssl.path(),
                [
                    "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "\(days)",
                    "-CA", scene.file("ca.pem"), "-CAkey", scene.file("ca-key.pem"), "-subj",
                    "/UID=com.example.app2/CN=app2", "-keyout", scene.file("app2-key.pem"), "-out",
                    scene.file("app2.pem"),
                ])
            guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
        }

        private func startLoad(_ scene: Scene, apps: Int, seconds: Int) throws -> ChildProcess {
            try ChildProcess(
                Tool.python.path(),
                [
                    Scene.program, "produce", "--servers", scene.servers, "--topic", scene.configuration.requests,
                    "--count", "\(Self.rate * seconds)", "--rate", "\(Self.rate)", "--apps", "\(apps)", "--book",
                    scene.file("book.jsonl"),
                ])
        }

        private func awaitAccepted(_ count: Int, more simulator: RunningSimulator, _ scene: Scene) throws {
            let wanted = try scene.accepted(simulator) + count
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "\(wanted)")
        }

        private func expectNothingBut200(_ count: Int, _ pages: Pages) throws {
            var metrics = ""
            func sum(_ name: String, _ label: String? = nil) -> Int {
                metrics.split(separator: "\n").filter { $0.hasPrefix(name + "{") && label.map($0.contains) != false }
                    .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
            }
            try pages.await("/metrics", within: 10) { answer in
                metrics = answer.1
                return sum("apns_worker_notifications_total", "outcome=\"accepted\"") >= count
            }
            #expect(sum("apns_worker_notifications_total") == count)
            #expect(sum("apns_worker_sends_total") == count)
            for name in ["reasons", "in_doubt", "retries", "held"] {
                #expect(sum("apns_worker_\(name)_total") == 0, "\(name)")
            }
            print("\(count) accepted at \(Self.rate)/s, each sent once")
        }
    }
}
