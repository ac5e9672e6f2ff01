import Foundation
import TestSupport
import Testing

extension EndToEnd.Deliveries {
    /// Credentials and bundle ids are replaced under load: no answer but 200, nothing lost, repeated or in doubt.
    @Suite(.serialized) struct RenewalTests {
        /// The number of notifications for each replacement.
        static let part = Long.isWanted ? 20_000 : 1_000

        @Test(.needs(.worker, .broker, .python, .kcat, .openssl))
        func `Key, bundle id and certificate are replaced under load`() throws {
            let scene = try Scene("renewal")
            try scene.makeSigningKey("next.p8")
            let simulator = try scene.startSimulator(
                "--latency", "20ms", "--streams", "10", "--key", "NEXT123456=\(scene.file("next.p8"))")
            try scene.makeAppCertificate("app2", days: 3)
            scene.configuration.apps = apps(scene)
            let (worker, pages) = try scene.startWorkerWithPages()
            try worker.waitFor("partitions assigned group=\(scene.configuration.group) ")
            var count = 0
            /// Runs an action while a part of the load is in flight, and waits until the rest is written.
            func underLoad(_ action: () throws -> Void) throws {
                let load = try scene.startLoad(Self.part, rate: Self.part / 2, "--apps", "3", "--seed", "\(count)")
                try simulator.awaitAccepted(more: Self.part / 5)
                try action()
                #expect(try load.wait() == .exited(0), "\(load.text.suffix(500))")
                count += Self.part
            }

            try underLoad {
                scene.configuration.apps = apps(scene, key: "next.p8", keyID: "NEXT123456")
                try scene.reload(worker, saying: "app changed")
            }
            try underLoad {
                scene.configuration.apps = apps(scene, key: "next.p8", keyID: "NEXT123456", more: ", com.example.more")
                try scene.reload(worker, saying: "app changed")
                try scene.send(20, topic: "com.example.more")
                count += 20
            }
            try pages.await("/status", says: "its client certificate expires")
            try underLoad {
                try scene.makeAppCertificate("app2")
                try scene.signalReload(worker, saying: "credential read again")
            }
            try pages.await("/status") {
                !$0.1.contains("its client certificate") && $0.1.contains(#""health":"fine""#)
            }
            try scene.awaitResults(count)
            try expectNothingBut200(count, pages)
            try scene.stop(worker)
            #expect(worker.text.matches(of: /app changed/).count == 2)
        }

        /// One app has a key, the other a certificate.
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

        private func expectNothingBut200(_ count: Int, _ pages: Pages) throws {
            let metrics = try pages.await("/metrics") {
                Pages.sum("apns_worker_notifications_total", "outcome=\"accepted\"", in: $0.1) >= count
            }
            #expect(Pages.sum("apns_worker_notifications_total", in: metrics) == count)
            #expect(Pages.sum("apns_worker_sends_total", in: metrics) == count)
            for name in ["reasons", "in_doubt", "retries", "held"] {
                #expect(Pages.sum("apns_worker_\(name)_total", in: metrics) == 0, "\(name)")
            }
        }
    }
}
