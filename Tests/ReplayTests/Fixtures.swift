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
    _ reason: String, offset: Int64 = 7, truncated: Int? = nil, value: String? = "{", own: [(String, String)] = [],
    topic: String = "apns.requests", atMs: Int64 = 1_000
) -> OwnedRecord {
    var headers =
        own + [
            ("push-dlq-reason", reason), ("push-dlq-topic", topic), ("push-dlq-partition", "3"),
            ("push-dlq-offset", "\(offset)"), ("push-dlq-timestamp", "\(atMs)"),
        ]
    if let truncated { headers.append(("push-dlq-truncated", "\(truncated)")) }
    return OwnedRecord(
        key: Array("key".utf8), value: value.map { Array($0.utf8) },
        headers: headers.map { OwnedRecord.Header(Array($0.0.utf8), Array($0.1.utf8)) })
}

func order(_ from: ReplaySource = .results, _ change: (inout ReplaySelection) -> Void = { _ in }) -> ReplayOrder {
    var order = ReplayOrder()
    order.source = from
    change(&order.selection)
    order.fingerprint = "0123456789abcdef"
    order.isRequestTopic = { $0 == "apns.requests" }
    order.retryTopics = ["apns.retry.30s"]
    return order
}

func job(_ ends: [TopicPartition: Int64] = [source: 100], _ order: ReplayOrder = order()) -> ReplayJob {
    ReplayJob(order, ends.mapValues { 0..<$0 })
}

extension Gatherer {
    mutating func take(_ offset: Int64, _ record: OwnedRecord, of partition: TopicPartition = source) -> ReplayItem? {
        take(SourceRecord(partition: partition, offset: offset, timestampMs: 5_000, record: record))
    }

    mutating func take(_ offset: Int64, _ value: String?, of partition: TopicPartition = source) -> ReplayItem? {
        let record = OwnedRecord(key: nil, value: value.map { Array($0.utf8) }, headers: [])
        return take(offset, record, of: partition)
    }
}

extension ReplayItem {
    /// The action of the run, in words.
    var action: String {
        switch kind {
        case .notification: "fetch \(place)"
        case .truncatedLetter: "fetch whole \(place)"
        case .letter: "write \(place)"
        case .skipped(let kind, let remark): "\(kind)" + (remark.map { ": \($0)" } ?? "")
        }
    }
}
