import JSON

/// Writes the headers of dead letters (`apns.dead-letters`): the record's own, untouched, then `push-dlq-*`. Key and
/// value are the record's own bytes. Reuses its buffers; not thread-safe.
package struct DeadLetterWriter: ~Copyable {
    private var text = JSONWriter(capacity: 1_024)
    private var list = HeaderList()

    package init() {}

    /// The headers of a record's dead letter; lent until the next call, and as long as `original`.
    ///
    /// - Parameters:
    ///   - place: topic, partition and offset of the record; its index is not used.
    ///   - truncatedBytes: size of the value that the broker refused as too large, when it is left out.
    package mutating func headers(
        original: UnsafeBufferPointer<RecordHeader>, place: RequestPlace, timestampMs: Int64,
        reason: DeadLetterReason, detail: Detail, truncatedBytes: Int? = nil
    ) -> UnsafeBufferPointer<RecordHeader> {
        list.removeAll()
        text.removeAll()
        // Nothing moves below: the detail, of which each byte may be escaped, and four numbers.
        text.out.reserve(6 * (detail.text.utf8CodeUnitCount + Detail.subjectLimit) + 256)
        list.append(contentsOf: original)
        list.append("push-dlq-reason", reason.text.lentBytes)
        if !detail.isEmpty {
            // As in a result, without the quotes: whatever the subject is, the header's value is printable UTF-8.
            text.detail(detail)
            list.append("push-dlq-detail", text.out.bytes(from: 1, to: text.out.count - 1))
        }
        list.append("push-dlq-topic", place.topic)
        list.append("push-dlq-partition", text.out.appendLent(Int64(place.partition)))
        list.append("push-dlq-offset", text.out.appendLent(place.offset))
        list.append("push-dlq-timestamp", text.out.appendLent(timestampMs))
        if let truncatedBytes { list.append("push-dlq-truncated", text.out.appendLent(Int64(truncatedBytes))) }
        return list.list
    }
}
