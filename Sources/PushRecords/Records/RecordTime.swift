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
