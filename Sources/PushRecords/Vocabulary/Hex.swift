/// Functions that validate and convert hex digits, sixteen at a time in two 64-bit words. They use arithmetic, because
/// the compiler turns SIMD comparisons into a loop.
enum Hex {
    /// Writes `count` hex digits of `source` in lower case to `target`. Returns `false` if a byte is not a hex digit.
    static func lowercase(_ source: UnsafeRawPointer, count: Int, into target: UnsafeMutableRawPointer) -> Bool {
        var index = 0
        while count &- index >= 16 {
            let digits = source.loadUnaligned(fromByteOffset: index, as: SIMD2<UInt64>.self)
            guard areHex(digits) else { return false }
            let lower = digits | SIMD2(repeating: 0x2020_2020_2020_2020)
            target.storeBytes(of: lower, toByteOffset: index, as: SIMD2<UInt64>.self)
            index &+= 16
        }
        while index < count {
            let digit = source.load(fromByteOffset: index, as: UInt8.self)
            guard value(digit) != nil else { return false }
            target.storeBytes(of: digit | 0x20, toByteOffset: index, as: UInt8.self)
            index &+= 1
        }
        return true
    }

    static func isHex(_ text: UnsafeRawBufferPointer) -> Bool {
        guard let base = text.baseAddress else { return false }
        var index = 0
        while text.count &- index >= 16 {
            guard areHex(base.loadUnaligned(fromByteOffset: index, as: SIMD2<UInt64>.self)) else { return false }
            index &+= 16
        }
        while index < text.count {
            guard value(base.load(fromByteOffset: index, as: UInt8.self)) != nil else { return false }
            index &+= 1
        }
        return true
    }

    /// Returns whether all sixteen bytes are hex digits. Each addition sets the high bit of bytes at or above a bound.
    /// A byte above 127 may carry into the next byte, but already makes the result `false`.
    @inline(__always)
    private static func areHex(_ words: SIMD2<UInt64>) -> Bool {
        let high: UInt64 = 0x8080_8080_8080_8080
        let lower = words | SIMD2(repeating: 0x2020_2020_2020_2020)
        let isDigit =
            (words &+ SIMD2(repeating: 0x5050_5050_5050_5050)) & ~(words &+ SIMD2(repeating: 0x4646_4646_4646_4646))
        let isLetter =
            (lower &+ SIMD2(repeating: 0x1F1F_1F1F_1F1F_1F1F)) & ~(lower &+ SIMD2(repeating: 0x1919_1919_1919_1919))
        let marked = (isDigit | isLetter) & ~words
        return marked[0] & marked[1] & high == high
    }

    /// Returns the value of a hex digit, or `nil` for any other byte.
    @inline(__always)
    static func value(_ digit: UInt8) -> UInt8? {
        if digit &- 0x30 < 10 { return digit &- 0x30 }
        let letter = (digit | 0x20) &- 0x61
        return letter < 6 ? letter &+ 10 : nil
    }

    /// Returns the eight lower-case digits of a 32-bit number as ASCII, the first digit in the lowest byte.
    @inline(__always)
    static func digits(_ value: UInt32) -> UInt64 {
        // Spread the nibbles over the bytes, the highest first, then convert each one to its digit.
        var spread = UInt64(value.byteSwapped)
        spread = (spread | spread &<< 16) & 0x0000_FFFF_0000_FFFF
        spread = (spread | spread &<< 8) & 0x00FF_00FF_00FF_00FF
        spread = ((spread &>> 4) | (spread &<< 8)) & 0x0F0F_0F0F_0F0F_0F0F
        let isLetter = ((spread &+ 0x0606_0606_0606_0606) &>> 4) & 0x0101_0101_0101_0101
        return spread &+ 0x3030_3030_3030_3030 &+ isLetter &* 0x27
    }
}
