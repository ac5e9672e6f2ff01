/// A member of the object that was scanned: ranges as offsets into the scanned bytes.
package struct JSONMember: Sendable {
    /// The name between its quotes, escapes not resolved.
    package var nameStart: Int
    package var nameEnd: Int
    /// The value; a string's quotes included.
    package var valueStart: Int
    package var valueEnd: Int

    package init(nameStart: Int = 0, nameEnd: Int = 0, valueStart: Int = 0, valueEnd: Int = 0) {
        self.nameStart = nameStart
        self.nameEnd = nameEnd
        self.valueStart = valueStart
        self.valueEnd = valueEnd
    }
}

/// What one pass over some bytes found.
package struct JSONScan: Sendable {
    /// `nil`: the bytes are one JSON value with nothing but white space around it.
    package var error: JSONError?
    /// What the value is; meaningless after an error.
    package var kind: JSONKind
    /// How many members the object has, also those for which there was no room.
    package var memberCount: Int
}

/// Checks that lent bytes are JSON (RFC 8259, strict; UTF-8 as of RFC 3629) in one pass, without allocation.
package enum JSONScanner {
    /// Deepest nesting of objects and arrays. RFC 8259, 9: an implementation "may set limits on the maximum depth of
    /// nesting".
    package static let depthLimit = 64

    /// Checks `bytes`, and when they are an object reports as many of its members as fit into `members`.
    ///
    /// A string may have escapes that spell half a surrogate pair, as the grammar allows. O(bytes), no recursion.
    package static func scan(
        _ bytes: UnsafeRawBufferPointer,
        members: UnsafeMutableBufferPointer<JSONMember>
    ) -> JSONScan {
        guard let base = bytes.baseAddress, bytes.count > 0 else {
            return JSONScan(error: JSONError(.endOfInput, at: 0), kind: .null, memberCount: 0)
        }
        let end = unsafe base + bytes.count
        let first = unsafe skipSpace(base, end)
        guard unsafe first < end else {
            return JSONScan(error: JSONError(.endOfInput, at: bytes.count), kind: .null, memberCount: 0)
        }
        let kind = unsafe kind(of: first.load(as: UInt8.self))
        var memberCount = 0
        let error = unsafe walk(base, first, end, members, kind == .object, &memberCount)
        return JSONScan(error: error, kind: kind, memberCount: memberCount)
    }

    /// Checks `bytes` only.
    package static func scan(_ bytes: UnsafeRawBufferPointer) -> JSONScan {
        unsafe scan(bytes, members: UnsafeMutableBufferPointer(start: nil, count: 0))
    }

    /// What a value is that begins with this byte, if it is well-formed.
    @inline(__always)
    package static func kind(of first: UInt8) -> JSONKind {
        switch first {
        case 0x7B: .object
        case 0x5B: .array
        case 0x22: .string
        case 0x74, 0x66: .bool
        case 0x6E: .null
        default: .number
        }
    }

    @inline(__always)
    static func skipSpace(_ start: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer {
        var p = unsafe start
        while unsafe p < end {
            let byte = unsafe p.load(as: UInt8.self)
            if byte > 0x20 { break }
            guard byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { break }
            unsafe p += 1
        }
        return unsafe p
    }

    private static func walk(
        _ base: UnsafeRawPointer, _ first: UnsafeRawPointer, _ end: UnsafeRawPointer,
        _ members: UnsafeMutableBufferPointer<JSONMember>, _ isObject: Bool, _ memberCount: inout Int
    ) -> JSONError? {
        var p = unsafe first
        var depth = 0
        /// One bit a level, the innermost lowest: 1 in an object, 0 in an array.
        var levels: UInt64 = 0
        var count = 0
        let capacity = isObject ? members.count : 0
        defer { memberCount = isObject ? count : 0 }

        value: while true {
            // `p` is at a value, white space before it skipped.
            guard unsafe p < end else { return unsafe JSONError(.endOfInput, at: end - base) }
            var expectsName = false
            switch unsafe p.load(as: UInt8.self) {
            case 0x22:
                guard let next = unsafe JSONString.skip(p + 1, end) else {
                    return unsafe JSONString.fault(p + 1, end, from: base)
                }
                unsafe p = unsafe next
            case 0x7B:
                guard depth < depthLimit else { return unsafe JSONError(.tooDeep, at: p - base) }
                unsafe p = unsafe skipSpace(p + 1, end)
                if unsafe p < end && p.load(as: UInt8.self) == 0x7D {
                    unsafe p += 1
                } else {
                    depth &+= 1
                    levels = levels &<< 1 | 1
                    expectsName = true
                }
            case 0x5B:
                guard depth < depthLimit else { return unsafe JSONError(.tooDeep, at: p - base) }
                unsafe p = unsafe skipSpace(p + 1, end)
                if unsafe p < end && p.load(as: UInt8.self) == 0x5D {
                    unsafe p += 1
                } else {
                    depth &+= 1
                    levels = levels &<< 1
                    continue value
                }
            case 0x74:
                guard unsafe hasWord(p, end, 0x6575_7274) else { return unsafe wordFault(p, end, base, "true") }
                unsafe p += 4
            case 0x66:
                guard unsafe hasWord(p + 1, end, 0x6573_6C61) else { return unsafe wordFault(p, end, base, "false") }
                unsafe p += 5
            case 0x6E:
                guard unsafe hasWord(p, end, 0x6C6C_756E) else { return unsafe wordFault(p, end, base, "null") }
                unsafe p += 4
            default:
                guard let next = unsafe JSONNumber.skip(p, end) else {
                    return unsafe JSONNumber.fault(p, end, from: base)
                }
                unsafe p = unsafe next
            }

            // `p` is behind a value, or (`expectsName`) where the name of an object's first member should be.
            while !expectsName {
                if depth == 0 {
                    unsafe p = unsafe skipSpace(p, end)
                    return unsafe p == end ? nil : JSONError(.trailingBytes, at: p - base)
                }
                if depth == 1 && count > 0 && count <= capacity {
                    unsafe members[count &- 1].valueEnd = unsafe p - base
                }
                unsafe p = unsafe skipSpace(p, end)
                guard unsafe p < end else { return unsafe JSONError(.endOfInput, at: end - base) }
                let byte = unsafe p.load(as: UInt8.self)
                let inObject = levels & 1 == 1
                if byte == 0x2C {
                    unsafe p = unsafe skipSpace(p + 1, end)
                    if !inObject { continue value }
                    expectsName = true
                } else if byte == (inObject ? 0x7D : 0x5D) {
                    unsafe p += 1
                    depth &-= 1
                    levels = levels &>> 1
                } else {
                    return unsafe JSONError(.unexpectedByte, at: p - base)
                }
            }

            guard unsafe p < end else { return unsafe JSONError(.endOfInput, at: end - base) }
            guard unsafe p.load(as: UInt8.self) == 0x22 else { return unsafe JSONError(.unexpectedByte, at: p - base) }
            let name = unsafe p + 1
            guard let afterName = unsafe JSONString.skip(name, end) else {
                return unsafe JSONString.fault(name, end, from: base)
            }
            unsafe p = unsafe skipSpace(afterName, end)
            guard unsafe p < end else { return unsafe JSONError(.endOfInput, at: end - base) }
            guard unsafe p.load(as: UInt8.self) == 0x3A else { return unsafe JSONError(.unexpectedByte, at: p - base) }
            unsafe p = unsafe skipSpace(p + 1, end)
            if depth == 1 {
                if count < capacity {
                    unsafe members[count] = unsafe JSONMember(
                        nameStart: name - base, nameEnd: afterName - base - 1, valueStart: p - base, valueEnd: 0)
                }
                count &+= 1
            }
        }
    }

    @inline(__always)
    private static func hasWord(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer, _ word: UInt32) -> Bool {
        unsafe end - p >= 4 && UInt32(littleEndian: p.loadUnaligned(as: UInt32.self)) == word
    }

    private static func wordFault(
        _ p: UnsafeRawPointer, _ end: UnsafeRawPointer, _ base: UnsafeRawPointer, _ word: StaticString
    ) -> JSONError {
        var same = 0
        while unsafe p + same < end && p.load(fromByteOffset: same, as: UInt8.self) == word.utf8Start[same] {
            same += 1
        }
        return unsafe JSONError(p + same == end ? .endOfInput : .unexpectedByte, at: p + same - base)
    }
}
