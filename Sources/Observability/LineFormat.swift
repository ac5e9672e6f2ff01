import Glibc

/// How a log line is written.
package enum LineFormat: String, CaseIterable, Sendable {
    /// `2026-01-31T12:00:00.000Z warning kafka: message name=value`, for people.
    case text
    /// One JSON object a line.
    case json
}

/// What one line says.
struct Line {
    var wallMs: Int64
    var level: Level
    var part: Part
    var message: StaticString
    var fields: Fields
    /// How many lines like this one were left out since the last that was written.
    var repeated: Int
    /// When the first and the last of those left out came (`repeated_first`, `repeated_last`).
    var leftOutMs: (first: Int64, last: Int64)?

    static let maxValueBytes = 1_000

    /// Appends the line and its newline.
    func write(as format: LineFormat, to output: inout [UInt8]) {
        switch format {
        case .text: writeText(to: &output)
        case .json: writeJSON(to: &output)
        }
    }

    /// The fields, and what tells of those left out.
    private var pairs: [(name: StaticString, value: Fields.Value)] {
        guard repeated > 0 else { return fields.pairs }
        var all = fields
        all.append("repeated", .count(repeated))
        if let leftOutMs {
            all.append("repeated_first", .text(Timestamp(wallMs: leftOutMs.first).text))
            all.append("repeated_last", .text(Timestamp(wallMs: leftOutMs.last).text))
        }
        return all.pairs
    }

    private func writeText(to output: inout [UInt8]) {
        Timestamp(wallMs: wallMs).write(to: &output)
        output.append(UInt8(ascii: " "))
        output.append(contentsOf: level.rawValue.utf8)
        output.append(UInt8(ascii: " "))
        output.append(contentsOf: part.rawValue.utf8)
        output.append(contentsOf: ": ".utf8)
        output.append(message)
        for (name, value) in pairs {
            output.append(UInt8(ascii: " "))
            output.append(name)
            output.append(UInt8(ascii: "="))
            switch value {
            case .text(let text) where Self.isBare(text): output.append(contentsOf: text.utf8)
            case .text(let text): output.appendQuoted(text, maxBytes: Self.maxValueBytes)
            case .integer(let number): output.append(contentsOf: String(number).utf8)
            case .boolean(let flag): output.append(contentsOf: (flag ? "true" : "false").utf8)
            case .token(let token): output.append(contentsOf: token.description.utf8)
            }
        }
        output.append(UInt8(ascii: "\n"))
    }

    private func writeJSON(to output: inout [UInt8]) {
        output.append(contentsOf: "{\"time\":\"".utf8)
        Timestamp(wallMs: wallMs).write(to: &output)
        output.append(contentsOf: "\",\"level\":\"\(level.rawValue)\",\"part\":\"\(part.rawValue)\",\"message\":".utf8)
        output.appendQuoted(message.description, maxBytes: Self.maxValueBytes)
        for (name, value) in pairs {
            output.append(contentsOf: ",\"".utf8)
            output.append(name)
            output.append(contentsOf: "\":".utf8)
            switch value {
            case .text(let text): output.appendQuoted(text, maxBytes: Self.maxValueBytes)
            case .integer(let number): output.append(contentsOf: String(number).utf8)
            case .boolean(let flag): output.append(contentsOf: (flag ? "true" : "false").utf8)
            case .token(let token): output.appendQuoted(token.description, maxBytes: Self.maxValueBytes)
            }
        }
        output.append(contentsOf: "}\n".utf8)
    }

    /// Needs no quotes in a text line: not empty, printable ASCII without space, quote, backslash or equals sign.
    private static func isBare(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= maxValueBytes
            && text.utf8.allSatisfy { byte in
                byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
                    && byte != UInt8(ascii: "=")
            }
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) {
        text.withUTF8Buffer { unsafe append(contentsOf: $0) }
    }

    /// A JSON string (RFC 8259, section 7) of at most `maxBytes` of the text; `…` where it was cut.
    fileprivate mutating func appendQuoted(_ text: String, maxBytes: Int) {
        append(UInt8(ascii: "\""))
        var room = maxBytes
        for scalar in text.unicodeScalars {
            let size = UTF8.width(scalar)
            guard size <= room else {
                append(contentsOf: "…".utf8)
                break
            }
            room -= size
            switch scalar {
            case "\"": append(contentsOf: "\\\"".utf8)
            case "\\": append(contentsOf: "\\\\".utf8)
            case "\n": append(contentsOf: "\\n".utf8)
            case "\r": append(contentsOf: "\\r".utf8)
            case "\t": append(contentsOf: "\\t".utf8)
            // Other controls, C1 included: they would steer the terminal that shows the log.
            case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}":
                let digits = String(scalar.value, radix: 16)
                append(contentsOf: ("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8)
            default: append(contentsOf: UTF8.encode(scalar)!)
            }
        }
        append(UInt8(ascii: "\""))
    }
}

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

/// A message whose parts put names before each other's causes, `kafka: kafka: …`, `localhost:443 cannot be reached:
/// localhost:443: …`, with each name once.
///
/// Who passes an error on names the thing it is about, and so did who found it; neither can know of the other. So this
/// runs where messages leave: what stands before a `: `, but for the last part, is left out when it stood before it
/// already.
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
    /// Whether `part` is all of it, its end, or one of its words.
    fileprivate func names(_ part: Substring) -> Bool {
        guard !part.isEmpty else { return false }
        if part.contains(" ") { return self == part || hasSuffix(" \(part)") }
        return split(separator: " ").contains(part)
    }
}
