/// The simulator's own reading of JSON (RFC 8259): strict, UTF-8 checked, at most 128 levels deep; nothing is decoded.
///
/// It shares no line with the module the worker uses, on purpose: a bug in one must not hide a bug in the other.
struct PayloadSyntax {
    private let bytes: UnsafeRawBufferPointer
    private var at = 0
    /// The member of the outermost object that is looked for, and where its value stands.
    private var wanted: StaticString?
    private var found: Range<Int>?
    /// The names of the outermost object's members, where they are wanted.
    private var names: [String]?

    static let depthLimit = 128

    private init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// Whether the bytes are one JSON object, with nothing but white space around it.
    static func isObject(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var reader = PayloadSyntax(bytes)
        return reader.wholeObject()
    }

    /// The value of a member of the outermost object as written, quotes included; `nil` when the bytes are no object,
    /// or it has no such member. The last one counts when there are several.
    static func member(_ name: StaticString, of bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var reader = PayloadSyntax(bytes)
        reader.wanted = name
        guard reader.wholeObject(), let found = reader.found else { return nil }
        return UnsafeRawBufferPointer(rebasing: bytes[found])
    }

    /// The names of the outermost object's members as written; `nil` when the bytes are no object.
    static func memberNames(of bytes: UnsafeRawBufferPointer) -> [String]? {
        var reader = PayloadSyntax(bytes)
        reader.names = []
        return reader.wholeObject() ? reader.names : nil
    }

    private mutating func wholeObject() -> Bool {
        skipSpace()
        guard peek() == UInt8(ascii: "{"), object(depth: 1) else { return false }
        skipSpace()
        return at == bytes.count
    }

    @inline(__always) private func peek() -> UInt8 { at < bytes.count ? bytes[at] : 0 }

    @inline(__always) private mutating func skipSpace() {
        while at < bytes.count {
            switch bytes[at] {
            case 0x20, 0x09, 0x0A, 0x0D: at += 1
            default: return
            }
        }
    }

    private mutating func value(depth: Int) -> Bool {
        switch peek() {
        case UInt8(ascii: "\""): string()
        case UInt8(ascii: "{"): object(depth: depth + 1)
        case UInt8(ascii: "["): array(depth: depth + 1)
        case UInt8(ascii: "t"): word("true")
        case UInt8(ascii: "f"): word("false")
        case UInt8(ascii: "n"): word("null")
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): number()
        default: false
        }
    }

    private mutating func object(depth: Int) -> Bool {
        guard depth <= Self.depthLimit else { return false }
        at += 1
        skipSpace()
        if peek() == UInt8(ascii: "}") {
            at += 1
            return true
        }
        while true {
            let name = at
            guard string() else { return false }
            let nameEnd = at
            skipSpace()
            guard peek() == UInt8(ascii: ":") else { return false }
            at += 1
            skipSpace()
            let start = at
            guard value(depth: depth) else { return false }
            if depth == 1, names != nil {
                names?.append(String(decoding: bytes[name + 1..<nameEnd - 1], as: UTF8.self))
            }
            if depth == 1, let wanted,
                UnsafeRawBufferPointer(rebasing: bytes[name + 1..<nameEnd - 1]).spells(wanted)
            {
                found = start..<at
            }
            skipSpace()
            switch peek() {
            case UInt8(ascii: ","):
                at += 1
                skipSpace()
            case UInt8(ascii: "}"):
                at += 1
                return true
            default: return false
            }
        }
    }

    private mutating func array(depth: Int) -> Bool {
        guard depth <= Self.depthLimit else { return false }
        at += 1
        skipSpace()
        if peek() == UInt8(ascii: "]") {
            at += 1
            return true
        }
        while true {
            guard value(depth: depth) else { return false }
            skipSpace()
            switch peek() {
            case UInt8(ascii: ","):
                at += 1
                skipSpace()
            case UInt8(ascii: "]"):
                at += 1
                return true
            default: return false
            }
        }
    }

    private mutating func word(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard bytes.count - at >= count, UnsafeRawBufferPointer(rebasing: bytes[at..<at + count]).spells(text) else {
            return false
        }
        at += count
        return true
    }

    private mutating func digits() -> Bool {
        let start = at
        while case UInt8(ascii: "0")...UInt8(ascii: "9") = peek() { at += 1 }
        return at > start
    }

    private mutating func number() -> Bool {
        if peek() == UInt8(ascii: "-") { at += 1 }
        if peek() == UInt8(ascii: "0") { at += 1 } else if !digits() { return false }
        if peek() == UInt8(ascii: ".") {
            at += 1
            guard digits() else { return false }
        }
        if peek() | 0x20 == UInt8(ascii: "e") {
            at += 1
            if peek() == UInt8(ascii: "+") || peek() == UInt8(ascii: "-") { at += 1 }
            guard digits() else { return false }
        }
        return true
    }

    private mutating func string() -> Bool {
        guard peek() == UInt8(ascii: "\"") else { return false }
        at += 1
        while at < bytes.count {
            let byte = bytes[at]
            switch byte {
            case UInt8(ascii: "\""):
                at += 1
                return true
            case UInt8(ascii: "\\"):
                guard escape() else { return false }
            case 0..<0x20: return false
            case 0x20..<0x80: at += 1
            default:
                guard scalar(byte) else { return false }
            }
        }
        return false
    }

    private mutating func escape() -> Bool {
        at += 1
        switch peek() {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            at += 1
            return true
        case UInt8(ascii: "u"):
            at += 1
            guard bytes.count - at >= 4 else { return false }
            for _ in 0..<4 {
                guard hexDigit(bytes[at]) != nil else { return false }
                at += 1
            }
            return true
        default: return false
        }
    }

    /// One scalar of two to four bytes in well-formed UTF-8 (Unicode, table 3-7).
    private mutating func scalar(_ first: UInt8) -> Bool {
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch first {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: length = 4
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return false
        }
        guard bytes.count - at >= length, second.contains(bytes[at + 1]) else { return false }
        for index in 2..<4 where index < length {
            guard 0x80...0xBF ~= bytes[at + index] else { return false }
        }
        at += length
        return true
    }
}
