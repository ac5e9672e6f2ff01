import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd.Records {
    /// Topics whose `max.message.bytes` is below what the worker may have to write: each notification still ends, in a
    /// smaller record, and nothing is tried for ever.
    @Suite(.serialized) struct TooLargeTests {
        private struct Result: Decodable {
            var outcome: String
            var detail: String?
            var attempts: Int
        }

        /// Bytes that no codec makes fewer of.
        private func noise(_ count: Int) -> String {
            Data((0..<count).map { _ in UInt8.random(in: 0...255) }).base64EncodedString().prefix(count)
                .replacingOccurrences(of: "/", with: "-")
        }

        @Test(.needs(.worker, .broker, .python, .kcat, .curl), .timeLimit(.minutes(4)))
        func whatIsTooLargeIsWrittenSmaller() throws {
            let scene = try Scene("too-large", partitions: 1)
            let simulator = try scene.startSimulator()
            scene.configuration.results = "\(scene.name).small-results"
            scene.configuration.retry = "\(scene.name).small-retry.1s"
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry)}, max_attempts: 2"
            scene.configuration.deadLetters = "\(scene.name).small-dead-letters"
            for (topic, bytes) in [("results", 1_100), ("retry.1s", 800), ("dead-letters", 1_200)] {
                let size = [KafkaProperty("max.message.bytes", "\(bytes)")]
                try scene.create("\(scene.name).small-\(topic)", partitions: 1, configuration: size)
            }
            (scene.configuration.resultKeys, scene.configuration.admin) = ("copy_headers: [note]", "127.0.0.1:0")
            let worker = try scene.startWorker()
            let pages = try Pages(of: worker)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }

            func tokens(_ prefix: String, _ first: Int) -> [String] {
                (first..<(first + 20)).map { prefix + hex($0, digits: 64 - prefix.count) }
            }
            func write(_ tokens: [String], _ value: String, header: String? = nil) throws {
                try scene.write(tokens.map { "\($0):\(value)" }.joined(separator: "\n") + "\n", to: "lines.txt")
                let ended = try Scene.run(
                    Tool.kcat.path(),
                    [
                        "-P", "-b", scene.servers, "-t", scene.configuration.requests, "-K:", "-l",
                        scene.file("lines.txt"),
                    ] + (header.map { ["-H", "note=\($0)"] } ?? []))
                guard ended.ending == .exited(0) else { throw Unexpected("kcat: \(ended.text)") }
            }
            let plain = #"{"aps":{"alert":"Hi"}}"#
            let large = #"{"aps":{"alert":"\#(noise(900))"}}"#
            // Answered 429 once, then accepted.
            let once = "fa1742911"
            let good = tokens("", 0), noted = tokens("", 100), after = tokens("", 200)
            let again = tokens(once, 300), largeAgain = tokens(once, 400), notedAgain = tokens(once, 500)
            try write(good, plain)
            try write(noted, plain, header: noise(1_000))
            try write(again, plain)
            try write(largeAgain, large)
            try write(notedAgain, plain, header: noise(1_000))
            // Not JSON: dead letters, too large by their value, then by their key alone.
            try write(tokens("", 600), noise(3_000))
            try write(tokens("", 700).map { $0 + noise(1_500) }, noise(3_000))
            try write(after, plain)
            let everybody = good + noted + after + again + largeAgain + notedAgain
            do {
                try scene.awaitResults(everybody.count)
            } catch {
                throw Unexpected("\(error)\n\(try pages.get("/status"))\n\(worker.text.suffix(8_000))")
            }
            try scene.settle(worker)
            // Nothing is tried on: nothing is refused, and nobody is blamed.
            try pages.await("/status", within: 20) {
                $0.1.contains(#""health":"fine""#) && !$0.1.contains(#""subject":"#)
                    && $0.1.contains(#""open_notifications":0,"unacknowledged_records":0"#)
            }

            // Each topic's are counted and named, and said once.
            let metrics = try pages.get("/metrics").1, status = try pages.get("/status").1
            let topics = scene.configuration
            for (topic, records) in [(topics.results, 20), (topics.retry, 40), (topics.deadLetters, 40)] {
                #expect(
                    metrics.contains("\napns_worker_too_large_records_total{topic=\"\(topic)\"} \(records)\n"),
                    "\(metrics.suffix(2_000))")
                #expect(status.contains(#"{"topic":"\#(topic)","records":\#(records)}"#), "\(status)")
                let said = worker.text.split(separator: "\n").filter {
                    $0.contains("too large for its topic") && $0.contains("topic=\(topic) ")
                }
                #expect(said.count == 1, "\(said)")
            }

            // As `%k %s`, so that a token that was left out is known by its key.
            let lines = try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.results, "-o", "beginning", "-f",
                    "%k %s\n",
                ]
            ).text.split(separator: "\n")
            var results: [String: Result] = [:]
            for line in lines {
                let parts = line.split(separator: " ", maxSplits: 1)
                let result = try JSONDecoder().decode(Result.self, from: Data(try #require(parts.last).utf8))
                #expect(results.updateValue(result, forKey: String(parts[0])) == nil, "\(line)")
            }
            #expect(Set(results.keys) == Set(everybody))
            func expect(_ tokens: [String], _ outcome: String, attempts: Int, detail: String?) {
                for token in tokens {
                    let result = results[token]
                    #expect(result?.outcome == outcome && result?.attempts == attempts, "\(token): \(result as Any)")
                    #expect(detail.map { result?.detail?.contains($0) == true } ?? (result?.detail == nil))
                }
            }
            expect(good + after, "accepted", attempts: 1, detail: nil)
            expect(noted, "accepted", attempts: 1, detail: "refused the whole result as too large")
            expect(again, "accepted", attempts: 2, detail: nil)
            expect(largeAgain + notedAgain, "abandoned", attempts: 1, detail: "the retry topic refuses a record of")

            let letters = try Scene.run(
                Tool.kcat.path(),
                [
                    "-C", "-q", "-e", "-b", scene.servers, "-t", scene.configuration.deadLetters, "-o", "beginning",
                    "-f", "%h\n",
                ]
            ).text.split(separator: "\n")
            #expect(letters.count == 40)
            var places: Set<Substring> = []
            for letter in letters {
                #expect(letter.contains("push-dlq-reason=not-json") && letter.contains("push-dlq-truncated=3000"))
                places.insert(try #require(letter.firstMatch(of: /push-dlq-offset=([0-9]+)/)).1)
            }
            #expect(places.count == 40)
            #expect(letters.count { $0.contains("push-dlq-key-truncated=1564") } == 20)
            try scene.stop(worker)
            try simulator.process.stop()
        }
    }
}
