import Kafka
import PushRecords

/// A record that was read, in memory of its own.
struct ReadRecord {
    var partition: TopicPartition
    var offset: Int64
    /// Milliseconds since the epoch; -1: it has none.
    var timestampMs: Int64
    /// `nil`: null.
    var key: [UInt8]?
    /// `nil`: null.
    var value: [UInt8]?
    var headers: [HeaderField] = []

    init(_ message: borrowing Message, of partition: TopicPartition) {
        self.partition = partition
        offset = message.offset
        timestampMs = message.timestampMs
        key = message.key.baseAddress == nil ? nil : Array(message.key)
        value = message.value.baseAddress == nil ? nil : Array(message.value)
        var headers: [HeaderField] = []
        message.forEachHeader { name, value in
            headers.append(HeaderField(String(decoding: name, as: UTF8.self), Array(value)))
        }
        self.headers = headers
    }

    /// How much memory it takes, about.
    var size: Int { (key?.count ?? 0) + (value?.count ?? 0) + headers.reduce(100) { $0 + $1.value.count + 64 } }

    /// `topic/partition/offset`.
    var place: String { "\(partition)/\(offset)" }
}
