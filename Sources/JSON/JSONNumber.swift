/// Reading numbers (RFC 8259, 6), on pointers into lent bytes.
enum JSONNumber {
    /// Past the number at `start`; `nil` when there is none (`fault` then says why).
    @inline(__always)
    static func skip(_ start: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer? {
        var p = unsafe start
        if unsafe p.load(as: UInt8.self) == 0x2D { unsafe p += 1 }
        if unsafe p < end && p.load(as: UInt8.self) == 0x30 {
            unsafe p += 1
        } else {
            let integer = unsafe skipDigits(p, end)
            if unsafe integer == p { return nil }
            unsafe p = unsafe integer
        }
        if unsafe p < end && p.load(as: UInt8.self) == 0x2E {
            let fraction = unsafe skipDigits(p + 1, end)
            if unsafe fraction == p + 1 { return nil }
            unsafe p = unsafe fraction
        }
        if unsafe p < end && p.load(as: UInt8.self) | 0x20 == 0x65 {
            unsafe p = unsafe skipSign(p + 1, end)
            let exponent = unsafe skipDigits(p, end)
            if unsafe exponent == p { return nil }
            unsafe p = unsafe exponent
        }
        return unsafe p
    }

    /// Why `skip` refused what starts at `start`: where it ceases to be a number.
    static func fault(_ start: UnsafeRawPointer, _ end: UnsafeRawPointer, from base: UnsafeRawPointer) -> JSONError {
        var p = unsafe start
        if unsafe p.load(as: UInt8.self) == 0x2D { unsafe p += 1 }
        let integer = unsafe skipDigits(p, end)
        if unsafe integer != p {
            unsafe p = unsafe integer
            if unsafe p < end && p.load(as: UInt8.self) == 0x2E {
                let fraction = unsafe skipDigits(p + 1, end)
                let isWhole = unsafe fraction != p + 1
                unsafe p = unsafe fraction
                if unsafe isWhole && p < end && p.load(as: UInt8.self) | 0x20 == 0x65 {
                    unsafe p = unsafe skipSign(p + 1, end)
                }
            } else if unsafe p < end && p.load(as: UInt8.self) | 0x20 == 0x65 {
                unsafe p = unsafe skipSign(p + 1, end)
            }
        }
        return unsafe JSONError(p == end ? .endOfInput : .unexpectedByte, at: p - base)
    }

    /// The integer that `text` spells, when it is one without fraction and exponent and fits; else `nil`.
    static func integer(_ text: UnsafeRawBufferPointer) -> Int64? {
        var index = 0
        let isNegative = unsafe text.count > 0 && text[0] == 0x2D
        if isNegative { index = 1 }
        guard index < text.count else { return nil }
        // Counted downwards, since the lowest integer has no positive counterpart.
        var value: Int64 = 0
        while index < text.count {
            let digit = unsafe text[index] &- 0x30
            guard digit < 10 else { return nil }
            let (tens, overflows) = value.multipliedReportingOverflow(by: 10)
            let (next, overflowsToo) = tens.subtractingReportingOverflow(Int64(digit))
            guard !overflows && !overflowsToo else { return nil }
            value = next
            index += 1
        }
        if isNegative { return value }
        return value == .min ? nil : -value
    }

    @inline(__always)
    private static func skipDigits(_ start: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer {
        var p = unsafe start
        while unsafe p < end && p.load(as: UInt8.self) &- 0x30 < 10 { unsafe p += 1 }
        return unsafe p
    }

    @inline(__always)
    private static func skipSign(_ start: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer {
        guard unsafe start < end else { return unsafe start }
        let byte = unsafe start.load(as: UInt8.self)
        return unsafe byte == 0x2B || byte == 0x2D ? start + 1 : start
    }
}
