/// Validates strings and finds their ends, using pointers into borrowed bytes. `end` points one past the last byte.
enum JSONString {
    /// Returns a mask whose lowest set bit is the high bit of the first byte that is `"`, `\`, a control character or
    /// not ASCII. Later bytes may be marked wrongly, because the subtraction borrows.
    @inline(__always)
    static func marks(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let quote = (word ^ (0x22 &* ones)) &- ones
        let backslash = (word ^ (0x5C &* ones)) &- ones
        let control = word &- (0x20 &* ones)
        return (quote | backslash | control | word) & (0x80 &* ones)
    }

    /// Returns a mask as `marks` does, but for sixteen bytes, as two words. SIMD lanes do not borrow, so every
    /// byte is marked correctly.
    ///
    /// It uses arithmetic, because Swift 6.3 compiles comparisons of `SIMD16` to a loop over the lanes.
    @inline(__always)
    static func marks16(_ p: UnsafeRawPointer) -> SIMD2<UInt64> {
        let bytes = unsafe p.loadUnaligned(as: SIMD16<UInt8>.self)
        let one = SIMD16<UInt8>(repeating: 1)
        let quote = (bytes ^ SIMD16(repeating: 0x22)) &- one
        let backslash = (bytes ^ SIMD16(repeating: 0x5C)) &- one
        let control = bytes &- SIMD16(repeating: 0x20)
        let marked = (quote | backslash | control | bytes) & SIMD16(repeating: 0x80)
        return unsafe unsafeBitCast(marked, to: SIMD2<UInt64>.self)
    }

    /// Moves `p` from inside a string past its closing quote. Returns false for an invalid string, with `p` at the
    /// error.
    ///
    /// - Parameter half: If `nil`, it is set to the first escape of a lone surrogate.
    @inline(__always)
    static func skip(
        _ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer, _ half: inout UnsafeRawPointer?
    ) -> Bool {
        while unsafe end - p >= 16 {
            let marked = unsafe marks16(p)
            if marked[0] != 0 {
                unsafe p += UInt64(littleEndian: marked[0]).trailingZeroBitCount &>> 3
            } else if marked[1] != 0 {
                unsafe p += 8 &+ UInt64(littleEndian: marked[1]).trailingZeroBitCount &>> 3
            } else {
                unsafe p += 16
                continue
            }
            if unsafe p.load(as: UInt8.self) == 0x22 {
                unsafe p += 1
                return true
            }
            let special = unsafe skipSpecial(p, end, &half)
            unsafe p = unsafe special.next
            if !special.isWhole { return false }
        }
        let tail = unsafe skipTail(p, end, &half)
        unsafe p = unsafe tail.next
        return tail.isWhole
    }

