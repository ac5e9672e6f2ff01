/// A string in borrowed, validated JSON: the bytes between its quotes, with unresolved escapes.
@safe package struct JSONText {
    package let bytes: UnsafeRawBufferPointer

    /// - Parameter bytes: The content of a string that `JSONScanner` accepted.
    package init(checked bytes: UnsafeRawBufferPointer) { unsafe self.bytes = unsafe bytes }

    /// Whether the bytes contain escapes and therefore differ from the decoded string.
    package var hasEscapes: Bool {
        guard let base = unsafe bytes.baseAddress else { return false }
        let count = unsafe bytes.count
        guard count >= 16 else { return unsafe bytes.contains(0x5C) }
        let backslash = SIMD16<UInt8>(repeating: 0x5C)
        var index = 0
        repeat {
            // The last block may overlap the block before it. After the XOR, a lane is 0 only for a backslash, and in
            // validated bytes every backslash belongs to an escape.
            let p = unsafe base + min(index, count &- 16)
            let lanes = unsafe p.loadUnaligned(as: SIMD16<UInt8>.self) ^ backslash
            let zero = (lanes &- SIMD16(repeating: 1)) & ~lanes & SIMD16(repeating: 0x80)
            let words = unsafe unsafeBitCast(zero, to: SIMD2<UInt64>.self)
            if words[0] | words[1] != 0 { return true }
            index &+= 16
        } while index < count
        return false
    }

    package func equals(_ text: StaticString) -> Bool {
        let size = text.utf8CodeUnitCount
        if unsafe bytes.count == size { return unsafe bytes.elementsEqual(UnsafeRawBufferPointer(lending: text)) }
        guard unsafe bytes.count > size && hasEscapes else { return false }
        return string == text.description
    }

    /// The decoded string. A lone surrogate becomes U+FFFD.
    package var string: String {
        guard hasEscapes else { return unsafe String(decoding: bytes, as: UTF8.self) }
        return unsafe String(unsafeUninitializedCapacity: bytes.count) { buffer in
            unsafe resolve(into: UnsafeMutableRawBufferPointer(buffer)) ?? 0
        }
    }

    /// Decodes the string into `buffer`, and returns the decoded length. If the string does not fit, returns `nil` and
    /// leaves its beginning in the buffer. `bytes.count` bytes always suffice.
    package func resolve(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        guard let base = unsafe bytes.baseAddress else { return 0 }
        var p = unsafe base
        let end = unsafe base + bytes.count
        var count = 0
        while unsafe p < end {
            let byte = unsafe p.load(as: UInt8.self)
            if byte != 0x5C {
                guard count < buffer.count else { return nil }
                unsafe buffer[count] = byte
                count += 1
                unsafe p += 1
                continue
            }
            let scalar = unsafe JSONText.unescape(&p, end)
            let encoded = UTF8.encode(scalar)!
            guard buffer.count - count >= encoded.count else { return nil }
            for unit in encoded {
                unsafe buffer[count] = unit
                count += 1
            }
        }
        return count
    }

    /// Decodes the escape at `p`, and moves `p` past it.
    private static func unescape(_ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer) -> Unicode.Scalar {
        let letter = unsafe p.load(fromByteOffset: 1, as: UInt8.self)
        guard letter == 0x75 else {
            unsafe p += 2
            switch letter {
            case 0x62: return "\u{8}"
            case 0x66: return "\u{C}"
            case 0x6E: return "\n"
            case 0x72: return "\r"
            case 0x74: return "\t"
            default: return Unicode.Scalar(letter)
            }
        }
        let unit = unsafe JSONString.hex4(p + 2) ?? 0xFFFD
        unsafe p += 6
        if let scalar = Unicode.Scalar(unit) { return scalar }
        // RFC 8259, 7: two escapes represent a character beyond the Basic Multilingual Plane, as a UTF-16 surrogate
        // pair.
        guard unit < 0xDC00, let low = unsafe JSONString.lowHalf(p, end) else { return "\u{FFFD}" }
        unsafe p += 6
        return Unicode.Scalar(0x10000 + (unit & 0x3FF) << 10 + low & 0x3FF) ?? "\u{FFFD}"
    }
}
