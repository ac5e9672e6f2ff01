/// The largest size, in bytes, of every text that is read from a record and written into one.
///
/// `RequestParser` cuts or refuses what is longer before anything is stored, counted or copied, and the writers cut
/// once more, by the escaped length: one control character takes six bytes in JSON. So every record that the worker
/// writes has a largest size, whatever it read; the sums stand here, and tests compare them with what the writers
/// write.
package enum RecordLimits {
    // MARK: What is kept of a request; `TextHeader` has the limits of its own

    /// `apns-topic`.
    package static let topic = 255
    package static let channelID = 200
    /// Hex digits of a device token, and bytes of what is not one.
    package static let deviceToken = 200
    /// An app's name; the configuration has the same limit.
    package static let app = 100
    /// A record's key where results name it. What is longer is cut.
    package static let key = 512
    /// The piece of input that a detail is about.
    package static let detailSubject = 100
    /// Headers carried on to results, and the bytes (names and values) in them. What is beyond is left out.
    package static let copiedHeaders = 32
    package static let copiedBytes = 1_024
    /// A reason: Apple's longest has 26.
    package static let reason = 64
    /// `push-retry-attempt`, `-sends` and `-in-doubt`: larger numbers are read as this one, so that counting on from it
    /// cannot overflow.
    package static let count: Int32 = 1_000_000
    /// A Kafka topic's name (Kafka's own limit).
    package static let kafkaTopic = 249
    /// An app's own `apns-topic`: a bundle id of at most 155 bytes, and what the push type puts behind it.
    package static let appTopic = 180

    // MARK: What is written, escaped

    /// `apns-topic` in JSON: whole unless it has quotes, backslashes or what is refused anyway.
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
    /// What a retry record may have more than the record it came from.
    package static let retryGrowth = 1_152
    /// What a dead letter may have more than its record.
    package static let deadLetterGrowth = 1_024
    /// The small form of what a broker refused as too large.
    package static let reduced = 1_024
    /// The first bytes of key and value in a reduced dead letter.
    package static let reducedBytes = 128

    // MARK: Sums

    /// Decimal digits and sign.
    private static let int64 = 20
    private static let int32 = 11
    private static let uuid = NotificationUUID.textCount
    private static let quotes = 2
    private static let environment = "development".utf8.count
    private static let outcome = "unregistered".utf8.count
    private static let pushType = "fileprovider".utf8.count

    /// `topic/partition/offset/index`.
    static let place = kafkaTopic + 1 + int32 + 1 + int64 + 1 + int32

    /// The value of a result: its names, brackets and commas, then what they hold.
    static let largestResultValue =
        277 + (quotes + uuid) + (quotes + uniqueID) + (quotes + deviceToken) + (quotes + topicText) + (quotes + app)
        + (quotes + environment) + (quotes + outcome) + 5 + (quotes + reason) + (quotes + detail) + int64 + 2 * int32
        + 3 * int64 + (quotes + kafkaTopic) + int32 + int64 + int32 + (quotes + key)

    /// A result: key, value, and `outcome`, `reason` and the copied headers.
    package static let largestResult =
        deviceToken + largestResultValue + (7 + outcome) + (6 + reason) + copiedBytes

    /// A dead token: key and value.
    package static let largestUnregistered =
        deviceToken + 103 + (quotes + deviceToken) + (quotes + topicText) + (quotes + app) + (quotes + environment)
        + (quotes + reason) + 2 * int64

    /// What a retry record has and the record it came from may not have: the app's topic, what was left to defaults,
    /// the app that was found, the one that was tried before, the order, and where the key does not say the token, a
    /// key beside it. Token, payload, key and copied headers stood in that record, too, and so did when it is to be
    /// sent, under a name that may be five letters shorter.
    package static let largestRetryGrowth =
        (10 + appTopic) + (14 + pushType) + (13 + 1) + (7 + uuid) + (8 + app) + (16 + environment)
        + (18 + kafkaTopic + 1 + 10 + 1 + 19 + 1 + 4) + (18 + 7) + (17 + 15) + (19 + 15) + (17 + reason) + (16 + 7)
        + (19 + 7) + (14 + broadcastKey) + (16 + app) + 5

    /// What a dead letter has more than its record.
    package static let largestDeadLetterGrowth =
        (15 + reason) + (15 + detail) + (14 + kafkaTopic) + (18 + int32) + (15 + int64) + (18 + int64) + (18 + int64)

    /// A reduced dead letter: the same, with the key's size, and the first bytes of both.
    static let largestReducedDeadLetter =
        largestDeadLetterGrowth - detail + reducedBytes + (22 + int64) + 2 * reducedBytes
}

