/// A record from which no notification could be read: a record of `apns.dead-letters`.
///
/// Key, value and headers are the request's own, so that it can be mended and produced again.
///
/// ```swift
/// let letter = try DeadLetter(key: message.key, value: message.value, headers: message.headers)
/// print(letter.place, letter.reason, letter.detail ?? "")
/// ```
public struct DeadLetter: Hashable, Sendable {
    /// `nil`: the record had none. Its first bytes where it was cut (`truncatedKeyBytes`).
    public var key: [UInt8]?
    /// `nil`: a tombstone, or left out; its first bytes where it was cut (`truncatedBytes`).
    public var value: [UInt8]?
    /// The record's own headers, those of this product (`push-dlq-…`) taken out. None where the value was cut.
    public var headers: [HeaderField]
    /// `tombstone`, `not-json`, `no-device-token`, `bad-envelope`, `too-many-tokens`, `bad-retry-headers`,
    /// `worker-crashed` or `unreadable-headers`; or `output-too-large` or `output-refused` of a record that the worker
    /// wrote, which its topic refused. Later versions may have more.
    public var reason: String
    /// In words, for people.
    public var detail: String?
    /// Where the record was.
    public var topic: String
    /// The topic's partition in which it was.
    public var partition: Int32
    /// Its place in the partition.
    public var offset: Int64
    /// The record's timestamp, in milliseconds since the epoch.
    public var timestampMs: Int64
    /// How many bytes the value had, where the broker refused the whole record as too large.
    public var truncatedBytes: Int?
    /// How many bytes the key had, where the broker refused the whole record as too large and it was cut.
    public var truncatedKeyBytes: Int?

    /// `topic/partition/offset`.
    public var place: String { "\(topic)/\(partition)/\(offset)" }
}

extension DeadLetter {
    /// Reads a dead letter. Throws what is wrong with its `push-dlq-…` headers.
    public init(
        key: [UInt8]?, value: [UInt8]?, headers: some Sequence<HeaderField>
    ) throws(RecordError) {
        var own: [HeaderField] = []
        var said: [String: String] = [:]
        for header in headers {
            guard header.name.hasPrefix("push-dlq-") else {
                own.append(header)
                continue
            }
            // The reason comes first; what came before is of an older dead letter that was produced again.
            if header.name == "push-dlq-reason" { said.removeAll() }
            said[header.name] = header.text
        }
        func number<I: FixedWidthInteger>(_ name: String) throws(RecordError) -> I? {
            guard let text = said[name] else { return nil }
            guard let number = I(text) else { throw RecordError("\(name): \"\(text)\" is not a number that fits") }
            return number
        }
        self.key = key
        self.value = value
        self.headers = own
        reason = try said["push-dlq-reason"].required("push-dlq-reason")
        detail = said["push-dlq-detail"]
        topic = try said["push-dlq-topic"].required("push-dlq-topic")
        partition = try number("push-dlq-partition").required("push-dlq-partition")
        offset = try number("push-dlq-offset").required("push-dlq-offset")
        timestampMs = try number("push-dlq-timestamp").required("push-dlq-timestamp")
        truncatedBytes = try number("push-dlq-truncated")
        truncatedKeyBytes = try number("push-dlq-key-truncated")
    }
}
