import Foundation
import TestSupport
import Testing

/// A dead token: a number, in as many digits as a token has.
private func token(_ number: Int) -> String { hex(number, digits: 64) }

extension Scene {
    /// An app whose feedback is read.
    fileprivate func feedbackApp(port: Int, interval: String, named name: String = "old") -> String {
        """
          - name: \(name)
            bundle_ids: [com.example.app, com.example.other]
            environment: development
            transport: binary
            host: localhost
            port: 1
            certificate: {file: client.pem, key_file: client-key.pem}
            tls: {ca_file: \(configuration.caFile)}
            binary: {feedback: {host: localhost, port: \(port), interval: \(interval)}}
            connections: {min: 0}
        """
    }

    /// Starts a simulator whose feedback service tells so many tokens, the first one made of a number.
    fileprivate func startFeedback(_ count: Int, from first: Int = 0, port: Int) throws -> RunningSimulator {
        try startSimulator(
            arguments: ["--feedback", "\(port)"]
                + (first..<first + count).flatMap { ["--feedback-token", "\(token($0))@\(1_700_000_000 + $0)"] })
    }

    /// The dead tokens there are, as objects.
    fileprivate func deadTokens() throws -> [[String: Any]] {
        try Self.run(
            Tool.kcat.path(),
            ["-C", "-q", "-e", "-b", servers, "-t", configuration.unregistered, "-o", "beginning", "-f", "%k %s\n"]
        ).text.split(separator: "\n").map { line in
            let parts = line.split(separator: " ", maxSplits: 1)
            var object = try JSONSerialization.jsonObject(with: Data(parts[1].utf8)) as? [String: Any] ?? [:]
            object["key"] = String(parts[0])
            return object
        }
    }

    /// Each of so many numbers is there once, with its time from `seconds` on.
    fileprivate func expectDeadTokens(_ count: Int, from seconds: Int, of app: String = "old") throws {
        let dead = try deadTokens()
        #expect(dead.count == count)
        #expect(Set(dead.compactMap { $0["key"] as? String }) == Set((0..<count).map(token)))
        for object in dead {
            let text = object["device_token"] as? String ?? ""
            let isRight =
                object["key"] as? String == text
                && object["unregistered_at_ms"] as? Int == (seconds + (Int(text, radix: 16) ?? -1)) * 1_000
                && object["reason"] as? String == "Feedback" && object["app"] as? String == app
                && object["environment"] as? String == "development"
                && object["apns_topic"] as? String == "com.example.app" && object["observed_at_ms"] is Int
            if !isRight {
                Issue.record("\(object)")
                break
            }
        }
    }
}

