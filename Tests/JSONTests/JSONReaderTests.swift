@testable import JSON
import Testing

/// Runs `body` with a reader over the text.
func read<R>(_ text: String, _ body: (inout JSONReader) throws -> R) throws -> R {
    try Array(text.utf8).withUnsafeBytes { bytes in
        var reader = try JSONReader(bytes)
        return try body(&reader)
    }
}

@Suite struct JSONReaderTests {
    @Test func `Values are read in order`() throws {
        let text =
            #" {"reason" : "Unregistered", "timestamp":1454948015990,"list":[1,[2,{"x":"]"}],"s"], "b":true,"n":null} "#
        try read(text) { reader in
            #expect(reader.kind == .object)
            try reader.enterObject()
            #expect(reader.nextMember()?.equals("reason") == true)
            #expect(try reader.text().string == "Unregistered")
            #expect(reader.nextMember()?.string == "timestamp")
            #expect(try reader.integer() == 1_454_948_015_990)
            #expect(reader.nextMember()?.string == "list")
            try reader.enterArray()
            #expect(reader.nextElement() == true)
            #expect(try reader.integer() == 1)
            #expect(reader.nextElement() == true)
            #expect(String(decoding: reader.skip(), as: UTF8.self) == #"[2,{"x":"]"}]"#)
            #expect(reader.nextElement() == true)
            #expect(try reader.text().string == "s")
            #expect(reader.nextElement() == false)
            #expect(reader.nextMember()?.string == "b")
            #expect(reader.null() == false)
            #expect(reader.kind == .bool)
            reader.skip()
            #expect(reader.nextMember()?.string == "n")
            #expect(reader.null() == true)
            #expect(reader.nextMember() == nil)
        }
    }

    @Test func `Reading a value as another kind throws an error`() throws {
        #expect(throws: JSONError(kind: .wrongKind, offset: 1)) { try read(" 1") { _ = try $0.text() } }
        #expect(throws: JSONError(kind: .wrongKind, offset: 0)) { try read("[]") { try $0.enterObject() } }
        #expect(throws: JSONError(kind: .wrongKind, offset: 0)) { try read("null") { _ = try $0.double() } }
        #expect(throws: JSONError(kind: .endOfInput, offset: 1)) { try read("[") { try $0.enterArray() } }
    }

    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("9223372036854775807", .max), ("-9223372036854775808", .min), ("42", 42), ("-7", -7),
            ("9223372036854775808", nil), ("-9223372036854775809", nil), ("1.0", nil), ("1e2", nil),
            ("99999999999999999999", nil),
        ] as [(String, Int64?)])
    func `An integer must fit into 64 bits and have no fraction or exponent`(text: String, value: Int64?) throws {
        if let value {
            #expect(try read(text) { try $0.integer() } == value)
        } else {
            #expect(throws: JSONError(kind: .notAnInteger, offset: 0)) { try read(text) { try $0.integer() } }
        }
    }

    @Test(arguments: [("1.5", 1.5), ("-2e3", -2000), ("7", 7), ("1e999", .infinity), ("-1e999", -.infinity)])
    func `Numbers are read as doubles`(text: String, value: Double) throws {
        #expect(try read(text) { try $0.double() } == value)
    }

    @Test(arguments: [
        (#""plain""#, "plain"), (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"), (#""\u00e9\u6f22""#, "é漢"),
        (#""\ud83d\ude00!""#, "😀!"), (#""\ud83d""#, "\u{FFFD}"), (#""\ude00x""#, "\u{FFFD}x"),
        (#""\ud83d\u0041""#, "\u{FFFD}A"), (#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"), (#""é\n""#, "é\n"),
        (#""\u0000""#, "\0"),
    ])
    func `Escapes are resolved`(json: String, text: String) throws {
        #expect(try read(json) { try $0.text().string } == text)
    }

    @Test func `Text that is too long for the buffer is not resolved`() throws {
        try read(#""a\u00e9b""#) { reader in
            let text = try reader.text()
            withUnsafeTemporaryAllocation(byteCount: 4, alignment: 1) { buffer in
                #expect(text.resolve(into: buffer) == 4)
                #expect(text.resolve(into: UnsafeMutableRawBufferPointer(rebasing: buffer[0..<2])) == nil)
            }
        }
    }

    @Test func `Member names are compared after their escapes are resolved`() throws {
        try read(#"{"\u0061ps":1,"aps":2,"apsx":3,"ap":4}"#) { reader in
            try reader.enterObject()
            var equal: [Bool] = []
            while let name = reader.nextMember() {
                equal.append(name.equals("aps"))
                reader.skip()
            }
            #expect(equal == [true, true, false, false])
        }
    }
}
