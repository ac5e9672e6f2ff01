import Testing

@testable import Delivery

/// Words that Apple may say one day, of any length and of any characters.
struct InternedTextsTests {
    @Test(
        "A text that is too long is cut between two characters",
        arguments: [
            ("A", 99, "é", 99), ("A", 100, "", 100), ("A", 101, "", 100), ("A", 98, "é", 100), ("A", 97, "😀", 97),
            ("A", 99, "\u{FFFD}", 99), ("", 0, "", 0),
        ])
    func cut(letter: String, count: Int, end: String, expected: Int) {
        var texts = InternedTexts()
        let text = String(repeating: letter, count: count) + end
        let number = texts.number(of: text)
        #expect(texts[number].count == expected)
        #expect(texts.number(of: text) == number)
        #expect(String(validating: texts[number], as: UTF8.self) != nil)
    }
}