extension UnsafeRawBufferPointer {
    /// At most the first `limit` bytes.
    func cut(_ limit: Int) -> UnsafeRawBufferPointer {
        count <= limit ? self : UnsafeRawBufferPointer(rebasing: self[..<limit])
    }

    /// At most the first `limit` bytes, and no broken character at their end where the bytes are UTF-8.
    @inline(__always)
    func cutText(_ limit: Int) -> UnsafeRawBufferPointer { count <= limit ? self : cutCharacters(limit) }

    @inline(never)
    private func cutCharacters(_ limit: Int) -> UnsafeRawBufferPointer {
        var end = limit
        // A character has at most three bytes behind its first.
        while end > 0, limit - end < 3, self[end] & 0xC0 == 0x80 { end -= 1 }
        if self[end] & 0xC0 == 0x80 { end = limit }
        return UnsafeRawBufferPointer(rebasing: self[..<end])
    }
}

extension String {
    /// At most its first `limit` bytes; a character that is broken by that becomes U+FFFD.
    package func cut(utf8 limit: Int) -> String {
        utf8.count <= limit ? self : String(decoding: utf8.prefix(limit), as: UTF8.self)
    }
}

/// Times in records, in milliseconds since the epoch, and the arithmetic on them.
///
/// Whoever writes a record chooses its timestamp and its headers: Kafka takes any 64 bits. So each time from outside
/// passes `checked` once, where it comes in. Behind it a sum or difference of two times, or of a time and a clock's
/// reading, cannot overflow; with a length from outside use the functions here, which saturate.
package enum RecordTime {
    /// No time is known. Kafka says it with -1 (and old clients with 0); such a record has no age, so it is never too
    /// old.
    package static let unknown: Int64 = 0
    /// 9999-12-31T23:59:59.999Z, the last one that RFC 3339 can write.
    package static let latestMs: Int64 = 253_402_300_799_999

    /// The time, or `unknown` when it is not one of 1 to `latestMs`.
    @inlinable package static func checked(_ ms: Int64) -> Int64 {
        UInt64(bitPattern: ms) <= UInt64(bitPattern: latestMs) ? ms : unknown
    }

    /// `ms` and a length of time, kept within 1 and `latestMs`; what is unknown stays so.
    @inlinable package static func adding(_ delayMs: Int64, to ms: Int64) -> Int64 {
        let start = checked(ms)
        guard start != unknown else { return unknown }
        let (sum, overflows) = start.addingReportingOverflow(delayMs)
        if overflows { return delayMs < 0 ? 1 : latestMs }
        return min(max(sum, 1), latestMs)
    }

    /// From when a request's age counts: from its timestamp, or from when it is to be sent, where that is later.
    /// Without a timestamp it has no age.
    ///
    /// - Parameter seconds: since the epoch; 0: at once.
    @inlinable package static func start(_ ms: Int64, notBefore seconds: UInt32) -> Int64 {
        ms == unknown ? unknown : max(ms, Int64(seconds) &* 1_000)
    }

    /// How long ago `ms` was, 0 when it is unknown or still to come. Takes any two numbers.
    @inlinable package static func age(of ms: Int64, nowMs: Int64) -> Int64 {
        let start = checked(ms)
        return start == unknown ? 0 : max(0, checked(nowMs) - start)
    }
}
