/// A record of `apns.dead-letters`: a request that leads to no result, or an output record that the broker rejected.
///
/// Key, value and headers come from the original record, so that you can correct the record and produce it again.
///
/// ```swift
/// let letter = try DeadLetter(key: message.key, value: message.value, headers: message.headers)
/// print(letter.place, letter.reason, letter.detail ?? "")
/// ```
public struct DeadLetter: Hashable, Sendable {
    /// The original record's key, or its first bytes if `truncatedKeyBytes` is set. `nil` if the original record had no
    /// key. Exception: if `truncatedBytes` is set, the original record's position replaces a missing key.
    public var key: [UInt8]?
    /// The original record's value, or its first bytes if `truncatedBytes` is set. `nil` if the value was null (a
    /// tombstone) or was omitted.
    public var value: [UInt8]?
    /// The original record's headers, without `push-dlq-…`. The list is empty for an output record, for unreadable
    /// headers, or if `truncatedBytes` is set.
    public var headers: [HeaderField]
    /// The code of the reason: `tombstone`, `not-json`, `no-device-token`, `bad-envelope`, `too-many-tokens`,
    /// `bad-retry-headers`, `worker-crashed` or `unreadable-headers`. The dead letter of an output record has
    /// `output-too-large` or `output-refused`. Later versions may add codes.
    public var reason: String
    /// A human-readable explanation of the reason.
    public var detail: String?
    /// The original record's topic. For an output record, it is the topic of the request, or the output topic if the
    /// record names no request.
    public var topic: String
    /// The original record's partition. For an output record, it is the partition of the request, or -1 if the record
    /// names no request.
    public var partition: Int32
    /// The original record's offset. For an output record, it is the offset of the request, or -1 if the record names
    /// no request.
    public var offset: Int64
    /// The original record's timestamp in milliseconds since 1970 (UTC). For an output record, it is the time of the
    /// dead letter.
    public var timestampMs: Int64
    /// The original size of the value in bytes. Set only if the broker rejected the complete dead letter.
    public var truncatedBytes: Int?
    /// The original size of the key in bytes. Set only if the broker rejected the complete dead letter and the key was
    /// truncated.
    public var truncatedKeyBytes: Int?

    /// The text `topic/partition/offset`, which names the original record or, for an output record, the request.
    public var place: String { "\(topic)/\(partition)/\(offset)" }
}

extension DeadLetter {
    /// Creates a dead letter from a Kafka record. Throws if a `push-dlq-…` header is invalid, or a required one is
    /// missing.
    public init(
        key: [UInt8]?, value: [UInt8]?, headers: some Sequence<HeaderField>
    ) throws(RecordError) {
        var own: [HeaderField] = []
        var added: [String: String] = [:]
        for header in headers {
            guard header.name.hasPrefix("push-dlq-") else {
                own.append(header)
                continue
            }
            // The worker writes `push-dlq-reason` first, so `push-dlq-…` headers before it belong to an earlier dead
            // letter that was replayed.
            if header.name == "push-dlq-reason" { added.removeAll() }
            added[header.name] = header.text
        }
        func number<I: FixedWidthInteger>(_ name: String) throws(RecordError) -> I? {
            guard let text = added[name] else { return nil }
            guard let number = I(text) else { throw RecordError("\(name): \"\(text)\" is not an integer in range") }
            return number
        }
        self.key = key
        self.value = value
        self.headers = own
        reason = try added["push-dlq-reason"].required("push-dlq-reason")
        detail = added["push-dlq-detail"]
        topic = try added["push-dlq-topic"].required("push-dlq-topic")
        partition = try number("push-dlq-partition").required("push-dlq-partition")
        offset = try number("push-dlq-offset").required("push-dlq-offset")
        timestampMs = try number("push-dlq-timestamp").required("push-dlq-timestamp")
        truncatedBytes = try number("push-dlq-truncated")
        truncatedKeyBytes = try number("push-dlq-key-truncated")
    }
}
