import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// What SIGHUP and new files change in a running worker.
    @Suite(.serialized) struct ReloadTests {
        /// A second app of the configuration, with what a test adds to it.
        private func news(_ scene: Scene, keyFile: String = "AuthKey_SIMULATOR1.p8", _ more: String = "") -> String {
            """
              - name: news
                bundle_ids: [com.example.news]
                host: localhost
                port: \(scene.configuration.port)
                token: {key_file: \(keyFile), key_id: SIMULATOR1, team_id: TEAM123456}
                tls: {ca_file: ca.pem}
                \(more)
            """
        }

        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(2)))
        func appsComePauseAndGo() throws {
            let scene = try Scene("reload", partitions: 1)
            _ = try scene.startSimulator()
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.send(1)
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "shop", 1)) }

            // All or nothing: with one thing wrong, nothing is taken over.
            scene.configuration.apps = news(scene, "pausd: true")
            try scene.reload(worker, saying: "unknown key; did you mean paused?")
            scene.configuration.apps = news(scene, keyFile: "gone.p8")
            try scene.reload(worker, saying: "gone.p8")
            try scene.send(1, topic: "com.example.news")
            try pages.await("/metrics") { $0.1.contains(count("invalid", of: "", 1)) }

            // An app comes.
            scene.configuration.apps = news(scene)
            try scene.reload(worker, saying: "app added app=news")
            try scene.send(2, topic: "com.example.news")
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "news", 2)) }

            // It is paused: what comes is held in the retry tier, and sent once it is not paused any more.
            scene.configuration.apps = news(scene, "paused: true")
            try scene.reload(worker, saying: "app is paused: nothing of it is sent app=news")
            try scene.send(3, topic: "com.example.news")
            try pages.await("/metrics") {
                guard let held = sample("apns_worker_held_total", "app=\"news\"", in: $0.1) else { return false }
                return held >= 3 && $0.1.contains(count("accepted", of: "news", 2))
            }
            scene.configuration.apps = news(scene)
            try scene.reload(worker, saying: "app is paused no more app=news")
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "news", 5)) }

            // It goes, and its topic belongs to nobody.
            scene.configuration.apps = ""
            try scene.reload(worker, saying: "app removed")
            try scene.send(1, topic: "com.example.news")
            try pages.await("/metrics") { $0.1.contains(count("invalid", of: "", 2)) }
            try scene.send(1)
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "shop", 2)) }

            // What is read at the start only is named.
            scene.configuration.more = "drain: {shutdown: 20s}"
            try scene.reload(worker, saying: "this change needs a restart key=drain")
            try scene.stop(worker)
        }

        /// Apple refuses the key; a right one is put in its place, and everything is sent without a restart.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(2)))
        func aKeyIsReplacedUnderItsName() throws {
            let scene = try Scene("rekeyed", partitions: 1)
            _ = try scene.startSimulator()
            try scene.makeSigningKey("current.p8")
            scene.configuration.keyFile = "current.p8"
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.send(5)
            try pages.await("/status") {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains("InvalidProviderToken")
            }

            // As broken as a half-written file: the one before stays.
            try scene.write("garbage", to: "current.p8")
            worker.signal(SIGHUP)
            try worker.waitFor("cannot be used; the one before stays", seconds: 10)

            let right = try String(contentsOfFile: scene.file("AuthKey_SIMULATOR1.p8"), encoding: .utf8)
            try scene.write(right, to: "current.p8")
            worker.signal(SIGHUP)
            try worker.waitFor("credential read again", seconds: 10)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "shop", 5)) }
            try scene.stop(worker)
        }

        /// The same, by another name in the configuration.
        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(2)))
        func aKeyIsReplacedByAnother() throws {
            let scene = try Scene("otherkey", partitions: 1)
            _ = try scene.startSimulator()
            try scene.makeSigningKey("wrong.p8")
            let right = scene.configuration.keyFile
            scene.configuration.keyFile = "wrong.p8"
            scene.configuration.admin = "127.0.0.1:0"
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try scene.send(5)
            try pages.await("/status") {
                $0.1.contains(#""health":"degraded""#) && $0.1.contains("InvalidProviderToken")
            }
            scene.configuration.keyFile = right
            try scene.reload(worker, saying: "app changed")
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            try pages.await("/metrics") { $0.1.contains(count("accepted", of: "shop", 5)) }
            try scene.stop(worker)
        }

        private func count(_ outcome: String, of app: String, _ number: Int) -> String {
            "\napns_worker_notifications_total{app=\"\(app)\",outcome=\"\(outcome)\"} \(number)\n"
        }

        /// The sum of a metric's samples with these labels; `nil`: there is none.
        private func sample(_ name: String, _ labels: String, in text: String) -> Int? {
            let values = text.split(separator: "\n").filter { $0.hasPrefix(name) && $0.contains(labels) }
                .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
            return values.isEmpty ? nil : values.reduce(0, +)
        }
    }
}

extension Scene {
    /// Writes so many plain requests with kcat, each for another device.
    func send(_ count: Int, topic: String = "com.example.shop") throws {
        let process = try ChildProcess(
            Tool.kcat.path(),
            ["-P", "-b", servers, "-t", configuration.requests, "-K:", "-H", "apns-topic=\(topic)"])
        for _ in 0..<count {
            process.write("\(hex(.random(in: 0..<Int.max), digits: 64)):{\"aps\":{\"alert\":\"Hi\"}}\n")
        }
        process.closeInput()
        guard try process.wait(seconds: 20) == .exited(0) else { throw Unexpected("kcat: \(process.text)") }
    }

    /// Puts the configuration as it is now into the worker's file, tells it so, and waits for what it says of it.
    func reload(_ worker: ChildProcess, saying words: String) throws {
        let before = worker.text.count
        try write(configuration.text, to: "worker.yaml")
        worker.signal(SIGHUP)
        let deadline = Date(timeIntervalSinceNow: 10)
        while !worker.text.dropFirst(before).contains(words) {
            guard Date() < deadline else {
                throw Unexpected("no “\(words)” within 10 s of SIGHUP:\n\(worker.text.suffix(4_000))")
            }
            usleep(20_000)
        }
    }
}
