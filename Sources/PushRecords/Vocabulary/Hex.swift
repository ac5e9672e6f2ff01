/// Hex digits, sixteen at a time.
enum Hex {
    /// Writes `count` hex digits in lower case to `target`; `false` when there is something else among them.
    static func lowercase(_ source: UnsafeRawPointer, count: Int, into target: UnsafeMutableRawPointer) -> Bool {
        var place = 0
        while count &- place >= 16 {
            let digits = (source + place).loadUnaligned(as: SIMD16<UInt8>.self)
            guard areHex(digits) else { return false }
            (target + place).storeBytes(of: digits | 0x20, as: SIMD16<UInt8>.self)
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

    @inline(__always)
    private static func areHex(_ digits: SIMD16<UInt8>) -> Bool {
        let isNumber = (digits &- 0x30) .< 10
        let isLetter = ((digits | 0x20) &- 0x61) .< 6
        return all(isNumber .| isLetter)
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
