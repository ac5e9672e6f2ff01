import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd {
    /// No record that a producer can write stops or crashes the worker, or makes it write or keep much more than it
    /// read.
    @Suite struct RecordLimitsTests {
        /// The limit of resident memory in MiB. A debug build with idle connections has about 60.
        private static let residentLimit = 512
        @Test(.needs(.worker, .broker, .python))
        func `A good record has its result, whatever record precedes it`() throws {
            let scene = try Scene("limits", partitions: 1)
            scene.configuration.more = "delivery: {max_age: 24h}"
            let worker = try scene.startAssignedWorker()
            let topics = scene.configuration
            try scene.explain(worker) {
                try scene.book("limits.py", [scene.servers, topics.requests, topics.retry, topics.results])
            }
            #expect(worker.ended == nil, "the worker ended: \(worker.text.suffix(4_000))")
            let resident = try worker.peakKilobytes / 1_024
            #expect(resident < Self.residentLimit, "\(resident) MiB")
            try scene.finish(worker)
        }

        /// Records without a value whose keys have the maximum size of a record: an incompressible megabyte.
        @Test(.needs(.worker, .broker, .python, .kcat))
        func `Large tombstones stay within the memory limit and delay nothing`() throws {
            let scene = try Scene("tombstones")
            let count = Long.isWanted ? 120 : 40
            try scene.change("tombstones", scene.configuration.requests, "\(count)", "1000000")
            try scene.send(to: deviceTokens(40, "33"))
            let worker = try scene.startWorker()
            try scene.awaitResults(40, of: worker)
            try scene.await(scene.configuration.deadLetters, holds: count, of: worker)
            #expect(try worker.peakKilobytes < 200_000)
            try scene.finish(worker)
            #expect(try scene.records(of: scene.configuration.deadLetters, "%o").count == count)
        }
    }

    /// Topics whose `max.message.bytes` is smaller than the worker's records. Each notification still ends, in a
    /// smaller record, and retries terminate.
    @Suite struct TooLargeTests {
        private struct Result: Decodable {
            var outcome: String
            var detail: String?
            var attempts: Int
        }

        /// Returns incompressible text.
        private func noise(_ count: Int) -> String {
            Data((0..<count).map { _ in UInt8.random(in: 0...255) }).base64EncodedString().prefix(count)
                .replacingOccurrences(of: "/", with: "-")
        }

        @Test(.needs(.worker, .broker, .kcat))
        func `A record that is too large is written in a reduced form`() throws {
            let scene = try Scene("too-large", partitions: 1)
            scene.configuration.results = "\(scene.name).small-results"
            scene.configuration.retry = "\(scene.name).small-retry.1s"
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry)}, max_attempts: 2"
            scene.configuration.deadLetters = "\(scene.name).small-dead-letters"
            for (topic, bytes) in [("results", 1_100), ("retry.1s", 800), ("dead-letters", 1_200)] {
                let size = [KafkaProperty("max.message.bytes", "\(bytes)")]
                try scene.create("\(scene.name).small-\(topic)", partitions: 1, configuration: size)
            }
            scene.configuration.resultKeys = "copy_headers: [note]"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)

            func tokens(_ prefix: String, _ first: Int) -> [String] { deviceTokens(20, prefix, from: first) }
            func write(_ tokens: [String], _ value: String, header: String? = nil) throws {
                try scene.kcat(tokens.map { "\($0):\(value)" }, headers: header.map { ["note=\($0)"] } ?? [])
            }
            let plain = #"{"aps":{"alert":"Hi"}}"#
            let large = #"{"aps":{"alert":"\#(noise(900))"}}"#
            // Tokens with this prefix are answered 429 once, then accepted.
            let once = "fa1742911"
            let good = tokens("", 0), noted = tokens("", 100), after = tokens("", 200)
            let again = tokens(once, 300), largeAgain = tokens(once, 400), notedAgain = tokens(once, 500)
            try write(good, plain)
            try write(noted, plain, header: noise(1_000))
            try write(again, plain)
            try write(largeAgain, large)
            try write(notedAgain, plain, header: noise(1_000))
            // These are not JSON, so they become dead letters. They are too large because of their value, or of their
            // key alone.
            try write(tokens("", 600), noise(3_000))
            try write(tokens("", 700).map { $0 + noise(1_500) }, noise(3_000))
            try write(after, plain)
            let everyToken = good + noted + after + again + largeAgain + notedAgain
            try scene.awaitResults(everyToken.count, of: worker)
            try scene.settle(worker)
            try pages.await("/status") {
                $0.1.contains(#""health":"fine""#) && !$0.1.contains(#""subject":"#)
                    && $0.1.contains(#""open_notifications":0,"unacknowledged_records":0"#)
            }

            // Each topic is counted, and logged once.
            let topics = scene.configuration
            for (topic, records) in [(topics.results, 20), (topics.retry, 40), (topics.deadLetters, 40)] {
                try pages.await(
                    "/metrics", says: "\napns_worker_too_large_records_total{topic=\"\(topic)\"} \(records)\n")
                try pages.await("/status", says: #"{"topic":"\#(topic)","records":\#(records)}"#)
                let said = worker.text.split(separator: "\n").filter {
                    $0.contains("too large for its topic") && $0.contains("topic=\(topic) ")
                }
                #expect(said.count == 1, "\(said)")
            }

            // The key contains the token where the value omits it.
            let lines = try scene.records(of: topics.results, "%k %s")
            var results: [String: Result] = [:]
            for line in lines {
                let parts = line.split(separator: " ", maxSplits: 1)
                let result = try JSONDecoder().decode(Result.self, from: Data(try #require(parts.last).utf8))
                #expect(results.updateValue(result, forKey: String(parts[0])) == nil, "\(line)")
            }
            #expect(Set(results.keys) == Set(everyToken))
            func expect(_ tokens: [String], _ outcome: String, attempts: Int, detail: String?) {
                for token in tokens {
                    let result = results[token]
                    #expect(result?.outcome == outcome && result?.attempts == attempts, "\(token): \(result as Any)")
                    #expect(detail.map { result?.detail?.contains($0) == true } ?? (result?.detail == nil))
                }
            }
            expect(good + after, "accepted", attempts: 1, detail: nil)
            expect(noted, "accepted", attempts: 1, detail: "rejected the whole result as too large")
            expect(again, "accepted", attempts: 2, detail: nil)
            expect(
                largeAgain + notedAgain, "abandoned", attempts: 1,
                detail: "the broker rejected the retry record as too large")

            let letters = try scene.records(of: topics.deadLetters, "%h")
            #expect(letters.count == 40)
            var places: Set<Substring> = []
            for letter in letters {
                #expect(letter.contains("push-dlq-reason=not-json") && letter.contains("push-dlq-truncated=3000"))
                places.insert(try #require(letter.firstMatch(of: /push-dlq-offset=([0-9]+)/)).1)
            }
            #expect(places.count == 40)
            #expect(letters.count { $0.contains("push-dlq-key-truncated=1564") } == 20)
            try scene.stop(worker)
        }
    }
}
