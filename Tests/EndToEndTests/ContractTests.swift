import Foundation
import Kafka
import TestSupport
import Testing

extension EndToEnd {
    /// Tests every outcome, member and header in every topic.
    @Suite struct ContractTests {
        /// The tiers' delays in seconds. Users' tiers are used one after the other from 30 s on. `1 30 31` tests that
        /// in two minutes.
        static let tiers = (ProcessInfo.processInfo.environment["APNS_WORKER_E2E_TIERS"] ?? "1 3")
            .split(separator: " ").compactMap { Int($0) }
        private static let deadLetterBytes = 20_000

        @Test(.needs(.worker, .broker, .python), arguments: [false, true])
        func `Every member and header agrees with the contract`(hasOtherSettings: Bool) throws {
            let scene = try Scene("contract")
            let topics = Self.tiers.map { "\(scene.name).tier.\($0)s" }
            for topic in topics { try scene.create(topic) }
            let pairs = zip(Self.tiers, topics).map { "\($0)s: \($1)" }.joined(separator: ", ")
            scene.configuration.retries = "tiers: {\(pairs)}, max_attempts: 2"
            // The dead-letter topic accepts only short records.
            scene.configuration.deadLetters = "\(scene.name).short"
            try scene.create(
                scene.configuration.deadLetters,
                configuration: [KafkaProperty("max.message.bytes", "\(Self.deadLetterBytes)")])
            _ = try scene.startSimulator()
            scene.configuration.apps = scene.configuration.app(named: "annex")
            scene.configuration.resultKeys = "copy_headers: [x-tenant]"
            scene.configuration.more = "delivery: {response_timeout: 1s, resend_max: 1, max_age: 240s}"
            if hasOtherSettings {
                scene.configuration.resultKeys += ", publish: failures"
                scene.configuration.unregisteredKeys = "include_bad_tokens: true"
                scene.configuration.more = "delivery: {in_doubt: abandon, apns_id: apple}"
            }
            let worker = try scene.startAssignedWorker()
            let tiers = zip(Self.tiers, topics).map { "\($0 * 1000)=\($1)" }
            let options = ["--max-message", "\(Self.deadLetterBytes)", "--tiers"] + tiers
            try scene.explain(worker) {
                try scene.books("contract", options + (hasOtherSettings ? ["--other"] : []))
            }
            try scene.stop(worker)
        }

        @Test(.needs(.worker, .broker, .python, .kcat))
        func `A removed tier is read until it is empty`() throws {
            let scene = try Scene("left")
            let left = "\(scene.name).left"
            try scene.create(left)
            let kept = scene.configuration.retries
            scene.configuration.retries = "tiers: {1s: \(scene.configuration.retry), 6s: \(left)}"
            let first = try scene.startWorker()
            // Each token is answered TooManyRequests once.
            let tokens = deviceTokens(100, "fa1742911")
            try scene.send(to: tokens)
            try scene.await(left, holds: tokens.count, of: first)
            try scene.stop(first)

            scene.configuration.retries = kept
            let second = try scene.startWorker()
            try second.waitFor("removed retry topic found, reading its remaining records topic=\(left)")
            try scene.finish(second, retryTopics: [left])
            // The removed tier's own delay applies, not that of a configured tier.
            let due = try scene.records(of: left, "%k %h").compactMap { line in
                try #require(line.firstMatch(of: /^(\S+) .*push-retry-due-ms=(\d+)/)).output
            }
            let dueByToken = Dictionary(due.map { ($0.1, Int($0.2) ?? .max) }, uniquingKeysWith: max)
            let results = try scene.resultObjects()
            #expect(results.count == tokens.count)
            for result in results {
                let token = result["device_token"] as? String ?? ""
                #expect(result["outcome"] as? String == "accepted", "\(result)")
                // sent_at_ms is the time at which the network thread's turn began, so it may be a little early.
                #expect(result["settled_at_ms"] as? Int ?? 0 >= dueByToken[token[...]] ?? .max, "\(result)")
            }

            let third = try scene.startWorker()
            try third.waitFor("partitions assigned")
            try scene.stop(third)
            #expect(!third.text.contains(left), "\(third.text)")
        }
    }
}
