import TestSupport
import Testing

/// Returns a dead token: a number with as many digits as a token.
private func token(_ number: Int) -> String { hex(number, digits: 64) }

extension Scene {
    /// Makes the worker read an app's feedback.
    fileprivate func readFeedback(port: Int, interval: String) {
        configuration.apps = """
              - name: old
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

    /// Starts a simulator whose feedback service returns `count` tokens, made from numbers beginning with `first`.
    fileprivate func startFeedback(_ count: Int, from first: Int = 0, port: Int) throws -> RunningSimulator {
        try startOtherSimulator(
            arguments: ["--feedback", "\(port)"]
                + (first..<first + count).flatMap { ["--feedback-token", "\(token($0))@\(1_700_000_000 + $0)"] })
    }

    /// Expects one record for each of these numbers, with the name of the app.
    fileprivate func expectDeadTokens(_ count: Int) throws {
        let dead = try records(of: configuration.unregistered, "%k %s")
        #expect(dead.map { $0.prefix(64) }.sorted() == (0..<count).map { token($0)[...] })
        #expect(dead.allSatisfy { $0.contains(#""app":"old","environment":"development","reason":"Feedback""#) })
    }
}

extension EndToEnd {
    /// Tests of the feedback service with a running worker, and of the command that reads it. `FeedbackReaderTests`
    /// also test unavailable brokers.
    @Suite struct FeedbackTests {
        @Test(.needs(.worker, .broker, .kcat))
        func `A worker produces the tokens of the feedback service`() throws {
            let scene = try Scene("feedback")
            let count = 1_000
            // The service will restart on the same port.
            let port = Ports.claim()
            let first = try scene.startFeedback(count, port: port)
            scene.readFeedback(port: port, interval: "1s")
            let (worker, pages) = try scene.startWorkerWithPages()
            let tokens = "apns_worker_feedback_tokens_total{app=\"old\"}"
            try pages.await("/metrics", says: "\(tokens) \(count)\n")
            try scene.expectDeadTokens(count)
            // The service is read again each second, and returns nothing.
            let again = try pages.await("/metrics") {
                $0.1.contains(/feedback_reads_total\{app="old",outcome="complete"\} ([3-9]|\d\d)/)
            }
            #expect(again.contains("\(tokens) \(count)\n"))

            try first.process.stop()
            try pages.await("/status", says: "app old", "feedback cannot be read: localhost:\(port)")
            _ = try scene.startFeedback(10, from: count, port: port)
            try pages.await("/metrics", says: "\(tokens) \(count + 10)\n")
            try pages.await("/status") { !$0.1.contains("feedback cannot be read") }

            // A SIGHUP changes the service, and a second one removes it.
            let other = try scene.startFeedback(1, from: count + 10, port: 0)
            scene.readFeedback(port: try other.process.port(after: "feedback service on"), interval: "1s")
            try scene.reload(worker, saying: "configuration reloaded")
            #expect(!worker.text.contains("app changed, reconnecting app=old"), "connections to the gateway continue")
            try pages.await("/metrics", says: "\(tokens) \(count + 11)\n")
            scene.configuration.apps = ""
            try scene.reload(worker, saying: "app removed")
            try pages.await("/status") { !$0.1.contains(#""name":"old""#) }
            try scene.expectDeadTokens(count + 11)
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `The command feedback reads the service once`() throws {
            let scene = try Scene("feedback")
            try scene.configure()
            try scene.command("feedback").expect(78, "no app of the configuration has binary.feedback")
            _ = try scene.startSimulator()
            // In the end, nothing listens on this port.
            let port = Ports.claim()
            let simulator = try scene.startFeedback(1_000, port: port)
            scene.readFeedback(port: port, interval: "0")
            // The check connects but does not read, so no token is deleted from the list.
            let words =
                "fine: app old: the feedback service localhost:\(port) reached at 127.0.0.1:\(port); TLS and the certificate were not tested"
            #expect(try scene.check().text.contains(words))
            try scene.command("feedback --app shop").expect(64, "expected one of old")
            let first = try scene.command("feedback --app old").expect(0)
            #expect(first.text == "old: 1000 dead tokens written to \(scene.configuration.unregistered)\n")
            try scene.expectDeadTokens(1_000)
            try scene.command("feedback").expect(0, "old: 0 dead tokens")
            // First the service is stopped. Then Kafka is unreachable, so no service is read.
            try simulator.process.stop()
            try scene.command("feedback").expect(1, "Connection refused")
            scene.configuration.servers = "127.0.0.1:\(Ports.claim())"
            try scene.configure()
            try scene.command("feedback --deadline 3s").expect(
                1, "waiting for Kafka before reading", "old: its feedback service was not read, so no tokens are lost")
        }
    }
}
