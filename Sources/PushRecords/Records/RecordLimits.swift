/// The largest sizes, in bytes, of texts in records.
///
/// `RequestParser` cuts or refuses a longer text before anything is stored, counted or copied. The writers cut again,
/// by the escaped length: one control character takes six bytes in JSON. So every record that the worker writes has a
/// largest size, whatever it reads.
package enum RecordLimits {
    // MARK: Texts of a request

    /// `apns-topic`.
    package static let topic = 255
    /// `apns-collapse-id`. Source: "Sending notification requests to APNs".
    package static let collapseID = 64
    package static let channelID = 200
    /// Hex digits of a device token, or bytes of a text that is none.
    package static let deviceToken = 200
    /// An app's name; the configuration has the same limit.
    package static let app = 100
    /// A record's key where results name it. A longer one is cut.
    package static let key = 512
    /// The piece of input that a detail is about.
    package static let detailSubject = 100
    /// Headers that are copied to results, and the bytes (names and values) in them. The rest is left out.
    package static let copiedHeaders = 32
    package static let copiedBytes = 1_024
    /// A reason: Apple's longest has 26.
    package static let reason = 64
    /// `push-retry-attempt`, `-sends` and `-in-doubt`. Larger numbers are read as this one, so that adding to them
    /// cannot overflow.
    package static let count: Int32 = 1_000_000
    /// A Kafka topic's name (Kafka's own limit), and how much of a group's id a retry record names.
    package static let kafkaTopic = 249

    // MARK: Escaped texts

    /// `apns-topic` in JSON. It is cut only if it has quotes, backslashes or bytes that are refused anyway.
    package static let topicText = 256
    package static let uniqueID = 100
    package static let detail = 256
    /// The key of a broadcast's retry record: it only chooses the partition.
    package static let broadcastKey = 64

    // MARK: Whole records: key, value, names and values of headers

    /// A record of the result topic.
    package static let result = 4_096
    /// A record of the dead-token topic.
    package static let unregistered = 1_024
    /// What a retry record may add to the size of its request.
    package static let retryGrowth = 1_472
    /// What a dead letter may add to the size of its record.
    package static let deadLetterGrowth = 1_024
    /// The reduced form of a record that a broker refused as too large.
    package static let reduced = 1_024
    /// The first bytes of key and value in a reduced dead letter.
    package static let reducedBytes = 128

    /// `topic/partition/offset/index`.
    static let place = kafkaTopic + 1 + 11 + 1 + 20 + 1 + 11
}

extension UnsafeRawBufferPointer {
    /// At most the first `limit` bytes.
    func cut(_ limit: Int) -> UnsafeRawBufferPointer {
        count <= limit ? self : UnsafeRawBufferPointer(rebasing: self[..<limit])
    }

    /// At most the first `limit` bytes, without a cut character at the end if the bytes are UTF-8.
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
    /// At most its first `limit` bytes; a character that is cut becomes U+FFFD.
    package func cut(utf8 limit: Int) -> String {
        utf8.count <= limit ? self : String(decoding: utf8.prefix(limit), as: UTF8.self)
    }
}

/// Arithmetic on times in records, in milliseconds since the epoch.
///
/// Kafka accepts any 64 bits as a timestamp. Each time from outside passes `checked` once: then sums and differences of
/// two times, or of a time and the clock, cannot overflow. With a duration from outside use the functions here, which
/// saturate.
package enum RecordTime {
    /// No time: Kafka writes -1, old clients 0. Such a record has no age, so it is never too old.
    package static let unknown: Int64 = 0
    /// 9999-12-31T23:59:59.999Z, the last time of RFC 3339.
    package static let latestMs: Int64 = 253_402_300_799_999

    /// Returns the time, or `unknown` if it is not within 1 to `latestMs`.
    @inlinable package static func checked(_ ms: Int64) -> Int64 {
        UInt64(bitPattern: ms) <= UInt64(bitPattern: latestMs) ? ms : unknown
    }

    /// Returns `ms` plus a duration, clamped to 1 to `latestMs`. An unknown time stays unknown.
    @inlinable package static func adding(_ delayMs: Int64, to ms: Int64) -> Int64 {
        let start = checked(ms)
        guard start != unknown else { return unknown }
        let (sum, overflows) = start.addingReportingOverflow(delayMs)
        if overflows { return delayMs < 0 ? 1 : latestMs }
        return min(max(sum, 1), latestMs)
    }

    /// Returns when a request's age starts: at its timestamp or its not-before time, whichever is later. A request
    /// without a timestamp has no age.
    ///
    /// - Parameter seconds: since the epoch; 0: at once.
    @inlinable package static func start(_ ms: Int64, notBefore seconds: UInt32) -> Int64 {
        ms == unknown ? unknown : max(ms, Int64(seconds) &* 1_000)
    }

    /// Returns how long ago `ms` was, or 0 if it is unknown or in the future. Takes any two numbers.
    @inlinable package static func age(of ms: Int64, nowMs: Int64) -> Int64 {
        let start = checked(ms)
        return start == unknown ? 0 : max(0, checked(nowMs) - start)
    }
}
