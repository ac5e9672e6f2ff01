import Bytes
import Foundation
import Testing

@Suite struct Base64Tests {
    private func decoded(_ base64: Base64, _ text: String) -> [UInt8]? {
        Array(text.utf8).withUnsafeBytes { base64.decode($0) }
    }

    /// Compares random bytes of every length below 200.
    @Test func `Base64 is encoded and decoded as by Foundation`() {
        var random = SplitMix64(seed: 1)
        for count in 0..<200 {
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let expected = Data(bytes).base64EncodedString()
            #expect(String(decoding: Base64.standard.encode(bytes), as: UTF8.self) == expected)
            #expect(decoded(.standard, expected) == bytes)
            let url = expected.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
            #expect(String(decoding: Base64.url.encode(bytes), as: UTF8.self) == url)
            #expect(decoded(.url, url) == bytes)
            #expect(url.utf8.count == Base64.characters(bytes: count))
            #expect(Base64.byteCapacity(characters: url.utf8.count) == count)
        }
    }

    @Test(arguments: ["A", "AA==", "AAAA=", "AA+A", "AA/A", "AAA\u{0}", "A A", "AAAAA", "é"])
    func `The URL decoder rejects padding, other characters and impossible lengths`(text: String) {
        #expect(decoded(.url, text) == nil)
    }

    @Test(arguments: ["A", "AA", "AAA", "AA=A", "A===", "====", "AA-A", "AA_A", "AAAA\n"])
    func `The standard decoder rejects wrong padding, other characters and impossible lengths`(text: String) {
        #expect(decoded(.standard, text) == nil)
    }
}

@Suite struct FNV1aTests {
    /// Landon Curt Noll's test vectors for 64 bits.
    @Test(
        arguments: [
            ("", 0xCBF2_9CE4_8422_2325), ("a", 0xAF63_DC4C_8601_EC8C), ("foobar", 0x8594_4171_F739_67E8),
        ] as [(String, UInt64)])
    func `Each published test vector has its published hash`(text: String, value: UInt64) {
        var hash = FNV1a()
        hash.add(text.utf8)
        #expect(hash.value == value)
    }

    @Test func `A 64-bit word is hashed as its bytes, lowest byte first`() {
        var word = FNV1a()
        word.add(0x0807_0605_0403_0201 as UInt64)
        var bytes = FNV1a()
        bytes.add([1, 2, 3, 4, 5, 6, 7, 8])
        #expect(word.value == bytes.value)
    }
}

@Suite struct SplitMix64Tests {
    /// The expected values come from Sebastiano Vigna's splitmix64.c with the seed 1234567.
    @Test func `The random sequence equals that of the reference implementation`() {
        var random = SplitMix64(seed: 1_234_567)
        #expect(
            (0..<5).map { _ in random.next() } == [
                6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
                4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
            ])
    }

    @Test func `Random fractions are below one, and bounded numbers below their bound`() {
        var random = SplitMix64(seed: 3)
        for _ in 0..<1_000 {
            let unit = random.unit()
            #expect(unit >= 0 && unit < 1)
            #expect((0..<7).contains(random.below(7)))
        }
    }
}
