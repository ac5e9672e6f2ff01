/// Reads records of request and retry topics: one validating pass over lent bytes, nothing decoded, nothing copied but
/// escaped header values of envelopes, no allocation per record.
///
/// Not thread-safe: one parser belongs to one thread. It never throws: what cannot be read is a dead letter, what is
/// wrong is `isInvalid`. What needs the configuration is left to the caller: the topic's default, whether topic and
/// push type fit the app, whether the expiration has passed.
package struct RequestParser: ~Copyable {
    /// Most tokens in one record.
    package static let tokenLimit = 10_000
    /// Most headers carried on to results, and most bytes (names and values) in them.
    package static let copiedHeaderLimit = 32
    package static let copiedByteLimit = 4_096
    package static let payloadLimit = 4_096
    /// For voip and for broadcasts.
    package static let largePayloadLimit = 5_120

    /// - Parameter copyHeaders: names (`results.copy_headers`) to carry on beside `traceparent` and `tracestate`.
    package init(copyHeaders: [String] = []) {
        fatalError("not yet")
    }

    /// Reads one record.
    ///
    /// - Parameters:
    ///   - key: a `nil` base address when the record has none.
    ///   - value: a `nil` base address is a tombstone; an empty one with a base address is an empty payload.
    package mutating func parse(
        key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        role: RecordRole
    ) -> ParsedRequest {
        fatalError("not yet")
    }
}