extension EndToEnd.Feedback {
    /// The feedback service beside a running worker, and the command that reads it.
    @Suite(.serialized) struct FeedbackTests {
        private func feedback(_ scene: Scene, _ more: String...) throws -> Scene.Finished {
            try scene.write(scene.configuration.text, to: "worker.yaml")
            return try Scene.run(
                Tool.worker.path(), ["feedback", "--config", scene.file("worker.yaml")] + more, within: 60)
        }

        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(3)))
        func aWorkerWritesWhatItIsTold() throws {
            let scene = try Scene("feedback", partitions: 4)
            let port = KafkaBroker.freePorts(1)[0]
            let simulator = try scene.startFeedback(10_000, port: port)
            scene.configuration.admin = "127.0.0.1:0"
            scene.configuration.apps = scene.feedbackApp(port: port, interval: "1s")
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            let tokens = "apns_worker_feedback_tokens_total{app=\"old\"}"
            try pages.await("/metrics") { $0.1.contains("\(tokens) 10000\n") }
            try scene.expectDeadTokens(10_000, from: 1_700_000_000)
            // Read again each second, and told nothing.
            try pages.await("/metrics") {
                $0.1.contains(/feedback_reads_total\{app="old",outcome="complete"\} ([3-9]|\d\d)/)
            }
            #expect(try pages.get("/metrics").1.contains("\(tokens) 10000\n"))

            // Gone, and back at the same port with more.
            try simulator.process.stop()
            try pages.await("/status") {
                $0.1.contains("app old") && $0.1.contains("feedback cannot be read: localhost:\(port)")
            }
            let second = try scene.startFeedback(10, from: 10_000, port: port)
            try pages.await("/metrics") { $0.1.contains("\(tokens) 10010\n") }
            try pages.await("/status") { !$0.1.contains("feedback cannot be read") }

            // Another service, by SIGHUP, and then none.
            let other = KafkaBroker.freePorts(1)[0]
            let third = try RunningSimulator(
                in: scene.folder,
                ["--feedback", "\(other)", "--feedback-token", "\(token(10_010))@\(1_700_010_010)"])
            scene.configuration.apps = scene.feedbackApp(port: other, interval: "1s")
            try scene.reload(worker, saying: "configuration reloaded")
            #expect(!worker.text.contains("its connections are made anew app=old"), "connections to the gateway go on")
            try pages.await("/metrics") { $0.1.contains("\(tokens) 10011\n") }
            scene.configuration.apps = ""
            try scene.reload(worker, saying: "app removed")
            let reads = try pages.get("/metrics").1.components(separatedBy: "\n")
                .filter { $0.contains("feedback_reads_total{") }
            usleep(2_500_000)
            #expect(
                try pages.get("/metrics").1.components(separatedBy: "\n")
                    .filter { $0.contains("feedback_reads_total{") } == reads)
            try scene.expectDeadTokens(10_011, from: 1_700_000_000)
            try scene.stop(worker)
            for process in [second.process, third.process] { try process.stop() }
        }

        @Test(.needs(.worker, .broker, .python, .kcat), .timeLimit(.minutes(2)))
        func theCommandReadsOnce() throws {
            let scene = try Scene("feedback", partitions: 4)
            let none = try feedback(scene)
            #expect(none.ending == .exited(78) && none.text.contains("no app of the configuration has binary.feedback"))
            let port = KafkaBroker.freePorts(1)[0]
            let simulator = try scene.startFeedback(1_000, port: port)
            scene.configuration.apps = scene.feedbackApp(port: port, interval: "0")
            // Looked at, and not asked: nothing of the list is gone.
            let checked = try scene.startWorker("check")
            _ = try checked.wait(seconds: 60)
            let words =
                "fine: app old: its feedback service localhost:\(port) reached at 127.0.0.1:\(port), and not asked"
            #expect(checked.text.contains(words), "\(checked.text)")
            let unknown = try feedback(scene, "--app", "shop")
            #expect(unknown.ending == .exited(64) && unknown.text.contains("there is old"), "\(unknown.text)")
            let first = try feedback(scene, "--app", "old")
            #expect(first.ending == .exited(0), "\(first.text)")
            #expect(first.text == "old: 1000 dead tokens written to \(scene.configuration.unregistered)\n")
            try scene.expectDeadTokens(1_000, from: 1_700_000_000)
            let second = try feedback(scene)
            #expect(second.ending == .exited(0) && second.text.hasPrefix("old: 0 dead tokens"), "\(second.text)")
            // Nobody listens; and Kafka is not there, so nobody is asked.
            try simulator.process.stop()
            let refused = try feedback(scene)
            #expect(refused.ending == .exited(1) && refused.text.contains("Connection refused"), "\(refused.text)")
            scene.configuration.servers = "127.0.0.1:\(KafkaBroker.freePorts(1)[0])"
            let unheard = try feedback(scene, "--deadline", "3s")
            #expect(unheard.ending == .exited(1), "\(unheard.text)")
            #expect(unheard.text.contains("nothing is read before Kafka can take it"), "\(unheard.text)")
            #expect(unheard.text.contains("old: was not read; it has lost nothing"), "\(unheard.text)")
        }
    }
}