    /// Returns the position after the closing quote of a string, or `nil` if the string is invalid.
    @inline(__always)
    static func end(of inside: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer? {
        var p = unsafe inside
        var half: UnsafeRawPointer?
        return unsafe skip(&p, end, &half) ? p : nil
    }

    /// The result of a function that skips bytes. `next` is the position after the skipped bytes, or of an error, and
    /// `isWhole` is `false` after an error. The result is passed by value, so that callers keep it in registers.
    @safe private struct Stop {
        var next: UnsafeRawPointer
        var isWhole: Bool
    }

    /// Skips to the end of a string in the last bytes of the input (fewer than 16): eight at a time, then one by one.
    @inline(never)
    private static func skipTail(
        _ start: UnsafeRawPointer, _ end: UnsafeRawPointer, _ half: inout UnsafeRawPointer?
    ) -> Stop {
        var p = unsafe start
        while unsafe p < end {
            if unsafe end - p >= 8 {
                let marked = unsafe marks(UInt64(littleEndian: p.loadUnaligned(as: UInt64.self)))
                unsafe p += marked == 0 ? 8 : marked.trailingZeroBitCount &>> 3
                if marked == 0 { continue }
            }
            let byte = unsafe p.load(as: UInt8.self)
            if byte == 0x22 { return unsafe Stop(next: p + 1, isWhole: true) }
            if byte >= 0x20 && byte < 0x80 && byte != 0x5C {
                unsafe p += 1
            } else {
                let special = unsafe skipSpecial(p, end, &half)
                unsafe p = unsafe special.next
                if !special.isWhole { break }
            }
        }
        return unsafe Stop(next: p, isWhole: false)
    }

    /// Skips one escape, or a run of non-ASCII characters.
    @inline(never)
    private static func skipSpecial(
        _ start: UnsafeRawPointer, _ end: UnsafeRawPointer, _ half: inout UnsafeRawPointer?
    ) -> Stop {
        var p = unsafe start
        while unsafe p < end && p.load(as: UInt8.self) >= 0x80 {
            let length = unsafe utf8Length(p, end)
            if length == 0 { return unsafe Stop(next: p, isWhole: false) }
            unsafe p += length
        }
        if unsafe p > start { return unsafe Stop(next: p, isWhole: true) }
        let left = unsafe end - p
        guard unsafe left >= 2 && p.load(as: UInt8.self) == 0x5C else { return unsafe Stop(next: p, isWhole: false) }
        switch unsafe p.load(fromByteOffset: 1, as: UInt8.self) {
        case 0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74: return unsafe Stop(next: p + 2, isWhole: true)
        case 0x75:
            guard left >= 6, let unit = unsafe hex4(p + 2) else { return unsafe Stop(next: p, isWhole: false) }
            if unit & 0xF800 == 0xD800 {
                if unsafe unit < 0xDC00 && lowHalf(p + 6, end) != nil {
                    return unsafe Stop(next: p + 12, isWhole: true)
                }
                if unsafe half == nil { unsafe half = unsafe p }
            }
            return unsafe Stop(next: p + 6, isWhole: true)
        default: return unsafe Stop(next: p, isWhole: false)
        }
    }

    /// Returns the error at the position where `skip` stopped.
    static func fault(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer) -> JSONError.Kind {
        guard unsafe p < end else { return .endOfInput }
        let byte = unsafe p.load(as: UInt8.self)
        if byte < 0x20 { return .controlCharacter }
        if byte >= 0x80 { return .badUTF8 }
        return unsafe end - p < 2 ? .endOfInput : .badEscape
    }

    /// Returns the low surrogate whose escape begins at `p`, or `nil` if there is none.
    static func lowHalf(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UInt32? {
        guard unsafe end - p >= 6 && p.loadUnaligned(as: UInt16.self) == UInt16(littleEndian: 0x755C),
            let unit = unsafe hex4(p + 2), unit & 0xFC00 == 0xDC00
        else { return nil }
        return unit
    }

    /// Returns the length of the UTF-8 sequence at `p`, or 0 if it is invalid (RFC 3629, 4). The first byte must not be
    /// ASCII.
    static func utf8Length(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer) -> Int {
        let left = unsafe end - p
        let first = unsafe p.load(as: UInt8.self)
        guard left >= 2 && first >= 0xC2 else { return 0 }
        let second = unsafe p.load(fromByteOffset: 1, as: UInt8.self)
        if first < 0xE0 { return second & 0xC0 == 0x80 ? 2 : 0 }
        guard left >= 3 else { return 0 }
        let third = unsafe p.load(fromByteOffset: 2, as: UInt8.self)
        if first < 0xF0 {
            let lowest: UInt8 = first == 0xE0 ? 0xA0 : 0x80
            let highest: UInt8 = first == 0xED ? 0x9F : 0xBF
            return second >= lowest && second <= highest && third & 0xC0 == 0x80 ? 3 : 0
        }
        guard left >= 4 && first <= 0xF4 else { return 0 }
        let fourth = unsafe p.load(fromByteOffset: 3, as: UInt8.self)
        let lowest: UInt8 = first == 0xF0 ? 0x90 : 0x80
        let highest: UInt8 = first == 0xF4 ? 0x8F : 0xBF
        return second >= lowest && second <= highest && third & 0xC0 == 0x80 && fourth & 0xC0 == 0x80 ? 4 : 0
    }

    /// Returns the length of the invalid UTF-8 at `p` that one U+FFFD replaces (Unicode 16, 3.9, "Maximal Subparts").
    static func damagedLength(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer) -> Int {
        var rest = unsafe UnsafeRawBufferPointer(start: p, count: end - p).makeIterator()
        var parser = UTF8.ForwardParser()
        if case .error(let length) = unsafe parser.parseScalar(from: &rest) { return length }
        return 1
    }

    /// Returns the value of four hex digits, or `nil` if they are invalid.
    static func hex4(_ p: UnsafeRawPointer) -> UInt32? {
        var value: UInt32 = 0
        for offset in 0..<4 {
            let byte = unsafe p.load(fromByteOffset: offset, as: UInt8.self)
            switch byte {
            case 0x30...0x39: value = value << 4 | UInt32(byte &- 0x30)
            case 0x41...0x46: value = value << 4 | UInt32(byte &- 0x37)
            case 0x61...0x66: value = value << 4 | UInt32(byte &- 0x57)
            default: return nil
            }
        }
        return value
    }
}
