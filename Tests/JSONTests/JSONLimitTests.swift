import Testing

@testable import JSON

/// Numbers at the bounds, and texts that may take so many bytes and no more.
@Suite struct JSONLimitTests {
    @Test(
        arguments: [
            ("9223372036854775807", .max), ("-9223372036854775808", .min), ("9223372036854775808", nil),
            ("-9223372036854775809", nil), ("99999999999999999999999", nil), ("-0", 0), ("1e3", nil), ("1.0", nil),
        ] as [(String, Int64?)])
    func `Integers`(text: String, expected: Int64?) throws {
        let bytes = Array(text.utf8)
        let found = bytes.withUnsafeBytes { bytes -> Int64? in
            guard var reader = try? JSONReader(bytes) else { return nil }
            return try? reader.integer()
        }
        #expect(found == expected)
    }

    /// What is written within a limit is the longest piece of whole characters that fits, escaped.
    @Test func `Escaped within a limit`() {
        let pieces: [[UInt8]] = [
            Array("a".utf8), Array("\"".utf8), [0x01], Array("é".utf8), Array("€".utf8), Array("𝄞".utf8), [0xFF],
            [0x5C], [0x0A], [0x7F], [0xC3],
        ]
        for first in pieces {
            for second in pieces {
                let text = Array((0..<40).map { $0 % 2 == 0 ? first : second }.joined())
                for limit in 0...130 {
                    var json = JSONWriter(capacity: 16)
                    json.out.append("x")
                    text.withUnsafeBytes { json.escaped($0, limit: limit) }
                    let written = json.out.count - 1
                    var whole = JSONWriter()
                    text.withUnsafeBytes { whole.escaped($0) }
                    let isPrefix = whole.text.utf8.starts(with: json.text.utf8.dropFirst())
                    if written > limit || !isPrefix || (whole.out.count > limit && written + 6 <= limit) {
                        Issue.record("\(first) \(second) \(limit): \(written) bytes")
                    }
                }
            }
        }
    }
}
