import JSON

/// Writes the headers of dead letters (`apns.dead-letters`): the record's own, untouched, then `push-dlq-*`. Key and
/// value are the record's own bytes; what is added has at most `RecordLimits.deadLetterGrowth`. Reuses its buffers; not
/// thread-safe.
package struct DeadLetterWriter: ~Copyable {
    private var words = JSONWriter(capacity: 2_048)
    private var text = HeaderText()
    private var list = RecordHeaderList()

    package init() {}

    /// The headers of a record's dead letter; lent until the next call, and as long as `original`.
    ///
    /// - Parameters:
    ///   - place: topic, partition and offset of the record; its index is not used.
    ///   - lastOffset: of the offsets it stands for, where that is a whole batch.
    ///   - truncatedBytes: size of the value that the broker refused as too large, when it is left out.
    package mutating func headers(
        original: UnsafeBufferPointer<RecordHeader>, place: RequestPlace, timestampMs: Int64,
        reason: DeadLetterReason, detail: Detail, lastOffset: Int64? = nil, truncatedBytes: Int? = nil
    ) -> UnsafeBufferPointer<RecordHeader> {
        list.removeAll()
        text.removeAll()
        words.removeAll()
        list.append(contentsOf: original)
        list.append("push-dlq-reason", reason.text.lentBytes)
        if !detail.isEmpty {
            // As in a result: whatever the subject is, the header's value is printable UTF-8.
            words.detail(detail)
            list.append("push-dlq-detail", words.bytes)
        }
        list.append("push-dlq-topic", place.topic.cut(RecordLimits.kafkaTopic))
        list.append("push-dlq-partition", text.add(Int64(place.partition)))
        list.append("push-dlq-offset", text.add(place.offset))
        if let lastOffset { list.append("push-dlq-last-offset", text.add(lastOffset)) }
        list.append("push-dlq-timestamp", text.add(timestampMs))
        if let truncatedBytes { list.append("push-dlq-truncated", text.add(Int64(truncatedBytes))) }
        return list.list
    }
}
