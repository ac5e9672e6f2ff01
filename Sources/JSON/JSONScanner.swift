/// A member of the scanned object. Positions are offsets in the scanned bytes.
package struct JSONMember: Sendable {
    /// The range of the name without its quotes, with unresolved escapes.
    package var nameStart = 0
    package var nameEnd = 0
    /// The range of the value, including the quotes of a string.
    package var valueStart = 0
    package var valueEnd = 0

    package init() {}
}

/// The result of one scan.
package struct JSONScan: Sendable {
    /// The first error, or `nil` if the bytes are exactly one JSON value, with or without white space around it.
    package var error: JSONError?
    /// The type of the value. Meaningless after an error.
    package var kind = JSONKind.null
    /// The number of the object's members, including members that did not fit into the caller's buffer.
    package var memberCount = 0
    /// The offset in bytes of the first escape of a lone surrogate. The grammar allows such an escape, but RFC 8259,
    /// 8.2, says that its effect on receivers is unpredictable.
    package var halfSurrogate: Int?
}

/// Validates borrowed bytes as JSON (RFC 8259, strict; UTF-8 as in RFC 3629) in one pass, without allocation.
package enum JSONScanner {
    /// The maximum nesting of objects and arrays. RFC 8259, 9, permits such a limit.
    package static let depthLimit = 64

    /// Validates `bytes`. If they are an object, stores the object's members, as many as fit, in `members`.
    ///
    /// The escape of a lone surrogate is reported in `halfSurrogate`, but is not an error. O(bytes), without recursion.
    package static func scan(
        _ bytes: UnsafeRawBufferPointer,
        members: UnsafeMutableBufferPointer<JSONMember> = unsafe UnsafeMutableBufferPointer(start: nil, count: 0)
    ) -> JSONScan {
        var scan = JSONScan()
        guard let base = bytes.baseAddress else {
            scan.error = JSONError(kind: .endOfInput, offset: 0)
            return scan
        }
        let end = unsafe base + bytes.count
        var p = unsafe skipSpace(base, end)
        var half: UnsafeRawPointer?
        var fault: JSONError.Kind?
        if unsafe p == end {
            fault = .endOfInput
        } else {
            scan.kind = unsafe kind(of: p.load(as: UInt8.self))
            switch scan.kind {
            case .object, .array: fault = unsafe structure(base, &p, end, members, &scan, &half)
            case .string: fault = unsafe string(&p, end, &half)
            case .number, .bool, .null: fault = unsafe scalar(&p, end)
            }
        }
        if let half = unsafe half { scan.halfSurrogate = unsafe half - base }
        if fault == nil {
            unsafe p = unsafe skipSpace(p, end)
            if unsafe p != end { fault = .trailingBytes }
        }
        if let fault { scan.error = unsafe JSONError(kind: fault, offset: p - base) }
        return scan
    }

    /// Returns the type of a valid value that begins with this byte.
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

    // Each function below that validates a value moves its position argument past the value, or to the first error.

    private static func structure(
        _ base: UnsafeRawPointer, _ start: inout UnsafeRawPointer, _ end: UnsafeRawPointer,
        _ members: UnsafeMutableBufferPointer<JSONMember>, _ scan: inout JSONScan, _ half: inout UnsafeRawPointer?
    ) -> JSONError.Kind? {
        var p = unsafe start
        defer { unsafe start = unsafe p }
        // The position of the last closing bracket. While `p <= last`, white space, commas, colons and opening brackets
        // need no check for the end, because a byte follows each of them. Strings, words and numbers check for the end
        // themselves.
        var last = unsafe end - 1
        while unsafe last > p && !isClosing(last.load(as: UInt8.self)) { unsafe last -= 1 }
        guard unsafe last > p else {
            unsafe p = unsafe end
            return .endOfInput
        }
        // One bit for each level of nesting: 1 for an object, 0 for an array. The lowest bit is the innermost level.
        var levels: UInt64 = 0
        var depth = 0
        element: while true {
            if levels & 1 == 1 {
                let name = unsafe p
                if let fault = unsafe string(&p, end, &half) { return fault }
                guard unsafe p <= last else {
                    unsafe p = unsafe end
                    return .endOfInput
                }
                let nameEnd = unsafe p
                unsafe p = unsafe spaceAt(p)
                guard unsafe p.load(as: UInt8.self) == 0x3A else { return .unexpectedByte }
                unsafe p = unsafe spaceAt(p + 1)
                if depth == 1 && scan.memberCount < members.count {
                    unsafe members[scan.memberCount].nameStart = unsafe name - base + 1
                    unsafe members[scan.memberCount].nameEnd = unsafe nameEnd - base - 1
                    unsafe members[scan.memberCount].valueStart = unsafe p - base
                }
            }
            let byte = unsafe p.load(as: UInt8.self)
            if byte == 0x22 {
                if let fault = unsafe string(&p, end, &half) { return fault }
            } else if byte == 0x7B || byte == 0x5B {
                let isObject = byte == 0x7B
                let inner = unsafe spaceAt(p + 1)
                if unsafe inner.load(as: UInt8.self) == (isObject ? 0x7D : 0x5D) {
                    unsafe p = unsafe inner + 1
                } else {
                    guard depth < depthLimit else { return .tooDeep }
                    depth &+= 1
                    levels = levels &<< 1 | (isObject ? 1 : 0)
                    unsafe p = unsafe inner
                    continue element
                }
            } else {
                // Pass the address of a copy to the function, so that `p` stays in a register.
                var place = unsafe p
                let fault = unsafe scalar(&place, end)
                unsafe p = unsafe place
                if let fault { return fault }
            }
            while depth > 0 {
                if depth == 1 && levels == 1 {
                    if scan.memberCount < members.count {
                        unsafe members[scan.memberCount].valueEnd = unsafe p - base
                    }
                    scan.memberCount &+= 1
                }
                guard unsafe p <= last else {
                    unsafe p = unsafe end
                    return .endOfInput
                }
                unsafe p = unsafe spaceAt(p)
                let next = unsafe p.load(as: UInt8.self)
                if next == 0x2C {
                    unsafe p = unsafe spaceAt(p + 1)
                    continue element
                }
                guard next == (levels & 1 == 1 ? 0x7D : 0x5D) else { return .unexpectedByte }
                unsafe p += 1
                levels = levels &>> 1
                depth &-= 1
            }
            return nil
        }
    }

    @inline(__always)
    private static func isClosing(_ byte: UInt8) -> Bool { byte == 0x7D || byte == 0x5D }

    /// Returns the position after white space. A byte that is not white space must follow.
    @inline(__always)
    private static func spaceAt(_ start: UnsafeRawPointer) -> UnsafeRawPointer {
        var p = unsafe start
        while unsafe isSpace(p.load(as: UInt8.self)) { unsafe p += 1 }
        return unsafe p
    }

    @inline(__always)
    private static func string(
        _ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer, _ half: inout UnsafeRawPointer?
    ) -> JSONError.Kind? {
        guard unsafe p.load(as: UInt8.self) == 0x22 else { return .unexpectedByte }
        unsafe p += 1
        return unsafe JSONString.skip(&p, end, &half) ? nil : JSONString.fault(p, end)
    }

    /// Validates a number, `true`, `false` or `null`.
    @inline(never)
    private static func scalar(_ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer) -> JSONError.Kind? {
        switch unsafe p.load(as: UInt8.self) {
        case 0x74: return unsafe word(&p, end, "true")
        case 0x66: return unsafe word(&p, end, "false")
        case 0x6E: return unsafe word(&p, end, "null")
        default:
            if unsafe number(&p, end) { return nil }
            return unsafe p == end ? .endOfInput : .unexpectedByte
        }
    }

    private static func word(
        _ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer, _ word: StaticString
    ) -> JSONError.Kind? {
        for index in 0..<word.utf8CodeUnitCount {
            guard unsafe p < end else { return .endOfInput }
            guard unsafe p.load(as: UInt8.self) == word.utf8Start[index] else { return .unexpectedByte }
            unsafe p += 1
        }
        return nil
    }

    /// Moves `p` past a number (RFC 8259, 6). Returns whether the number is valid.
    @inline(__always)
    private static func number(_ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer) -> Bool {
        if unsafe p.load(as: UInt8.self) == 0x2D { unsafe p += 1 }
        if unsafe p < end && p.load(as: UInt8.self) == 0x30 {
            unsafe p += 1
        } else if unsafe !digits(&p, end) {
            return false
        }
        if unsafe p < end && p.load(as: UInt8.self) == 0x2E {
            unsafe p += 1
            if unsafe !digits(&p, end) { return false }
        }
        guard unsafe p < end && p.load(as: UInt8.self) | 0x20 == 0x65 else { return true }
        unsafe p += 1
        if unsafe p < end && (p.load(as: UInt8.self) == 0x2B || p.load(as: UInt8.self) == 0x2D) { unsafe p += 1 }
        return unsafe digits(&p, end)
    }

    @inline(__always)
    private static func digits(_ p: inout UnsafeRawPointer, _ end: UnsafeRawPointer) -> Bool {
        let start = unsafe p
        while unsafe p < end && p.load(as: UInt8.self) &- 0x30 < 10 { unsafe p += 1 }
        return unsafe p != start
    }
}
