import Kafka
import PushRecords

@testable import Replay

let source = TopicPartition("apns.results", 0)
let other = TopicPartition("apns.results", 1)
let device = String(repeating: "a1", count: 32)

/// A result as the worker writes it.
func result(
    _ offset: Int64, index: Int32 = 0, partition: Int32 = 3, outcome: Outcome = .rejected,
    reason: String? = "BadTopic", app: String? = "shop", settledAtMs: Int64 = 5_000, requestedAtMs: Int64 = 1_000,
    topic: String = "apns.requests", device: String = device
) -> String {
    func text(_ word: String?) -> String { word.map { "\"\($0)\"" } ?? "null" }
    return """
        {"outcome":"\(outcome.rawValue)","reason":\(text(reason)),"app":\(text(app)),"device_token":"\(device)",
         "requested_at_ms":\(requestedAtMs),"settled_at_ms":\(settledAtMs),
         "request":{"topic":"\(topic)","partition":\(partition),"offset":\(offset),"index":\(index)}}
        """
}

/// A dead letter as the worker writes it.
func letter(
    _ reason: String, offset: Int64 = 7, last: Int64? = nil, truncated: Int? = nil, value: String? = "{",
    own: [(String, String)] = [], topic: String = "apns.requests", partition: Int32 = 3, atMs: Int64 = 1_000
) -> OwnedRecord {
    var headers =
        own + [
            ("push-dlq-reason", reason), ("push-dlq-topic", topic), ("push-dlq-partition", "\(partition)"),
            ("push-dlq-offset", "\(offset)"), ("push-dlq-timestamp", "\(atMs)"),
        ]
    if let last { headers.append(("push-dlq-last-offset", "\(last)")) }
    if let truncated { headers.append(("push-dlq-truncated", "\(truncated)")) }
    return OwnedRecord(
        key: Array("key".utf8), value: value.map { Array($0.utf8) },
        headers: headers.map { OwnedRecord.Header(Array($0.0.utf8), Array($0.1.utf8)) })
}

func order(_ from: ReplaySource = .results, _ change: (inout ReplaySelection) -> Void = { _ in }) -> ReplayOrder {
    var selection = ReplaySelection()
    change(&selection)
    let topics = ReplayTopics(retries: ["apns.retry.30s"]) { $0 == "apns.requests" }
    return ReplayOrder(
        from, topic: "apns.results", selection, of: topics, group: "g.replay.j", fingerprint: "0123456789abcdef")
}

func facts(since sinceMs: Int64? = nil) -> JobFacts {
    JobFacts(fingerprint: "0123456789abcdef", beganMs: 9_000, sinceMs: sinceMs, untilMs: nil)
}

func job(_ ends: [TopicPartition: Int64] = [source: 100]) -> JobProgress {
    JobProgress(facts(), ends.mapValues { 0..<$0 })
}

extension Gatherer {
    var unmatched: [String] { progress.unmatched(places).map { "\($0)" } }

    mutating func take(
        _ offset: Int64, _ record: OwnedRecord, of partition: TopicPartition = source, atMs: Int64 = 5_000
    ) {
        record.withLent { key, value, headers in
            take(
                SourceRecord(
                    partition: partition, offset: offset, timestampMs: atMs, key: key, value: value, headers: headers))
        }
    }

    mutating func take(_ offset: Int64, _ value: String?, of partition: TopicPartition = source) {
        take(offset, OwnedRecord(key: nil, value: value.map { Array($0.utf8) }, headers: []), of: partition)
    }
}

extension ReplayBatch {
    var places: [String] { items.map(\.place) }
}
