import Glibc

package enum LineFormat: String, CaseIterable, Sendable {
    /// Plain-text lines: `2026-01-31T12:00:00.000Z warning kafka: message name=value`.
    case text
    case json
}

struct Line {
    /// The repetitions of a line that were omitted since the line was last written.
    struct LeftOut {
        var count: Int
        var firstMs: Int64
        var lastMs: Int64
    }

    var wallMs: Int64
    var level: Level
    var part: Part
    var message: StaticString
    var fields: Fields
    var leftOut: LeftOut?

    private var pairs: [(name: StaticString, value: Fields.Value)] {
        guard let leftOut else { return fields.pairs }
        return fields.pairs + [
            ("repeated", .count(leftOut.count)),
            ("repeated_first", .text(Timestamp(wallMs: leftOut.firstMs).text)),
            ("repeated_last", .text(Timestamp(wallMs: leftOut.lastMs).text)),
        ]
    }

    func write(as format: LineFormat, to output: inout [UInt8]) {
        let time = Timestamp(wallMs: wallMs).text
        let isJSON = format == .json
        if isJSON {
            output += #"{"time":"\#(time)","level":"\#(level.rawValue)","part":"\#(part.rawValue)","#.utf8
            output += #""event":"\#(Self.event(of: message))","message":"#.utf8
            output.appendQuoted("\(message)")
        } else {
            output += "\(time) \(level.rawValue) \(part.rawValue): \(message)".utf8
        }
        for (name, value) in pairs {
            output += (isJSON ? ",\"\(name)\":" : " \(name)=").utf8
            switch value {
            case .text(let text) where !isJSON && Self.isBare(text): output += text.utf8
            case .text(let text): output.appendQuoted(text)
            case .integer(let number), .summed(let number): output += "\(number)".utf8
            case .boolean(let flag): output += "\(flag)".utf8
            }
        }
        output += (isJSON ? "}\n" : "\n").utf8
    }

    /// Returns the event's name for log searches: `partitions_assigned` for `partitions assigned`. The name is stable,
    /// because messages are static.
    private static func event(of message: StaticString) -> String {
        "\(message)".lowercased().split { !$0.isASCII || !$0.isLetter && !$0.isNumber }.joined(separator: "_")
    }

    /// Returns whether a value needs no quotes in a text line: 1 to `quotedLimit` bytes of printable ASCII, without a
    /// space, quote, backslash or equals sign.
    private static func isBare(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= [UInt8].quotedLimit
            && text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && !"\"\\=".utf8.contains($0) }
    }
}

extension [UInt8] {
    /// The maximum number of bytes of a value in a line. The logger cuts longer values and appends `…`.
    fileprivate static var quotedLimit: Int { 1_000 }

    /// Appends a quoted JSON string (RFC 8259, section 7). A text of more than `quotedLimit` bytes is cut and ends with
    /// `…`.
    fileprivate mutating func appendQuoted(_ text: String) {
        append(UInt8(ascii: "\""))
        var room = Self.quotedLimit
        for scalar in text.unicodeScalars {
            room -= UTF8.width(scalar)
            guard room >= 0 else {
                self += "…".utf8
                break
            }
            switch scalar {
            case "\"": self += "\\\"".utf8
            case "\\": self += "\\\\".utf8
            case "\n": self += "\\n".utf8
            case "\r": self += "\\r".utf8
            case "\t": self += "\\t".utf8
            // Control characters, including C1, are escaped because a terminal that shows the log would execute them.
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}": self += "\\u\(padded(Int32(scalar.value), 4, radix: 16))".utf8
            default: self += UTF8.encode(scalar)!
            }
        }
        append(UInt8(ascii: "\""))
    }
}

/// Returns a number with leading zeros, so that it has at least `digits` digits.
private func padded(_ number: Int32, _ digits: Int, radix: Int = 10) -> String {
    let text = String(number, radix: radix)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}

/// A time in RFC 3339 form, in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
package struct Timestamp: Hashable, Sendable {
    package var wallMs: Int64

    package init(wallMs: Int64) { self.wallMs = wallMs }

    package static func now() -> Timestamp { Timestamp(wallMs: nanoseconds(CLOCK_REALTIME) / 1_000_000) }

    package var text: String {
        // The seconds are rounded down, also for times before the epoch.
        var seconds = time_t(wallMs / 1_000 - (wallMs % 1_000 < 0 ? 1 : 0))
        var parts = unsafe tm()
        guard unsafe gmtime_r(&seconds, &parts) != nil else { return "\(wallMs)" }
        let year = unsafe padded(parts.tm_year + 1_900, 4)
        let (month, day) = unsafe (padded(parts.tm_mon + 1, 2), padded(parts.tm_mday, 2))
        let (hour, minute) = unsafe (padded(parts.tm_hour, 2), padded(parts.tm_min, 2))
        let (second, fraction) = unsafe (padded(parts.tm_sec, 2), padded(Int32((wallMs % 1_000 + 1_000) % 1_000), 3))
        return "\(year)-\(month)-\(day)T\(hour):\(minute):\(second).\(fraction)Z"
    }
}

func nanoseconds(_ clock: clockid_t) -> Int64 {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// Returns a message without repeated names: `localhost:443 cannot be reached: localhost:443: refused` becomes
/// `localhost:443 cannot be reached: refused`.
///
/// Both the code that detects an error and its callers may name the subject. The message is split at each `: `, and
/// every part but the last is dropped if an earlier part already contains it.
package func namesOnce(_ message: String) -> String {
    let separator = ": "
    var kept: [Substring] = []
    var rest = message[...]
    while let found = rest.firstRange(of: separator) {
        let part = rest[..<found.lowerBound]
        rest = rest[found.upperBound...]
        if !kept.contains(where: { $0.names(part) }) { kept.append(part) }
    }
    return (kept + [rest]).joined(separator: separator)
}

extension Substring {
    /// Returns whether this text already contains `part`: a single word anywhere, or several words at the end.
    fileprivate func names(_ part: Substring) -> Bool {
        guard !part.isEmpty else { return false }
        if part.contains(" ") { return self == part || hasSuffix(" \(part)") }
        return split(separator: " ").contains(part)
    }
}
