import Testing

@testable import APNsSimulator

struct PayloadSyntaxTests {
    @Test(arguments: [
        "{}", " {\n} ", #"{"a":1}"#, #"{"a":[],"b":{}}"#,
        #"{"a":-0.5e+10,"b":[1,2,[3,{"c":null}]],"d":true,"e":false}"#,
        #"{"\u00e9\"\\\/\b\f\n\r\t":"\ud83d\ude00"}"#, #"{"a":"é😀"}"#, #"{"a":0}"#, #"{"a":1E5}"#, #"{"":""}"#,
        #"{"a":1,"a":2}"#,
    ])
    func `Valid`(text: String) { #expect(PayloadSyntax.isObject(lent(text))) }

    @Test(arguments: [
        "", " ", "{", "}", "[]", "1", "null", #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{,}"#, #"{"a":1}x"#, #"{"a":1}{}"#,
        #"{'a':1}"#, #"{"a":01}"#, #"{"a":+1}"#, #"{"a":1.}"#, #"{"a":.5}"#, #"{"a":1e}"#, #"{"a":-}"#, #"{"a":tru}"#,
        #"{"a":nul"#, #"{"a":"\x"}"#, #"{"a":"\u12"}"#, #"{"a":"\u12g4"}"#, "{\"a\":\"\n\"}", #"{"a":"b}"#,
        #"{"a":[1,]}"#,
        #"{"a":[1 2]}"#, #"{"a" 1}"#, #"{a:1}"#, "{\"a\":1}\0", #"{"a":NaN}"#,
    ])
    func `Invalid`(text: String) { #expect(!PayloadSyntax.isObject(lent(text))) }

    @Test(arguments: [
        [0x80], [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x9F, 0xBF], [0xED, 0xA0, 0x80], [0xF0, 0x8F, 0xBF, 0xBF],
        [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xE2, 0x82], [0xE2, 0x28, 0xA1], [0xFF],
    ])
    func `Bad UTF8`(bytes: [UInt8]) {
        #expect(!PayloadSyntax.isObject(lent(Array("{\"a\":\"".utf8) + bytes + Array("\"}".utf8))))
    }

    @Test func `Depth is limited`() {
        func nested(_ depth: Int) -> String {
            "{\"a\":" + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
        }
        #expect(PayloadSyntax.isObject(lent(nested(PayloadSyntax.depthLimit))))
        #expect(!PayloadSyntax.isObject(lent(nested(PayloadSyntax.depthLimit + 1))))
    }

    @Test func `Members of the outermost object are found`() {
        let text = lent(#"{"x":{"kid":"inner"}, "kid" : "outer", "iat":17}"#)
        #expect(PayloadSyntax.member("kid", of: text).map { String(decoding: $0, as: UTF8.self) } == "\"outer\"")
        #expect(PayloadSyntax.member("iat", of: text).map { String(decoding: $0, as: UTF8.self) } == "17")
        #expect(PayloadSyntax.member("inner", of: text) == nil)
        #expect(PayloadSyntax.member("kid", of: lent("{\"kid\":1")) == nil)
    }

    @Test func `Every cut is invalid`() {
        let whole = Array(#"{"a":[1,-2.5e3,"\u00e9😀",true,null],"b":{"c":"d"}}"#.utf8)
        for end in 0..<whole.count { #expect(!PayloadSyntax.isObject(lent(Array(whole[..<end])))) }
        #expect(PayloadSyntax.isObject(lent(whole)))
    }
}
