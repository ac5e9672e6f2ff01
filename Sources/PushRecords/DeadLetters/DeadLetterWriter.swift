/// Writes the headers of dead letters (`apns.dead-letters`): the record's own, untouched, then `push-dlq-*`. Key and
/// value are the record's own bytes. Reuses its buffers; not thread-safe.
package struct DeadLetterWriter: ~Copyable {
    package init() {
        fatalError("not yet")
    }

    /// The headers of a record's dead letter; lent until the next call, and as long as `original`.
    ///
    /// - Parameters:
    ///   - place: topic, partition and offset of the record; its index is not used.
    ///   - truncatedBytes: size of the value that the broker refused as too large, when it is left out.
    package mutating func headers(
        original: UnsafeBufferPointer<RecordHeader>, place: RequestPlace, timestampMs: Int64,
        reason: DeadLetterReason, detail: Detail, truncatedBytes: Int? = nil
    ) -> UnsafeBufferPointer<RecordHeader> {
        fatalError("not yet")
    }
}