extension EndToEnd.Feedback {
    /// The broker goes while the list is read, of which the service keeps nothing.
    @Suite(.serialized) struct FeedbackOutageTests {
        /// Away for most of the time: others would wait for it.
        private static let broker = Result<KafkaBroker, any Error> {
            try KafkaBroker(home: try #require(KafkaBroker.home))
        }

        private static let count = 40_000

        /// A service that waits after half of its list (`Books/feedback.py`).
        private func startService(_ scene: Scene) throws -> (process: ChildProcess, port: Int) {
            try scene.makeCertificate()
            for (from, to) in [("server.pem", "client.pem"), ("server.key", "client-key.pem")] {
                try FileManager.default.copyItem(atPath: scene.file(from), toPath: scene.file(to))
            }
            scene.configuration.caFile = "server.pem"
            let port = KafkaBroker.freePorts(1)[0]
            let program = URL(fileURLWithPath: Scene.program).deletingLastPathComponent().appending(path: "feedback.py")
            let process = try ChildProcess(
                Tool.python.path(),
                [program.path, "\(port)", scene.file("server.pem"), scene.file("server.key"), "\(Self.count)"])
            try process.waitFor("listening", seconds: 20)
            return (process, port)
        }

        @Test(
            .needs(.worker, .broker, .python, .kcat), .ownBroker, .timeLimit(.minutes(4)),
            arguments: ["run", "feedback"])
        func whatWasReadArrivesWhenItIsBack(_ command: String) throws {
            let broker = try Self.broker.get()
            let scene = try Scene("feedback", partitions: 4, on: broker)
            try scene.makeSigningKey(scene.configuration.keyFile)
            let service = try startService(scene)
            scene.configuration.apps = scene.feedbackApp(port: service.port, interval: "24h")
            scene.configuration.more = "drain: {shutdown: 90s}"
            let process = try scene.startWorker(command)
            try service.process.waitFor("half is told", seconds: 60)
            try broker.stop(kill: true)
            service.process.write("go on\n")
            try service.process.waitFor("all is told", seconds: 20)
            usleep(3_000_000)
            #expect(process.ended == nil, "\(process.text)")
            // The worker is asked to end meanwhile, and has `drain.shutdown` to write the rest.
            if command == "run" { process.signal(SIGTERM) }
            try broker.start()
            #expect(try process.wait(seconds: 120) == .exited(0), "\(process.text)")
            if command == "feedback" {
                #expect(process.text.contains("old: \(Self.count) dead tokens written to "), "\(process.text)")
            }
            #expect(!process.text.contains("LOST"))
            try scene.expectDeadTokens(Self.count, from: 0)
        }

        /// Where the broker does not come back in time, it is said how many nobody has.
        @Test(.needs(.worker, .broker, .python), .ownBroker, .timeLimit(.minutes(4)), arguments: ["run", "feedback"])
        func whatIsLostIsSaid(_ command: String) throws {
            let broker = try Self.broker.get()
            let scene = try Scene("feedback", partitions: 4, on: broker)
            try scene.makeSigningKey(scene.configuration.keyFile)
            let service = try startService(scene)
            scene.configuration.apps = scene.feedbackApp(port: service.port, interval: "24h")
            scene.configuration.more = "drain: {shutdown: 1s}"
            let process = try scene.startWorker(command)
            try service.process.waitFor("half is told", seconds: 60)
            try broker.stop(kill: true)
            service.process.write("go on\n")
            try service.process.waitFor("all is told", seconds: 20)
            process.signal(SIGTERM)
            if command == "feedback" {
                usleep(1_000_000)
                process.signal(SIGTERM)
            }
            let ending = try process.wait(seconds: 60)
            try broker.start()
            #expect(ending == .exited(command == "run" ? 0 : 1), "\(process.text)")
            #expect(process.text.contains("DEAD TOKENS ARE LOST"), "\(process.text)")
            let count = try #require(process.text.firstMatch(of: /app=old lost=(\d+) written=(\d+)/), "\(process.text)")
            #expect(Int(count.1).map { $0 >= Self.count / 2 } == true && Int(count.1)! + Int(count.2)! == Self.count)
            #expect(!process.text.contains("000000000000"), "no token is in the log")
            if command == "feedback" { #expect(process.text.contains("\(count.1) dead tokens are lost: ")) }
        }
    }
}
