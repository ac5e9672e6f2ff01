/// A record from which no notification could be read: a record of `apns.dead-letters`.
///
/// Key, value and headers are the request's own, so that it can be corrected and produced again.
///
/// ```swift
/// let letter = try DeadLetter(key: message.key, value: message.value, headers: message.headers)
/// print(letter.place, letter.reason, letter.detail ?? "")
/// ```
public struct DeadLetter: Hashable, Sendable {
    /// The record's key, if it had one; its first bytes if it was cut (`truncatedKeyBytes`).
    public var key: [UInt8]?
    /// `nil` for a tombstone or if it was left out; its first bytes if it was cut (`truncatedBytes`).
    public var value: [UInt8]?
    /// The record's own headers, without `push-dlq-…`. None if the value was cut.
    public var headers: [HeaderField]
    /// `tombstone`, `not-json`, `no-device-token`, `bad-envelope`, `too-many-tokens`, `bad-retry-headers`,
    /// `worker-crashed` or `unreadable-headers`. For a record of the worker's own, which its topic refused,
    /// `output-too-large` or `output-refused`. Later versions may have more.
    public var reason: String
    /// An explanation for people.
    public var detail: String?
    /// The record's topic.
    public var topic: String
    /// The record's partition.
    public var partition: Int32
    /// The record's offset.
    public var offset: Int64
    /// The record's timestamp, in milliseconds since the epoch.
    public var timestampMs: Int64
    /// The size of the value in bytes, if the broker refused the whole record as too large.
    public var truncatedBytes: Int?
    /// The size of the key in bytes, if the broker refused the whole record as too large and the key was cut.
    public var truncatedKeyBytes: Int?

    /// `topic/partition/offset`.
    public var place: String { "\(topic)/\(partition)/\(offset)" }
}

extension DeadLetter {
    /// Reads a dead letter. Throws if a `push-dlq-…` header is missing or wrong.
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
            // The reason comes first. Earlier ones belong to an older dead letter that was produced again.
            if header.name == "push-dlq-reason" { added.removeAll() }
            added[header.name] = header.text
        }
        func number<I: FixedWidthInteger>(_ name: String) throws(RecordError) -> I? {
            guard let text = added[name] else { return nil }
            guard let number = I(text) else { throw RecordError("\(name): \"\(text)\" is not a number that fits") }
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
