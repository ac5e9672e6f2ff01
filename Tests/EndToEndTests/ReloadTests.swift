import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Tests of SIGHUP, and of files that change while the worker runs.
    @Suite struct ReloadTests {
        /// Returns a second app for the configuration.
        private func news(
            _ scene: Scene, keyFile: String = "AuthKey_SIMULATOR1.p8", certificate: String? = nil, _ more: String = ""
        ) -> String {
            let token = "token: {key_file: \(keyFile), key_id: SIMULATOR1, team_id: TEAM123456}"
            return """
                  - {name: news, bundle_ids: [com.example.news], host: localhost, port: \(scene.configuration.port),
                    \(certificate.map { "certificate: \($0)" } ?? token), tls: {ca_file: ca.pem}\(more)}
                """
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `Apps are added, paused and removed`() throws {
            let scene = try Scene("reload", partitions: 1)
            let (worker, pages) = try scene.startWorkerWithPages()
            try scene.send(1)
            try pages.await("/metrics", says: count("accepted", of: "shop", 1))

            // A configuration with one error changes nothing.
            scene.configuration.apps = news(scene, ", pausd: true")
            try scene.reload(worker, saying: "unknown key; did you mean paused?")
            try pages.await("/metrics", says: "\napns_worker_config_last_reload_successful 0\n")
            try scene.send(1, topic: "com.example.news")
            try pages.await("/metrics", says: count("invalid", of: "", 1))

            // An app with a missing key is added. Its notifications are deferred until the key exists.
            scene.configuration.apps = news(scene, keyFile: "late.p8")
            try scene.reload(worker, saying: "app added app=news")
            try scene.send(1, topic: "com.example.news")
            try pages.await("/status", says: #""kind":"credential_unusable","subject":"app news""#)
            try pages.await("/metrics") { Pages.sum("apns_worker_held_total", "app=\"news\"", in: $0.1) >= 1 }
            try scene.send(1)
            try pages.await("/metrics", says: count("accepted", of: "shop", 2))
            try scene.write(String(contentsOfFile: scene.file("AuthKey_SIMULATOR1.p8"), encoding: .utf8), to: "late.p8")
            try pages.await("/metrics", says: count("accepted", of: "news", 1))
            scene.configuration.apps = news(scene)
            try scene.reload(worker, saying: "app changed")
            try scene.send(1, topic: "com.example.news")
            try pages.await("/metrics", says: count("accepted", of: "news", 2))

            // Notifications of a paused app are deferred to the retry tier, and sent after it is resumed.
            scene.configuration.apps = news(scene, ", paused: true")
            try scene.reload(worker, saying: "app paused app=news")
            try scene.send(3, topic: "com.example.news")
            try pages.await("/metrics") {
                Pages.sum("apns_worker_held_total", "app=\"news\"", in: $0.1) >= 3
                    && $0.1.contains(count("accepted", of: "news", 2))
            }
            scene.configuration.apps = news(scene)
            try scene.reload(worker, saying: "app resumed app=news")
            try pages.await("/metrics", says: count("accepted", of: "news", 5))

            // The app is removed, so its topic belongs to no app. The worker reads the changed file without a signal.
            scene.configuration.apps = ""
            try scene.reload(worker, saying: "configuration reloaded apps=1 changed=apps", signals: false)
            try scene.send(1, topic: "com.example.news")
            try pages.await("/metrics", says: count("invalid", of: "", 2))
            try scene.send(1)
            try pages.await("/metrics", says: count("accepted", of: "shop", 3))

            // This setting is read only at the start.
            scene.configuration.more = "drain: {shutdown: 20s}"
            try scene.reload(worker, saying: "configuration change takes effect after a restart key=drain")
            try pages.await("/status", says: #""kind":"restart_needed","subject":"configuration""#)
            scene.configuration.more = ""
            try scene.reload(worker, saying: "problem resolved subject=configuration")
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker))
        func `check --diff shows what a reload or a restart would change`() throws {
            let scene = try Scene("diff", partitions: 1)
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            func diff(_ address: String = pages.address) throws -> Scene.Finished {
                try scene.configure(named: "new")
                return try Scene.worker("check --config \(scene.file("new.yaml")) --diff \(address)")
            }
            let end = "Secrets and the contents of files are not compared.\n"
            #expect(try diff().expect(0).text == "No setting differs. \(end)")

            scene.configuration.appKeys = "paused: true"
            scene.configuration.apps = news(scene)
            scene.configuration.more = "drain: {shutdown: 20s}"
            let live = "apps[news]: added\napps[shop].paused: false -> true\n"
            let restart = "drain.shutdown: 12s -> 20s (after a restart)\n"
            #expect(try diff("\(pages.address)/").expect(1).text == live + restart + end)

            // The worker continues to use the settings that it reads only at its start.
            try scene.reload(worker, saying: "changed=apps[news],apps[shop].paused,drain.shutdown")
            try worker.waitFor("configuration change takes effect after a restart key=drain.shutdown")
            try eventually("the settings in use", of: worker) { try diff().text == restart + end }
            scene.configuration.apps = ""
            #expect(try diff().text.hasPrefix("apps[news]: removed; its notifications end as invalid\n"))
            try scene.stop(worker)
            try diff().expect(69, "apns-worker check: \(pages.address)/configuration does not answer")
        }

        /// The simulator's control endpoint has no such page, as earlier versions of the worker.
        @Test(.needs(.worker)) func `check --diff explains an answer that is not a configuration`() throws {
            let scene = try Scene(withoutBroker: "old")
            let control = try scene.startSimulator().control
            try scene.check("--diff", control).expect(
                69, "\(control)/configuration answers HTTP/1.1 404 Not Found; update the worker")
        }

        /// The worker starts with a second app whose key does not match its certificate.
        @Test(.needs(.worker, .broker, .kcat, .openssl))
        func `An app with an unusable credential at the start delays no other, and is sent once the file is valid`()
            throws
        {
            let scene = try Scene("mismatch", partitions: 1)
            _ = try scene.startSimulator()
            for name in ["news", "other"] {
                try scene.makeCertificate(name, by: "ca", subject: "/UID=com.example.news/CN=\(name)")
            }
            scene.configuration.apps = news(scene, certificate: "{file: news.pem, key_file: other-key.pem}")
            try scene.check().expect(1, "not fine: app news: ", "the private key does not match the certificate")
            let (worker, pages) = try scene.startWorkerWithPages()
            try scene.send(1, topic: "com.example.news")
            try scene.send(1)
            try scene.awaitResults(1, of: worker)
            try pages.await("/metrics") { Pages.sum("apns_worker_held_total", "app=\"news\"", in: $0.1) >= 1 }
            try pages.await("/status", says: #""kind":"credential_unusable","subject":"app news""#)
            #expect(try scene.resultObjects().map { $0["app"] as? String } == ["shop"])
            try scene.write(String(contentsOfFile: scene.file("news-key.pem"), encoding: .utf8), to: "other-key.pem")
            try pages.await("/metrics", says: count("accepted", of: "news", 1))
            try pages.await("/status", says: #""health":"fine""#)
            try scene.stop(worker)
        }

        /// The right key replaces a refused one, in the same file or by the configuration, without a restart.
        @Test(.needs(.worker, .broker, .kcat, .openssl), arguments: [true, false])
        func `A key that Apple refuses is replaced`(underItsName: Bool) throws {
            let scene = try Scene("rekeyed", partitions: 1)
            let right = scene.configuration.keyFile
            try scene.makeSigningKey("current.p8")
            scene.configuration.keyFile = "current.p8"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)
            try scene.send(5)
            try pages.await(
                "/status", says: #""health":"degraded""#, #""subject":"app shop""#, "InvalidProviderToken",
                "certificate files within 10 s")
            let refused = "\napns_worker_credential_refused{app=\"shop\"} "
            try pages.await("/metrics", says: refused + "1\n")
            try worker.waitFor("circuit breaker opened")
            try pages.await("/readyz") { $0 == (200, "ready\n") }

            if underItsName {
                // The file is invalid, like one that is only half written.
                try scene.write("garbage", to: "current.p8")
                try scene.reload(worker, saying: "cannot be used, keeping the previous credential", writes: false)
                try scene.write(String(contentsOfFile: scene.file(right), encoding: .utf8), to: "current.p8")
                try scene.reload(worker, saying: "credential reloaded", writes: false)
            } else {
                scene.configuration.keyFile = right
                try scene.reload(worker, saying: "app changed")
            }
            try pages.await("/metrics", says: count("accepted", of: "shop", 5), refused + "0\n")
            try pages.await("/status", says: #""health":"fine""#)

            // The same reason arrives in a GOAWAY. The next answer proves that the credential is valid.
            // The log shows the opening, since the page may be too late: the resent notification is the proof, too.
            func openings() -> Int { worker.text.components(separatedBy: "circuit breaker opened").count }
            let before = openings()
            try scene.send(to: deviceTokens(1, "fa1780340"))
            try eventually("the circuit breaker opens again", of: worker) { openings() > before }
            try scene.send(1)
            try pages.await("/metrics", says: refused + "0\n")
            try scene.stop(worker)
        }

        private func count(_ outcome: String, of app: String, _ number: Int) -> String {
            "\napns_worker_notifications_total{app=\"\(app)\",outcome=\"\(outcome)\"} \(number)\n"
        }
    }
}

extension Scene {
    /// Writes the configuration to the worker's file, sends SIGHUP, and waits for words in the log. Without a signal,
    /// the worker notices the change by itself.
    func reload(_ worker: ChildProcess, saying words: String, writes: Bool = true, signals: Bool = true) throws {
        let before = worker.text.count
        if writes { try configure() }
        if signals { worker.signal(SIGHUP) }
        try eventually("“\(words)” after the change", of: worker) { worker.text.dropFirst(before).contains(words) }
    }
}
