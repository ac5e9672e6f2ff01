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
    /// Where the first escape is that spells half a surrogate pair, in bytes from the start; `nil`: there is none. It
    /// is JSON by the grammar, and no text: RFC 8259, 8.2, calls what becomes of it unpredictable.
    package var halfSurrogate: Int?
}

/// Checks that lent bytes are JSON (RFC 8259, strict; UTF-8 as of RFC 3629) in one pass, without allocation.
package enum JSONScanner {
    /// Deepest nesting of objects and arrays. RFC 8259, 9: an implementation "may set limits on the maximum depth of
    /// nesting".
    package static let depthLimit = 64

    /// Checks `bytes`, and when they are an object reports as many of its members as fit into `members`.
    ///
    /// An escape that spells half a surrogate pair is no error, but noted. O(bytes), no recursion.
    package static func scan(
        _ bytes: UnsafeRawBufferPointer, members: UnsafeMutableBufferPointer<JSONMember>
    ) -> JSONScan {
        guard let base = bytes.baseAddress, bytes.count > 0 else {
            return JSONScan(error: JSONError(.endOfInput, at: 0), kind: .null, memberCount: 0)
        }
        let end = unsafe base + bytes.count
        let first = unsafe skipSpace(base, end)
        guard unsafe first < end else {
            return JSONScan(error: JSONError(.endOfInput, at: bytes.count), kind: .null, memberCount: 0)
        }
        var scan = unsafe JSONScan(error: nil, kind: kind(of: first.load(as: UInt8.self)), memberCount: 0)
        var notes = Notes()
        let past: UnsafeRawPointer?
        switch scan.kind {
        case .object, .array: unsafe past = unsafe root(base, first, end, members, &scan, &notes)
        case .string, .number, .bool, .null: unsafe past = unsafe scalar(base, first, end, &notes)
        }
        scan.error = notes.error
        if let half = unsafe notes.half { scan.halfSurrogate = unsafe half - base }
        guard let past = unsafe past else { return scan }
        let rest = unsafe skipSpace(past, end)
        if unsafe rest != end { scan.error = unsafe JSONError(.trailingBytes, at: rest - base) }
        return scan
    }

    /// What is found on the way.
    @safe private struct Notes {
        var error: JSONError?
        /// The first escape that spells half a surrogate pair.
        var half: UnsafeRawPointer?
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
        while unsafe p < end && isSpace(p.load(as: UInt8.self)) { unsafe p += 1 }
        return unsafe p
    }

    @inline(__always)
    private static func isSpace(_ byte: UInt8) -> Bool {
        byte <= 0x20 && (byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09)
    }

    // MARK: - Objects and arrays
    //
    // `last` is the last closing bracket there is, and nothing is read beyond it but the ends of strings, words and
    // numbers, which look for themselves. So while `p <= last`, white space, commas, colons and opening brackets need
    // no look at the end: each is followed by one byte more.

    /// Past the outermost object or array; `nil` and an error when it is not well-formed.
    private static func root(
        _ base: UnsafeRawPointer, _ first: UnsafeRawPointer, _ end: UnsafeRawPointer,
        _ members: UnsafeMutableBufferPointer<JSONMember>, _ scan: inout JSONScan, _ notes: inout Notes
    ) -> UnsafeRawPointer? {
        var last = unsafe end - 1
        while unsafe last > first && !isClosing(last.load(as: UInt8.self)) { unsafe last -= 1 }
        guard unsafe last > first else {
            notes.error = unsafe JSONError(.endOfInput, at: end - base)
            return nil
        }
        let isObject = scan.kind == .object
        let closing: UInt8 = isObject ? 0x7D : 0x5D
        var p = unsafe spaceAfter(first)
        if unsafe p.load(as: UInt8.self) == closing { return unsafe p + 1 }
        while true {
            if isObject {
                let start = unsafe p
                guard let afterName = unsafe name(base, start, last, end, &notes),
                    let value = unsafe colon(base, afterName, &notes)
                else { return nil }
                unsafe p = unsafe value
                if scan.memberCount < members.count {
                    unsafe members[scan.memberCount] = unsafe JSONMember(
                        nameStart: start - base + 1, nameEnd: afterName - base - 1, valueStart: p - base, valueEnd: 0)
                }
            }
            let byte = unsafe p.load(as: UInt8.self)
            let past =
                unsafe byte == 0x7B || byte == 0x5B
                ? container(base, p, last, end, &notes) : scalar(base, p, end, &notes)
            guard let past = unsafe past else { return nil }
            guard unsafe past <= last else {
                notes.error = unsafe JSONError(.endOfInput, at: end - base)
                return nil
            }
            if isObject {
                if scan.memberCount < members.count { unsafe members[scan.memberCount].valueEnd = unsafe past - base }
                scan.memberCount &+= 1
            }
            unsafe p = unsafe spaceAt(past)
            let next = unsafe p.load(as: UInt8.self)
            if next == closing { return unsafe p + 1 }
            guard next == 0x2C else {
                notes.error = unsafe JSONError(.unexpectedByte, at: p - base)
                return nil
            }
            unsafe p = unsafe spaceAfter(p)
        }
    }

    /// Past an object or array inside another, with all that is in it; `nil` and an error when it is not well-formed.
    private static func container(
        _ base: UnsafeRawPointer, _ first: UnsafeRawPointer, _ last: UnsafeRawPointer, _ end: UnsafeRawPointer,
        _ notes: inout Notes
    ) -> UnsafeRawPointer? {
        var inObject = unsafe first.load(as: UInt8.self) == 0x7B
        var p = unsafe spaceAfter(first)
        if unsafe p.load(as: UInt8.self) == (inObject ? 0x7D : 0x5D) { return unsafe p + 1 }
        // One bit a level, the innermost lowest: 1 in an object, 0 in an array. Above them a 1 that marks the top; the
        // outermost object or array, which is not among them, makes it 64 levels.
        var levels: UInt64 = inObject ? 0b11 : 0b10
        element: while true {
            if inObject {
                guard let afterName = unsafe name(base, p, last, end, &notes),
                    let value = unsafe colon(base, afterName, &notes)
                else { return nil }
                unsafe p = unsafe value
            }
            let byte = unsafe p.load(as: UInt8.self)
            if byte == 0x22 {
                guard let past = unsafe JSONString.skip(p + 1, end, &notes.half) else {
                    notes.error = unsafe JSONString.fault(p + 1, end, from: base)
                    return nil
                }
                unsafe p = unsafe past
            } else if byte == 0x7B || byte == 0x5B {
                let inner = unsafe spaceAfter(p)
                let isObject = byte == 0x7B
                if unsafe inner.load(as: UInt8.self) == (isObject ? 0x7D : 0x5D) {
                    unsafe p = unsafe inner + 1
                } else {
                    guard levels &>> UInt64(depthLimit - 1) == 0 else {
                        notes.error = unsafe JSONError(.tooDeep, at: p - base)
                        return nil
                    }
                    levels = levels &<< 1 | (isObject ? 1 : 0)
                    inObject = isObject
                    unsafe p = unsafe inner
                    continue element
                }
            } else {
                guard let past = unsafe scalar(base, p, end, &notes) else { return nil }
                unsafe p = unsafe past
            }
            while true {
                guard unsafe p <= last else {
                    notes.error = unsafe JSONError(.endOfInput, at: end - base)
                    return nil
                }
                unsafe p = unsafe spaceAt(p)
                let next = unsafe p.load(as: UInt8.self)
                if next == 0x2C {
                    unsafe p = unsafe spaceAfter(p)
                    continue element
                }
                guard next == (inObject ? 0x7D : 0x5D) else {
                    notes.error = unsafe JSONError(.unexpectedByte, at: p - base)
                    return nil
                }
                unsafe p += 1
                levels = levels &>> 1
                if levels == 1 { return unsafe p }
                inObject = levels & 1 == 1
            }
        }
    }

    /// Past a member's name; `nil` and an error when there is none.
    @inline(__always)
    private static func name(
        _ base: UnsafeRawPointer, _ p: UnsafeRawPointer, _ last: UnsafeRawPointer, _ end: UnsafeRawPointer,
        _ notes: inout Notes
    ) -> UnsafeRawPointer? {
        guard unsafe p.load(as: UInt8.self) == 0x22 else {
            notes.error = unsafe JSONError(.unexpectedByte, at: p - base)
            return nil
        }
        guard let past = unsafe JSONString.skip(p + 1, end, &notes.half) else {
            notes.error = unsafe JSONString.fault(p + 1, end, from: base)
            return nil
        }
        guard unsafe past <= last else {
            notes.error = unsafe JSONError(.endOfInput, at: end - base)
            return nil
        }
        return unsafe past
    }

    /// Past the colon behind a name and the white space around it; `nil` and an error when there is none.
    @inline(__always)
    private static func colon(
        _ base: UnsafeRawPointer, _ afterName: UnsafeRawPointer, _ notes: inout Notes
    ) -> UnsafeRawPointer? {
        let p = unsafe spaceAt(afterName)
        if unsafe p.load(as: UInt8.self) == 0x3A { return unsafe spaceAfter(p) }
        notes.error = unsafe JSONError(.unexpectedByte, at: p - base)
        return nil
    }

    @inline(__always)
    private static func isClosing(_ byte: UInt8) -> Bool { byte == 0x7D || byte == 0x5D }

    /// Past white space at `start`.
    @inline(__always)
    private static func spaceAt(_ start: UnsafeRawPointer) -> UnsafeRawPointer {
        var p = unsafe start
        while unsafe isSpace(p.load(as: UInt8.self)) { unsafe p += 1 }
        return unsafe p
    }

    /// Past one byte and the white space behind it.
    @inline(__always)
    private static func spaceAfter(_ start: UnsafeRawPointer) -> UnsafeRawPointer { unsafe spaceAt(start + 1) }

    // MARK: - Other values

    /// Past a string, number or word; `nil` and an error when it is not well-formed. There is at least one byte.
    private static func scalar(
        _ base: UnsafeRawPointer, _ p: UnsafeRawPointer, _ end: UnsafeRawPointer, _ notes: inout Notes
    ) -> UnsafeRawPointer? {
        switch unsafe p.load(as: UInt8.self) {
        case 0x22:
            if let past = unsafe JSONString.skip(p + 1, end, &notes.half) { return unsafe past }
            notes.error = unsafe JSONString.fault(p + 1, end, from: base)
        case 0x74:
            if unsafe hasWord(p, end, 0x6575_7274) { return unsafe p + 4 }
            notes.error = unsafe wordFault(p, end, base, "true")
        case 0x66:
            if unsafe hasWord(p + 1, end, 0x6573_6C61) { return unsafe p + 5 }
            notes.error = unsafe wordFault(p, end, base, "false")
        case 0x6E:
            if unsafe hasWord(p, end, 0x6C6C_756E) { return unsafe p + 4 }
            notes.error = unsafe wordFault(p, end, base, "null")
        default:
            if let past = unsafe JSONNumber.skip(p, end) { return unsafe past }
            notes.error = unsafe JSONNumber.fault(p, end, from: base)
        }
        return nil
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
