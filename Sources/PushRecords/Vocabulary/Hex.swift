/// Hex digits, sixteen at a time.
enum Hex {
    /// Writes `count` hex digits in lower case to `target`; `false` when there is something else among them.
    static func lowercase(_ source: UnsafeRawPointer, count: Int, into target: UnsafeMutableRawPointer) -> Bool {
        var place = 0
        while count &- place >= 16 {
            let digits = (source + place).loadUnaligned(as: SIMD16<UInt8>.self)
            guard areHex(digits) else { return false }
            let words = unsafeBitCast(digits | SIMD16(repeating: 0x20), to: SIMD2<UInt64>.self)
            target.storeBytes(of: words[0], toByteOffset: place, as: UInt64.self)
            target.storeBytes(of: words[1], toByteOffset: place &+ 8, as: UInt64.self)
            place &+= 16
        }
        while place < count {
            let digit = source.load(fromByteOffset: place, as: UInt8.self)
            guard value(digit) != nil else { return false }
            target.storeBytes(of: digit | 0x20, toByteOffset: place, as: UInt8.self)
            place &+= 1
        }
        return true
    }

    /// Whether all of `text` is hex digits.
    static func isHex(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let base = text.baseAddress else { return false }
        var place = 0
        while text.count &- place >= 16 {
            guard areHex((base + place).loadUnaligned(as: SIMD16<UInt8>.self)) else { return false }
            place &+= 16
        }
        while place < text.count {
            guard value(base.load(fromByteOffset: place, as: UInt8.self)) != nil else { return false }
            place &+= 1
        }
        return true
    }

    /// Written as sums, because the comparisons of `SIMD16` become a loop over its lanes (Swift 6.3): the high bit of a
    /// lane says that it is not what is asked for.
    @inline(__always)
    private static func areHex(_ bytes: SIMD16<UInt8>) -> Bool {
        // A digit is 0 to 9 here, a letter 1 to 6.
        let digit = bytes ^ SIMD16(repeating: 0x30)
        let letter = (bytes | SIMD16(repeating: 0x20)) ^ SIMD16(repeating: 0x60)
        let noDigit = digit &+ SIMD16(repeating: 0x76)
        let noLetter = (letter &+ SIMD16(repeating: 0x79)) | (letter &- SIMD16(repeating: 1))
        let wrong = ((noDigit & noLetter) | bytes) & SIMD16(repeating: 0x80)
        let words = unsafeBitCast(wrong, to: SIMD2<UInt64>.self)
        return words[0] | words[1] == 0
    }

    /// A digit's value.
    @inline(__always)
    static func value(_ digit: UInt8) -> UInt8? {
        if digit &- 0x30 < 10 { return digit &- 0x30 }
        let letter = (digit | 0x20) &- 0x61
        return letter < 6 ? letter &+ 10 : nil
    }

    /// The eight digits of 32 bits in lower case, the first in the lowest byte.
    @inline(__always)
    static func digits(_ value: UInt32) -> UInt64 {
        // Spread the nibbles, the highest into the lowest byte, then turn each into its digit.
        var spread = UInt64(value.byteSwapped)
        spread = (spread | spread &<< 16) & 0x0000_FFFF_0000_FFFF
        spread = (spread | spread &<< 8) & 0x00FF_00FF_00FF_00FF
        spread = ((spread &>> 4) | (spread &<< 8)) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = ((spread &+ 0x0606_0606_0606_0606) &>> 4) & 0x0101_0101_0101_0101
        return spread &+ 0x3030_3030_3030_3030 &+ isLetter &* 0x27
    }
}
