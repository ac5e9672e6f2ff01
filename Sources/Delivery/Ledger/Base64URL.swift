/// Base64 with the URL-safe alphabet and no padding (RFC 4648, section 5): printable ASCII, as commit metadata must be.
package enum Base64URL {
    private static let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

    /// How many bytes fit into this many characters.
    package static func byteCapacity(characters: Int) -> Int { characters / 4 * 3 + max(0, characters % 4 - 1) }

    /// How many characters this many bytes take.
    package static func characters(bytes: Int) -> Int { (4 * bytes + 2) / 3 }

    package static func append(_ bytes: [UInt8], to text: inout [UInt8]) {
        let letters = alphabet.utf8Start
        var index = 0
        while index + 2 < bytes.count {
            let word = UInt32(bytes[index]) << 16 | UInt32(bytes[index + 1]) << 8 | UInt32(bytes[index + 2])
            text.append(letters[Int(word >> 18)])
            text.append(letters[Int(word >> 12 & 63)])
            text.append(letters[Int(word >> 6 & 63)])
            text.append(letters[Int(word & 63)])
            index += 3
        }
        let rest = bytes.count - index
        guard rest > 0 else { return }
        let word = UInt32(bytes[index]) << 16 | (rest == 2 ? UInt32(bytes[index + 1]) << 8 : 0)
        text.append(letters[Int(word >> 18)])
        text.append(letters[Int(word >> 12 & 63)])
        if rest == 2 { text.append(letters[Int(word >> 6 & 63)]) }
    }

    /// `nil` when a character does not belong or the length cannot be.
    package static func decode(_ text: UnsafeRawBufferPointer) -> [UInt8]? {
        guard text.count % 4 != 1 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(byteCapacity(characters: text.count))
        var word: UInt32 = 0
        var bits = 0
        for character in text {
            guard let value = value(of: character) else { return nil }
            word = word << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
            }
        }
        return bytes
    }

    private static func value(of character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a") + 26)
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0") + 52)
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
