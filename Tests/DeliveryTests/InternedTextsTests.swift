import Testing

@testable import Delivery

/// Words that Apple may say one day, of any length and of any characters.
struct InternedTextsTests {
    @Test(
        arguments: [
            ("A", 99, "é", 99), ("A", 100, "", 100), ("A", 101, "", 100), ("A", 98, "é", 100), ("A", 97, "😀", 97),
            ("A", 99, "\u{FFFD}", 99), ("", 0, "", 0),
        ])
    func `A text that is too long is cut between two characters`(letter: String, count: Int, end: String, expected: Int)
    {
        var texts = InternedTexts()
        let text = String(repeating: letter, count: count) + end
        let number = texts.number(of: text, from: AppIndex(0))
        #expect(texts[number].count == expected)
        #expect(texts.number(of: text, from: AppIndex(0)) == number)
        #expect(String(validating: texts[number], as: UTF8.self) != nil)
    }

    @Test func `A host that invents reasons takes none from other apps`() {
        var texts = InternedTexts()
        let first = texts.number(of: "First", from: AppIndex(0))
        for n in 1..<2_000 { _ = texts.number(of: "Reason\(n)", from: AppIndex(0)) }
        #expect(
            texts.number(of: "One more", from: AppIndex(0)) == 0 && texts.number(ofStatus: 418, from: AppIndex(0)) == 0)
        #expect(texts.number(of: "First", from: AppIndex(0)) == first, "what is known stays known")
        let status = texts.number(ofStatus: 418, from: AppIndex(1))
        #expect(status != 0 && texts.number(of: "One more", from: AppIndex(1)) != 0)
        #expect(texts.number(ofStatus: 418, from: AppIndex(0)) == status)
    }
}
