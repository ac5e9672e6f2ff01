import Glibc
internal import Observability

/// Parsers of option values. Each throws an error that describes the valid values.
package enum OptionValue {
    package static func integer(_ text: String, _ range: ClosedRange<Int>) throws(UsageError) -> Int {
        try accept(
            text, "a whole number from \(range.lowerBound) to \(range.upperBound)",
            Int(text).flatMap { range.contains($0) ? $0 : nil })
    }

    package static func duration(_ text: String) throws(UsageError) -> Duration {
        try accept(text, "a duration such as 250ms, 30s, 15m or 2h", Quantity.duration(text))
    }

    package static func topicName(_ text: String) throws(UsageError) -> String {
        try accept(
            text, "a topic's name: 1 to 249 letters, digits, dots, hyphens or underscores",
            isTopicName(text) && !text.isEmpty ? text : nil)
    }

    /// Parses a rate such as `100/s`.
    package static func rate(_ text: String) throws(UsageError) -> Int {
        let number = text.hasSuffix("/s") ? Int(text.dropLast(2)) : nil
        return try accept(
            text, "a rate per second, from 1/s to 1000000/s",
            number.flatMap { (1...1_000_000).contains($0) ? $0 : nil })
    }

    package static func moment(_ text: String) throws(UsageError) -> Moment {
        try accept(
            text, "a time such as 2026-01-31T12:00:00Z, or a duration before now, such as 15m or 48h", Moment(text))
    }

    package static func text(_ text: String) throws(UsageError) -> String {
        guard !text.isEmpty else { throw UsageError("must not be empty") }
        return text
    }

    package static func choice<T: RawRepresentable & CaseIterable>(_ text: String) throws(UsageError) -> T
    where T.RawValue == String {
        try accept(text, "one of \(T.allCases.map(\.rawValue).joined(separator: ", "))", T(rawValue: text))
    }

    package static func accept<T>(_ text: String, _ expectation: String, _ value: T?) throws(UsageError) -> T {
        guard let value else { throw UsageError("expected \(expectation), found \(quoted(text))") }
        return value
    }
}

/// A time on a command line: RFC 3339 with an offset from UTC, or a duration before now.
package enum Moment: Hashable, Sendable {
    case at(Int64)
    case ago(Duration)

    /// Parses `2026-01-31T12:00:00Z`, `2026-01-31T12:00:00.250+01:00`, or a duration such as `15m`.
    package init?(_ text: String) {
        if let duration = Quantity.duration(text) {
            self = .ago(duration)
        } else if let ms = Self.milliseconds(text) {
            self = .at(ms)
        } else {
            return nil
        }
    }

    /// Returns the time in milliseconds since the epoch, at least 0.
    package func ms(nowMs: Int64) -> Int64 {
        switch self {
        case .at(let ms): ms
        case .ago(let duration): max(0, nowMs - duration.milliseconds)
        }
    }

    private static func milliseconds(_ text: String) -> Int64? {
        guard
            let match = text.wholeMatch(
                of: /(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))/
                    .asciiOnlyDigits())
        else { return nil }
        func number(_ digits: Substring?) -> Int64 { digits.flatMap { Int64($0) } ?? 0 }
        let text = "\(match.1)T\(match.2)"
        let numbers = text.split { !$0.isNumber }.compactMap { Int32($0) }
        var parts = unsafe tm()
        unsafe (parts.tm_year, parts.tm_mon, parts.tm_mday) = (numbers[0] - 1_900, numbers[1] - 1, numbers[2])
        unsafe (parts.tm_hour, parts.tm_min, parts.tm_sec) = (numbers[3], numbers[4], numbers[5])
        let seconds = Int64(unsafe timegm(&parts))
        // Reject dates such as 31 February, which timegm(3) normalizes to a day in March.
        guard Timestamp(wallMs: seconds * 1_000).text.hasPrefix(text) else { return nil }
        let (hours, minutes) = (number(match.5), number(match.6))
        guard hours < 24, minutes < 60 else { return nil }
        let offset = (hours * 3_600 + minutes * 60) * (match.4 == "-" ? -1 : 1)
        let ms = (seconds - offset) * 1_000 + number(match.3.map { ($0 + "00").prefix(3) })
        return ms >= 0 ? ms : nil
    }
}
