internal import Kafka
internal import PushRecords

/// Which notifications were taken before: a notification may have several results, after a crash above all, and is asked for
/// once. It knows those of the last `limit` at least and of twice as many at most; it never takes one for another.
struct RequestMemory {
    /// Some 32 bytes each, in two halves.
    static let limit = 2_000_000

    private struct Entry: Hashable {
        var offset: Int64
        var log: Int32
        var index: Int32
    }

    private let limit: Int
    private var logs: [TopicPartition: Int32] = [:]
    private var recent: Set<Entry> = []
    private var older: Set<Entry> = []

    init(limit: Int = Self.limit) { self.limit = limit }

    /// Whether it was not known before.
    mutating func insert(_ request: DeliveryResult.Request) -> Bool {
        insert(TopicPartition(request.topic, request.partition), request.offset, request.index)
    }

    /// - Parameter index: -1: of a whole record, or batch.
    mutating func insert(_ log: TopicPartition, _ offset: Int64, _ index: Int32) -> Bool {
        let number = logs[log] ?? Int32(clamping: logs.count)
        logs[log] = number
        let entry = Entry(offset: offset, log: number, index: index)
        guard !recent.contains(entry), !older.contains(entry) else { return false }
        if recent.count >= limit {
            older = recent
            recent = []
        }
        recent.insert(entry)
        return true
    }
}
