import JSON

/// Writes the headers of dead letters (`apns.dead-letters`): the record's own, then `push-dlq-*`, which take at most
/// `RecordLimits.deadLetterGrowth` bytes. Key and value are the record's own. Reuses its buffers; not thread-safe.
package struct DeadLetterWriter: ~Copyable {
    private var words = JSONWriter(capacity: 2_048)
    private var text = HeaderText()
    private var list = RecordHeaderList()

    package init() {}

    /// Writes the headers of a record's dead letter; lent until the next call, and as long as `original` is.
    ///
    /// - Parameters:
    ///   - place: topic, partition and offset of the record; its index is not used.
    ///   - truncatedBytes: size of a value that is left out, because the broker refused it as too large.
    package mutating func headers(
        original: UnsafeBufferPointer<RecordHeader>, place: RequestPlace, timestampMs: Int64,
        reason: DeadLetterReason, detail: Detail, truncatedBytes: Int? = nil
    ) -> UnsafeBufferPointer<RecordHeader> {
        list.removeAll()
        text.removeAll()
        words.removeAll()
        list.append(contentsOf: original)
        list.append("push-dlq-reason", reason.text.lentBytes)
        if !detail.isEmpty {
            // Escaped as in a result, so that the header's value is printable UTF-8.
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

/// Why no notification can be read from a record.
package enum DeadLetterReason: UInt8, CaseIterable, Sendable {
    /// The value is null.
    case tombstone
    /// The value is not JSON (RFC 8259), or nested deeper than `JSONScanner.depthLimit`, which its detail says.
    case notJSON
    /// Payload form without a device token or channel id; an envelope whose list is empty.
    case noDeviceToken
    /// An envelope whose shape leaves no token to be read.
    case badEnvelope
    /// More than `RequestParser.tokenLimit`.
    case tooManyTokens
    /// A record of a retry topic whose `push-retry-*` headers are missing or cannot be read.
    case badRetryHeaders
    /// The worker died at it twice. It was not parsed.
    case workerCrashed
    /// Its headers cannot be read. They are not in the dead letter.
    case unreadableHeaders

    /// Value of `push-dlq-reason`.
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

    /// The detail of a record that was not parsed. The parser writes the others.
    var unreadDetail: StaticString {
        switch self {
        case .workerCrashed: "the worker died at this record twice"
        case .unreadableHeaders: "its headers cannot be read"
        case .tombstone, .notJSON, .noDeviceToken, .badEnvelope, .tooManyTokens, .badRetryHeaders: ""
        }
    }
}
