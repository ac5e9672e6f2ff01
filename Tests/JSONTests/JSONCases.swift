/// Valid and invalid JSON texts, written from the grammar of RFC 8259 and grouped by its sections.
///
/// In the texts, `%XX` stands for the byte with that hexadecimal number.
enum JSONCases {
    /// Texts that the parser must accept. Section 9 leaves the size of numbers and half surrogate pairs to the parser,
    /// which accepts both.
    static let valid: [String] = [
        // Section 3: any value is a text.
        "null", "true", "false", "0", "\"\"", "[]", "{}", "\"a\"", "-1",
        // Section 2: whitespace.
        "%20%09%0A%0D1%20%09%0A%0D", "[ ]", "{ }", "[%0A1%0A,%0D2%09]", "{%20\"a\"%20:%201%20}",
        // Sections 4 and 5: objects and arrays.
        "[[]]", "[{}]", "{\"a\":{}}", "{\"a\":[1,{\"b\":[]}]}", "[1,\"a\",null,true,false,{}]", "{\"\":0}",
        "{\"a\":1,\"b\":2,\"a\":3}", "[[[[[[[[[[]]]]]]]]]]", "{\"x y\":1}", "{\"\\u0061\":1}",
        // Section 6: numbers.
        "-0", "10", "1234567890", "0.5", "-0.5", "1.25", "1e5", "1E5", "1e+5", "1e-5", "1.5e10", "-1.5E-10", "0e0",
        "0.0", "123456789012345678901234567890", "1e400", "-1e400", "1e-400", "0.00000000000000000000000000000000001",
        // Section 7: strings.
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0000\"", "\"\\uABCD\\uabcd\\u1234\"", "\"\\uD83D\\uDE00\"",
        "\"/\"", "\"%7F\"", "\"'\"", "\"\\\\u0041\"", "\"\\ud800\"", "\"\\udc00\\ud800\"", "\"\\uD800\\n\"",
        // Section 8.1: UTF-8 of every length, and the ends of its ranges.
        "\"%C2%80\"", "\"%DF%BF\"", "\"%E0%A0%80\"", "\"%ED%9F%BF\"", "\"%EE%80%80\"", "\"%EF%BF%BF\"",
        "\"%F0%90%80%80\"", "\"%F4%8F%BF%BF\"", "\"12345678%E2%82%AC12345678\"", "{\"%C3%A9\":1}",
    ]

    static let invalid: [String] = [
        // Empty texts, and more than one value.
        "", "%20", "1 2", "[] []", "{}x", "null,", "\"a\"b", "[1]]", "{}}", "1,2",
        // Literals.
        "nul", "nulll", "True", "NULL", "tru", "falsey", "undefined", "NaN", "Infinity", "-Infinity", "[nul]",
        // Arrays.
        "[", "]", "[1", "[1,", "[1,]", "[,1]", "[,]", "[1,,2]", "[1 2]", "[1;2]", "[1}", "[\"a\"", "[a]", "[1:2]",
        // Objects.
        "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{\"a\"}", "{\"a\",1}",
        "{\"a\"::1}", "{a:1}", "{1:1}", "{null:1}", "{\"a\":1 \"b\":2}", "{\"a\":1]", "{'a':1}", "{[]:1}",
        "{\"a\":1,,\"b\":2}", "{\"a\" 1}",
        // Numbers.
        "+1", "01", "-01", "00", "-", "--1", "1.", ".5", "-.5", "1.e5", "1e", "1e+", "1e-", "1E+-5", "1e5.5", "0x10",
        "1_000", "1a", "- 1", "1 .5", "0e", "1.5.5", "%EF%BC%91",
        // Strings.
        "\"", "\"a", "\"\\", "\"\\\"", "\"\\a\"", "\"\\x41\"", "\"\\'\"", "\"\\u\"", "\"\\u12\"", "\"\\u123\"",
        "\"\\u123g\"", "\"\\U0041\"", "\"%0A\"", "\"%09\"", "\"%00\"", "\"%1F\"", "'a'", "\"\\%0A\"", "\"\\uD83D\\u\"",
        "\"\\u00%C3%A9\"",
        // Whitespace and comments that are not JSON's.
        "[%0C]", "[%0B]", "%C2%A0[]", "[%E2%81%A0]", "//a%0A1", "/*a*/1", "[1]#", "%E2%80%A8[]",
        // Section 8.1: no byte order mark, and UTF-8 only.
        "%EF%BB%BF{}", "%FF%FE[%00]%00", "%FE%FF%00[%00]",
        "\"%80\"", "\"%BF\"", "\"%C0%80\"", "\"%C1%BF\"", "\"%C2\"", "\"%C2a\"", "\"%E0%9F%BF\"", "\"%E2%82\"",
        "\"%ED%A0%80\"", "\"%ED%BF%BF\"", "\"%F0%8F%BF%BF\"", "\"%F0%90%80\"", "\"%F4%90%80%80\"", "\"%F5%80%80%80\"",
        "\"%FE\"", "\"%FF\"", "[%C3%A9]", "%C3%A9", "{\"%FF\":1}", "[\"a\",%80]",
    ]

    static func bytes(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8
        while let first = rest.popFirst() {
            if first == UInt8(ascii: "%") {
                bytes.append(UInt8(Substring(rest.prefix(2)), radix: 16)!)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(first)
            }
        }
        return bytes
    }
}
