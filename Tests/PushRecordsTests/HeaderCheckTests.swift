import Testing

@testable import PushRecords

/// The values that a header of a request to Apple may have.
@Suite struct HeaderCheckTests {
    /// The check reads eight bytes at a time and then the rest, so the test tries every position.
    @Test func `A header's value must be printable ASCII without spaces at its ends`() {
        for length in 1...20 {
            for place in 0..<length {
                for byte in UInt8.min ... .max {
                    for filler in [UInt8(ascii: "a"), 0x21, 0x7E] {
                        var bytes = Array(repeating: filler, count: length)
                        bytes[place] = byte
                        let isClean = bytes.withUnsafeBytes { HeaderCheck.isClean($0, limit: 20) }
                        let isEdge = place == 0 || place == length - 1
                        let expected = byte > 0x20 && byte < 0x7F || byte == 0x20 && !isEdge
                        if isClean != expected {
                            Issue.record("byte \(byte) at \(place) of \(length) among \(filler): \(isClean)")
                        }
                    }
                }
            }
        }
    }

    @Test func `A header's value must have at least one byte and at most the limit`() {
        for count in 0...260 {
            let isClean = Array(repeating: UInt8(ascii: "a"), count: count).withUnsafeBytes {
                HeaderCheck.isClean($0, limit: 255)
            }
            #expect(isClean == (count >= 1 && count <= 255))
        }
    }

    @Test(
        arguments: [
            ("0", 0), ("00000000000000000001", nil), ("999999999999999999", 999_999_999_999_999_999),
            ("9223372036854775807", .max), ("9223372036854775808", nil), ("9999999999999999999", nil), ("", nil),
            ("-1", nil), ("1a", nil), ("+1", nil), ("18446744073709551616", nil),
        ] as [(String, Int64?)])
    func `A header's number consists of digits only`(text: String, expected: Int64?) {
        #expect(Array(text.utf8).withUnsafeBytes { HeaderCheck.unsigned($0) } == expected)
    }
}
