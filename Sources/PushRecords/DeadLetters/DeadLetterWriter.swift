import JSON

/// A writer of the headers of dead letters (`apns.dead-letters`): the original record's headers, then at most
/// `RecordLimits.deadLetterGrowth` bytes of `push-dlq-*` headers. The dead letter's key and value are those of the
/// original record. The writer reuses its buffers and is not thread-safe.
package struct DeadLetterWriter: ~Copyable {
    private var words = JSONWriter(capacity: 2_048)
    private var text = HeaderText()
    private var list = RecordHeaderList()
    /// With more headers than this, the dead letter does not contain the original record's headers, because librdkafka
    /// cannot read a record with more than 100,000 headers.
    private static let copiedLimit = 99_990

    package init() {}

    /// Writes the headers of a record's dead letter. They are valid until the next call, and only while `original` and
    /// the topic of `place` are valid.
    ///
    /// - Parameters:
    ///   - place: The topic, partition and offset of the record. The index is ignored.
    ///   - truncatedBytes: The size of the original value in bytes, if the dead letter does not contain all of it.
    package mutating func headers(
        original: UnsafeBufferPointer<RecordHeader>, place: RequestPlace, timestampMs: Int64,
        reason: DeadLetterReason, detail: Detail, truncatedBytes: Int? = nil
    ) -> UnsafeBufferPointer<RecordHeader> {
        list.removeAll()
        text.removeAll()
        words.removeAll()
        if original.count <= Self.copiedLimit { list.append(contentsOf: original) }
        list.append("push-dlq-reason", reason.text.lentBytes)
        if !detail.isEmpty {
            // The detail is escaped like a JSON string, so that the header's value is printable UTF-8.
            words.detail(detail)
            list.append("push-dlq-detail", words.bytes)
        }
        list.append("push-dlq-topic", place.topic.cut(RecordLimits.kafkaTopic))
        list.append("push-dlq-partition", text.add(Int64(place.partition)))
        list.append("push-dlq-offset", text.add(place.offset))
        list.append("push-dlq-timestamp", text.add(timestampMs))
        if let truncatedBytes { list.append("push-dlq-truncated", text.add(Int64(truncatedBytes))) }
        return list.list
    }
}

/// The reason why a record of a request or retry topic becomes a dead letter.
package enum DeadLetterReason: UInt8, CaseIterable, Sendable {
    /// The record's value is null.
    case tombstone
    /// The record's value is not JSON (RFC 8259), or is nested deeper than `JSONScanner.depthLimit`.
    case notJSON
    /// A record in payload form has no device token or channel id, or an envelope's target is null or an empty list.
    case noDeviceToken
    /// The record is an envelope with several targets, or with a target of the wrong type.
    case badEnvelope
    /// The envelope's list has more than `RequestParser.tokenLimit` tokens.
    case tooManyTokens
    /// The `push-retry-*` headers of a record of a retry topic are missing or invalid.
    case badRetryHeaders
    /// The worker crashed twice while it processed the record, so it does not parse the record again.
    case workerCrashed
    /// librdkafka cannot read the record's headers. The dead letter does not contain them.
    case unreadableHeaders

    /// The value of `push-dlq-reason`.
    package var text: StaticString {
        switch self {
        case .tombstone: "tombstone"
        case .notJSON: "not-json"
        case .noDeviceToken: "no-device-token"
        case .badEnvelope: "bad-envelope"
        case .tooManyTokens: "too-many-tokens"
        case .badRetryHeaders: "bad-retry-headers"
        case .workerCrashed: "worker-crashed"
        case .unreadableHeaders: "unreadable-headers"
        }
    }

    /// The detail for a record that the worker does not parse. `RequestParser` writes the details of all other records.
    var unreadDetail: StaticString {
        switch self {
        case .workerCrashed: "the worker crashed twice while it processed this record"
        case .unreadableHeaders: "librdkafka cannot read the record's headers"
        case .tombstone, .notJSON, .noDeviceToken, .badEnvelope, .tooManyTokens, .badRetryHeaders: ""
        }
    }
}
