/// Limits for texts in records, in bytes.
///
/// `RequestParser` truncates or rejects a longer text before it is stored or copied. The writers also truncate the
/// escaped text, since one control character takes six bytes in JSON. Every record that the worker writes therefore has
/// a maximum size.
package enum RecordLimits {
    // MARK: Texts of a request

    /// The longest topic (`apns-topic`).
    package static let topic = 255
    /// The longest collapse id (`apns-collapse-id`). Source: "Sending notification requests to APNs".
    package static let collapseID = 64
    package static let channelID = 200
    /// The largest number of hex digits of a device token, or of bytes of an invalid token.
    package static let deviceToken = 200
    /// The longest name of an app. The configuration has the same limit.
    package static let app = 100
    /// The longest `request.key` of a result. A longer key is truncated.
    package static let key = 512
    /// The longest part of the input in a detail (`Detail.subject`).
    package static let detailSubject = 100
    /// The largest number of headers that the worker copies to a result. `copiedBytes` limits the total size of the
    /// names and values of these headers.
    package static let copiedHeaders = 32
    package static let copiedBytes = 1_024
    /// The longest text of a reason. Apple's longest reason has 27 bytes.
    package static let reason = 64
    /// The largest count in retry headers. The parser replaces larger counts with this one, so that additions cannot
    /// overflow.
    package static let count: Int32 = 1_000_000
    /// The longest name of a Kafka topic (Kafka's own limit), and the longest group id in a retry record.
    package static let kafkaTopic = 249

    // MARK: Escaped texts

    /// The longest value of `apns_topic` in JSON. Only a topic with characters that must be escaped can exceed this
    /// limit.
    package static let topicText = 256
    package static let uniqueID = 100
    package static let detail = 256
    /// The longest key of a broadcast's retry record. The key only selects the partition.
    package static let broadcastKey = 64

    // MARK: Whole records: key, value, and the names and values of headers

    /// The largest size of a record of the result topic.
    package static let result = 4_096
    /// The largest size of a record of the dead-token topic.
    package static let unregistered = 1_024
    /// The maximum number of bytes by which a retry record is larger than its request.
    package static let retryGrowth = 1_472
    /// The maximum number of bytes by which a dead letter is larger than the original record.
    package static let deadLetterGrowth = 1_024
    /// The largest size of the reduced form of a record that a broker rejected.
    package static let reduced = 1_024
    /// The maximum size of the key, and of the value, in a reduced dead letter. A longer key or value is truncated.
    package static let reducedBytes = 128

    /// The maximum length of the text `topic/partition/offset/index`.
    static let place = kafkaTopic + 1 + 11 + 1 + 20 + 1 + 11
}

extension UnsafeRawBufferPointer {
    /// Returns at most the first `limit` bytes.
    func cut(_ limit: Int) -> UnsafeRawBufferPointer {
        count <= limit ? self : UnsafeRawBufferPointer(rebasing: self[..<limit])
    }

    /// Returns at most the first `limit` bytes. UTF-8 text is truncated between characters.
    @inline(__always)
    func cutText(_ limit: Int) -> UnsafeRawBufferPointer { count <= limit ? self : cutCharacters(limit) }

    @inline(never)
    private func cutCharacters(_ limit: Int) -> UnsafeRawBufferPointer {
        var end = limit
        // A character has at most three continuation bytes.
        while end > 0, limit - end < 3, self[end] & 0xC0 == 0x80 { end -= 1 }
        if self[end] & 0xC0 == 0x80 { end = limit }
        return UnsafeRawBufferPointer(rebasing: self[..<end])
    }
}

extension String {
    /// Returns the text truncated after `limit` UTF-8 bytes. A character that is cut becomes U+FFFD, which can make the
    /// text two bytes longer than the limit.
    package func cut(utf8 limit: Int) -> String {
        utf8.count <= limit ? self : String(decoding: utf8.prefix(limit), as: UTF8.self)
    }
}

/// Arithmetic on timestamps in records, in milliseconds since the epoch. Kafka accepts any 64-bit number as a
/// timestamp. Pass each timestamp through `checked` once, so that sums and differences of two times cannot overflow.
/// For durations that can have any value, use the saturating functions of this type.
package enum RecordTime {
    /// The value of an unknown time. A record without a timestamp has the timestamp -1, or 0 from old clients. Such a
    /// record never exceeds a maximum age.
    package static let unknown: Int64 = 0
    /// 9999-12-31T23:59:59.999Z, the latest time of RFC 3339.
    package static let latestMs: Int64 = 253_402_300_799_999

    /// Returns the time if it is in the range from 1 to `latestMs`, or else `unknown`.
    @inlinable package static func checked(_ ms: Int64) -> Int64 {
        UInt64(bitPattern: ms) <= UInt64(bitPattern: latestMs) ? ms : unknown
    }

    /// Returns `ms` plus a duration, clamped to the range from 1 to `latestMs`. An unknown time stays unknown.
    @inlinable package static func adding(_ delayMs: Int64, to ms: Int64) -> Int64 {
        let start = checked(ms)
        guard start != unknown else { return unknown }
        let (sum, overflows) = start.addingReportingOverflow(delayMs)
        if overflows { return delayMs < 0 ? 1 : latestMs }
        return min(max(sum, 1), latestMs)
    }

    /// Returns the time from which a request's age counts: its timestamp or its not-before time, whichever is later.
    /// Returns `unknown` for a request without a timestamp.
    ///
    /// - Parameter seconds: The not-before time in seconds since the epoch, or 0 for none.
    @inlinable package static func start(_ ms: Int64, notBefore seconds: UInt32) -> Int64 {
        ms == unknown ? unknown : max(ms, Int64(seconds) &* 1_000)
    }

    /// Returns the time since `ms`, or 0 if `ms` is unknown or in the future. Both arguments may be any number.
    @inlinable package static func age(of ms: Int64, nowMs: Int64) -> Int64 {
        let start = checked(ms)
        return start == unknown ? 0 : max(0, checked(nowMs) - start)
    }
}
