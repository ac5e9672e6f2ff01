/// Base64 in the two alphabets of RFC 4648, without line breaks.
package struct Base64: Sendable {
    /// The standard alphabet (RFC 4648, section 4), with padding.
    package static let standard = Base64(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", isPadded: true)
    /// The URL-safe alphabet (RFC 4648, section 5) without padding, as in JSON Web Tokens and commit metadata.
    package static let url = Base64(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", isPadded: false)

    private let letters: StaticString
    private let isPadded: Bool

    private init(_ letters: StaticString, isPadded: Bool) {
        self.letters = letters
        self.isPadded = isPadded
    }

    /// Returns the number of bytes that this number of characters (without padding) encodes.
    package static func byteCapacity(characters: Int) -> Int { characters / 4 * 3 + max(0, characters % 4 - 1) }

    /// Returns the number of characters (without padding) that encode this number of bytes.
    package static func characters(bytes: Int) -> Int { (4 * bytes + 2) / 3 }

    package func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        let letters = unsafe letters.utf8Start
        var index = 0
        while index + 2 < bytes.count {
            let word = UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
            unsafe text.append(letters[Int(word >> 18)])
            unsafe text.append(letters[Int(word >> 12 & 63)])
            unsafe text.append(letters[Int(word >> 6 & 63)])
            unsafe text.append(letters[Int(word & 63)])
            index += 3
        }
        let rest = bytes.count - index
        guard rest > 0 else { return }
        let word = UInt32(bytes[index]) << 16 | (rest == 2 ? UInt32(bytes[index + 1]) << 8 : 0)
        unsafe text.append(letters[Int(word >> 18)])
        unsafe text.append(letters[Int(word >> 12 & 63)])
        if rest == 2 { unsafe text.append(letters[Int(word >> 6 & 63)]) }
        if isPadded { text.append(contentsOf: repeatElement(UInt8(ascii: "="), count: 3 - rest)) }
    }

    package func encode(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(Self.characters(bytes: bytes.count) + 2)
        append(bytes, to: &text)
        return text
    }

    /// Returns the decoded bytes, or `nil` if a character, the padding or the length is invalid.
    package func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        var text = unsafe text[...]
        if isPadded {
            guard unsafe text.count % 4 == 0 else { return nil }
            for _ in 0..<2 where unsafe text.last == UInt8(ascii: "=") { unsafe text.removeLast() }
        }
        // A last group of one character is invalid, because its six bits are less than a byte.
        guard unsafe text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        unsafe bytes.reserveCapacity(Self.byteCapacity(characters: text.count))
        var word: UInt32 = 0
        var bits = 0
        for index in unsafe text.indices {
            guard let value = unsafe value(of: text[index]) else { return nil }
            word = word << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
            }
        }
        return bytes
    }

    private func value(of character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a") + 26)
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0") + 52)
        case unsafe letters.utf8Start[62]: 62
        case unsafe letters.utf8Start[63]: 63
        default: nil
        }
    }
}
