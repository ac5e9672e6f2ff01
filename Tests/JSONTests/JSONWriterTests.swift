import Bytes
@testable import JSON
import Testing

@Suite struct JSONWriterTests {
    private func escaped(_ bytes: [UInt8]) -> String {
        var writer = JSONWriter(capacity: 16)
        bytes.withUnsafeBytes { writer.value(string: $0) }
        return writer.text
    }

    @Test(arguments: [
        ("", #""""#), ("plain", #""plain""#), ("a\"b", #""a\"b""#), ("a\\b", #""a\\b""#),
        ("\u{8}\u{C}\n\r\t", #""\b\f\n\r\t""#), ("\u{0}\u{1}\u{1F}", #""\u0000\u0001\u001f""#),
        ("\u{7F}/", "\"\u{7F}/\""), ("é漢😀", "\"é漢😀\""), ("12345678\"12345678", #""12345678\"12345678""#),
    ])
    func `A string is escaped as JSON requires`(text: String, json: String) {
        #expect(escaped(Array(text.utf8)) == json)
    }

    /// Places the invalid bytes at every position in a machine word.
    @Test func `Invalid UTF-8 is replaced as by Swift's String`() {
        let damaged: [[UInt8]] = [
            [0x80], [0xC3], [0xC0, 0xAF], [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xF0, 0x9F, 0x98],
            [0xF4, 0x90, 0x80, 0x80],
            [0xFF, 0xFE], [0xF0, 0x80], [0xE0, 0x80, 0x80], [0xF8, 0x88, 0x80, 0x80], [0xE2, 0x28, 0xA1],
        ]
        var wrong: [[UInt8]] = []
        for bytes in damaged {
            for before in 0..<18 {
                for after in 0..<18 {
                    let all = Array(repeating: 0x61, count: before) + bytes + Array(repeating: 0x7A, count: after)
                    if escaped(all) != "\"" + String(decoding: all, as: UTF8.self) + "\"" { wrong.append(all) }
                }
            }
        }
        #expect(wrong == [])
    }

    @Test func `Integers are written in decimal`() {
        var values: [Int64] = [
            0, 1, -1, 9, 10, 99, 100, 12_345_678, 99_999_999, 100_000_000, 1_790_000_000_123, .max, .min,
        ]
        var power: Int64 = 1
        for _ in 0..<18 {
            power *= 10
            values += [power - 1, power, power + 1, -power]
        }
        var random = SplitMix64(seed: 5)
        for _ in 0..<20_000 {
            values.append(Int64.random(in: .min ... .max, using: &random) >> Int64.random(in: 0..<64, using: &random))
        }
        var out = ByteWriter(capacity: 16)
        var wrong: [String] = []
        for value in values {
            out.removeAll()
            out.append(integer: value)
            let text = String(decoding: out.bytes, as: UTF8.self)
            if text != String(value) { wrong.append("\(value): \(text)") }
        }
        #expect(wrong == [])
        out.removeAll()
        out.append(unsigned: .max)
        #expect(String(decoding: out.bytes, as: UTF8.self) == String(UInt64.max))
    }

    @Test func `Objects, arrays and members are written as valid JSON`() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("a")
        writer.value(1)
        writer.name("b\"" as String)
        writer.beginArray()
        writer.value(true)
        writer.null()
        writer.value("x" as StaticString)
        writer.beginObject()
        writer.endObject()
        writer.value(1.5)
        writer.value(Double.infinity)
        writer.endArray()
        writer.member("text", "\"")
        writer.member("long", Int64.max)
        writer.member("integer", -1)
        writer.member("double", 1.5)
        writer.member("bool", true)
        writer.member("none", nil as String?)
        writer.member("no number", nil as Int64?)
        writer.member("object") { $0.member("inner", 1) }
        writer.member("after") { _ in }
        writer.endObject()
        #expect(
            writer.text
                == #"{"a":1,"b\"":[true,null,"x",{},1.5,null],"text":"\"","long":9223372036854775807,"integer":-1,"#
                + #""double":1.5,"bool":true,"none":null,"no number":null,"object":{"inner":1},"after":{}}"#)
        writer.removeAll()
        writer.beginArray()
        writer.endArray()
        #expect(writer.text == "[]")
    }

    @Test func `Text with a size limit is cut to its longest escaped prefix of whole characters that fits`() {
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

    @Test func `A cleared writer reuses its buffer`() {
        var out = ByteWriter(capacity: 64)
        let first = out.bytes.baseAddress
        for _ in 0..<1_000 {
            out.removeAll()
            out.append("0123456789")
            out.append(integer: .max)
        }
        #expect(out.bytes.baseAddress == first)
        for _ in 0..<1_000 { out.append("0123456789") }
        #expect(out.count == 10_029 && out.bytes.last == UInt8(ascii: "9"))
    }
}
