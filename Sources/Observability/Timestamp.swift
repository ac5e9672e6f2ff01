import Glibc

/// A moment as RFC 3339 has it, in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
package struct Timestamp: Hashable, Sendable {
    /// Milliseconds since the epoch.
    package var wallMs: Int64

    package init(wallMs: Int64) { self.wallMs = wallMs }

    package static func now() -> Timestamp {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(wallMs: Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000)
    }

    package var text: String {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    func write(to output: inout [UInt8]) {
        // Rounded down, before the epoch too.
        var (quotient, milliseconds) = wallMs.quotientAndRemainder(dividingBy: 1_000)
        if milliseconds < 0 {
            milliseconds += 1_000
            quotient -= 1
        }
        var seconds = time_t(quotient)
        var parts = unsafe tm()
        guard unsafe gmtime_r(&seconds, &parts) != nil else {
            output.append(contentsOf: String(wallMs).utf8)
            return
        }
        unsafe output.append(parts.tm_year + 1_900, digits: 4)
        for (separator, number) in unsafe [
            ("-", parts.tm_mon + 1), ("-", parts.tm_mday), ("T", parts.tm_hour), (":", parts.tm_min),
            (":", parts.tm_sec),
        ] as [(StaticString, Int32)] {
            unsafe output.append(separator.utf8Start.pointee)
            output.append(number, digits: 2)
        }
        output.append(UInt8(ascii: "."))
        output.append(Int32(milliseconds), digits: 3)
        output.append(UInt8(ascii: "Z"))
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ number: Int32, digits: Int) {
        let text = String(number)
        for _ in text.utf8.count..<Swift.max(digits, text.utf8.count) { append(UInt8(ascii: "0")) }
        append(contentsOf: text.utf8)
    }
}
