@testable import JSON
import Testing

func scan(_ bytes: [UInt8]) -> JSONScan {
    bytes.withUnsafeBytes { JSONScanner.scan($0) }
}

func scan(_ text: String) -> JSONScan { scan(Array(text.utf8)) }

/// Scans the text and returns up to `capacity` members as text.
func members(_ text: String, capacity: Int = 8) -> (scan: JSONScan, members: [String]) {
    let bytes = Array(text.utf8)
    var room = [JSONMember](repeating: JSONMember(), count: capacity)
    let scan = room.withUnsafeMutableBufferPointer { room in
        bytes.withUnsafeBytes { JSONScanner.scan($0, members: room) }
    }
    let found = room.prefix(scan.memberCount).map { member in
        String(decoding: bytes[member.nameStart..<member.nameEnd], as: UTF8.self) + "="
            + String(decoding: bytes[member.valueStart..<member.valueEnd], as: UTF8.self)
    }
    return (scan, found)
}

@Suite struct JSONScannerTests {
    @Test(arguments: JSONCases.valid)
    func `Valid texts are accepted`(text: String) {
        #expect(scan(JSONCases.bytes(text)).error == nil)
    }

    @Test(arguments: JSONCases.invalid)
    func `Invalid texts are refused`(text: String) {
        #expect(scan(JSONCases.bytes(text)).error != nil)
    }

    @Test func `Nesting deeper than 64 levels is an error`() {
        #expect(scan(String(repeating: "[", count: 100_000)).error == JSONError(kind: .endOfInput, offset: 100_000))
        #expect(scan(String(repeating: "[", count: 100_000) + "]").error == JSONError(kind: .tooDeep, offset: 64))
        #expect(
            scan(String(repeating: "[{\"\":", count: 50_000) + "\n").error
                == JSONError(kind: .endOfInput, offset: 250_001))
        #expect(
            scan(String(repeating: "[{\"\":", count: 50_000) + "}").error == JSONError(kind: .tooDeep, offset: 32 * 5))
        for open in [("[", "1", "]"), ("{\"a\":", "1", "}")] {
            func nested(_ depth: Int) -> String {
                String(repeating: open.0, count: depth) + open.1 + String(repeating: open.2, count: depth)
            }
            #expect(scan(nested(64)).error == nil)
            #expect(scan(nested(65)).error?.kind == .tooDeep)
            #expect(scan(nested(500)).error?.kind == .tooDeep)
        }
        // The number of elements on one level is not limited.
        #expect(scan("[" + String(repeating: "[],", count: 10_000) + "{}]").error == nil)
    }

    @Test(
        arguments: [
            ("", .endOfInput, 0), ("  ", .endOfInput, 2), ("{", .endOfInput, 1), (#"{"a"#, .endOfInput, 3),
            (#"{"a":1,}"#, .unexpectedByte, 7), ("[1 2]", .unexpectedByte, 3), ("tru", .endOfInput, 3),
            ("trux", .unexpectedByte, 3), ("{} x", .trailingBytes, 3), ("01", .trailingBytes, 1), ("-", .endOfInput, 1),
            ("1.", .endOfInput, 2), ("1.x", .unexpectedByte, 2), ("1e", .endOfInput, 2), ("1e+x", .unexpectedByte, 3),
            ("\"a\u{1}b\"", .controlCharacter, 2), (#""ab\x""#, .badEscape, 3), (#""\u12g4""#, .badEscape, 1),
            (#"["\"#, .endOfInput, 3), (#"["\]"#, .badEscape, 2), (#"["a] " "#, .endOfInput, 7),
            (#"{"a":}"#, .unexpectedByte, 5), (#"{"a" 1}"#, .unexpectedByte, 5),
            (#"{1:1}"#, .unexpectedByte, 1), ("\u{FEFF}{}", .unexpectedByte, 0), ("nulL", .unexpectedByte, 3),
            ("fals", .endOfInput, 4), ("[1,", .endOfInput, 3),
        ] as [(String, JSONError.Kind, Int)])
    func `An error states its kind and its offset`(text: String, kind: JSONError.Kind, offset: Int) {
        #expect(scan(text).error == JSONError(kind: kind, offset: offset))
    }

    /// Tries every first byte of a multi-byte sequence with valid and invalid continuation bytes (RFC 3629).
    @Test func `A string must be valid UTF-8`() {
        func inString(_ bytes: [UInt8]) -> Bool {
            scan([0x22] + bytes + [0x22]).error == nil && scan([0x22] + bytes + Array("abcdefgh\"".utf8)).error == nil
        }
        var wrong: [[UInt8]] = []
        for first in UInt8(0x80)...0xFF {
            for second in stride(from: UInt8(0x70), through: 0xF0, by: 1) {
                for tail in [[], [0x80], [0x80, 0xBF], [0xBF, 0x7F], [0xC0, 0x80]] as [[UInt8]] {
                    let bytes = [first, second] + tail
                    let isValid = String(validating: bytes, as: UTF8.self) != nil
                    if inString(bytes) != isValid { wrong.append(bytes) }
                }
            }
        }
        #expect(wrong == [])
    }

    /// Places a special character at every position in a machine word and at every distance from the string's end.
    @Test func `Strings of every length are checked to their end`() {
        var wrong: [String] = []
        func check(_ text: String, _ expected: JSONError.Kind?) {
            if scan(text).error?.kind != expected { wrong.append(text) }
        }
        for length in 0..<40 {
            let plain = String(repeating: "x", count: length)
            check("\"\(plain)\"", nil)
            check("\"\(plain)", .endOfInput)
            check("\"\(plain)\"\"", .trailingBytes)
            for special in [#"\n"#, #"\u00e9"#, "é", "漢", "😀", #"\""#, #"\\"#] {
                for rest in 0..<10 {
                    check("[\"\(plain)\(special)\(String(repeating: "y", count: rest))\",\"\(plain)\"]", nil)
                }
            }
            check("[\"\(plain)\u{1F}\",\"\(plain)\"]", .controlCharacter)
            check("[\"\(plain)\n\",\"\(plain)\"]", .controlCharacter)
            check("[\"\(plain)\\q\",\"\(plain)\"]", .badEscape)
            check("[\"\(plain)\\u00\",\"\(plain)\"]", .badEscape)
        }
        #expect(wrong == [])
    }

    @Test func `The scan reports the members of an object`() {
        let (found, list) = members(#" { "aps" : {"alert":"}"} ,"n":-1.5e3, "s":"\"", "a":[1,{"x":2}],"t":true } "#)
        #expect(found.error == nil && found.kind == .object && found.memberCount == 5)
        #expect(list == [#"aps={"alert":"}"}"#, "n=-1.5e3", #"s="\"""#, #"a=[1,{"x":2}]"#, "t=true"])
        #expect(members("{}").scan.memberCount == 0)
        #expect(members(#"{"a":{},"b":[]}"#).members == ["a={}", "b=[]"])
        #expect(members(#"[{"a":1}]"#).scan.memberCount == 0)
        // Members beyond the capacity are counted, but not returned.
        let (counted, two) = members(#"{"a":1,"b":2,"c":3,"d":[4]}"#, capacity: 2)
        #expect(counted.memberCount == 4 && two == ["a=1", "b=2"])
    }

    @Test(
        arguments: [
            ("{}", .object), ("[]", .array), ("\"\"", .string), ("-0", .number), ("1", .number), ("true", .bool),
            ("false", .bool), ("null", .null),
        ] as [(String, JSONKind)])
    func `The scan reports the kind of the value`(text: String, kind: JSONKind) {
        #expect(scan(text).kind == kind)
    }
}
