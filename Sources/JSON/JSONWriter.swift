/// A JSON writer with a reused buffer (`ByteWriter`).
///
/// The structured calls (`beginObject`, `name`, `value`, …) insert the commas. Performance-critical code appends
/// constant parts to `out` directly and calls only `escaped`. Not thread-safe. The type is public only for performance,
/// like `ByteWriter`.
@safe public struct JSONWriter: ~Copyable {
    public var out: ByteWriter
    private var needsComma = false

    package init(capacity: Int = 256) { out = ByteWriter(capacity: capacity) }

    /// The written bytes, valid until the next mutating call.
    package var bytes: UnsafeRawBufferPointer { unsafe out.bytes }

    package var text: String { unsafe String(decoding: out.bytes, as: UTF8.self) }

    package mutating func removeAll() {
        out.removeAll()
        needsComma = false
    }

    package consuming func finish() -> ByteWriter { out }

    package mutating func beginObject() { open(0x7B) }
    package mutating func endObject() { close(0x7D) }
    package mutating func beginArray() { open(0x5B) }
    package mutating func endArray() { close(0x5D) }

    /// Writes the name of a member, whose value must follow. Replaces invalid UTF-8 by U+FFFD.
    package mutating func name(_ bytes: UnsafeRawBufferPointer) {
        unsafe value(string: bytes)
        out.append(byte: 0x3A)
        needsComma = false
    }

    package mutating func name(_ name: String) {
        var name = name
        name.withUTF8 { unsafe self.name(UnsafeRawBufferPointer($0)) }
    }

    /// Writes a string. Replaces invalid UTF-8 by U+FFFD.
    package mutating func value(string bytes: UnsafeRawBufferPointer) {
        separate()
        out.append(byte: 0x22)
        unsafe escaped(bytes)
        out.append(byte: 0x22)
    }

    package mutating func value(_ text: StaticString) { unsafe value(string: UnsafeRawBufferPointer(lending: text)) }

    package mutating func value(_ text: String) {
        var text = text
        text.withUTF8 { unsafe value(string: UnsafeRawBufferPointer($0)) }
    }

    package mutating func value(_ integer: Int64) {
        separate()
        out.append(integer: integer)
    }

    package mutating func value(_ integer: Int) { value(Int64(integer)) }

    package mutating func value(_ bool: Bool) {
        separate()
        if bool { out.append("true") } else { out.append("false") }
    }

    /// Writes a floating-point number. Infinities and NaN, which JSON cannot represent, become `null`.
    package mutating func value(_ double: Double) {
        guard double.isFinite else { return null() }
        separate()
        out.append(text: double.description)
    }

    package mutating func null() {
        separate()
        out.append("null")
    }

    /// Writes a value that is already JSON.
    package mutating func value(json bytes: UnsafeRawBufferPointer) {
        separate()
        unsafe out.append(bytes: bytes)
    }

    // MARK: Members with name and value

    package mutating func member(_ name: String, _ double: Double) {
        self.name(name)
        value(double)
    }

    package mutating func member(_ name: String, _ bool: Bool) {
        self.name(name)
        value(bool)
    }

    package mutating func member(_ name: String, _ text: StaticString) {
        self.name(name)
        value(text)
    }

    /// Writes a member whose value is a string, or `null` if `text` is `nil`.
    package mutating func member(_ name: String, _ text: String?) {
        self.name(name)
        if let text { value(text) } else { null() }
    }

    /// Writes a member whose value is an integer, or `null` if `integer` is `nil`.
    package mutating func member(_ name: String, _ integer: Int64?) {
        self.name(name)
        if let integer { value(integer) } else { null() }
    }

    package mutating func member(_ name: String, _ integer: Int?) { member(name, integer.map { Int64($0) }) }

    /// Writes a member whose value is an object, with the contents that `members` writes.
    package mutating func member(_ name: String, _ members: (inout JSONWriter) -> Void) {
        self.name(name)
        beginObject()
        members(&self)
        endObject()
    }

    private mutating func separate() {
        if needsComma { out.append(byte: 0x2C) }
        needsComma = true
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        out.append(byte: bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        out.append(byte: bracket)
        needsComma = true
    }

    /// Writes the contents of a string without quotes, with the necessary escapes. Each maximal invalid UTF-8 sequence,
    /// as defined by Unicode, is replaced by U+FFFD.
    package mutating func escaped(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        out.reserve(6 * bytes.count + 8)
        var p = unsafe base
        let end = unsafe base + bytes.count
        while unsafe p < end {
            if unsafe end - p >= 16 {
                let marked = unsafe JSONString.marks16(p)
                if marked[0] | marked[1] == 0 {
                    // These sixteen bytes need no escapes. They fit, because six bytes are reserved for each byte of
                    // the string.
                    unsafe (out.storage + out.used).copyMemory(from: p, byteCount: 16)
                    out.used &+= 16
                    unsafe p += 16
                    continue
                }
            }
            var word: UInt64 = 0
            var length = 8
            if unsafe end - p >= 8 {
                word = unsafe UInt64(littleEndian: p.loadUnaligned(as: UInt64.self))
            } else {
                length = unsafe end - p
                for place in 0..<length {
                    word |= unsafe UInt64(p.load(fromByteOffset: place, as: UInt8.self)) &<< UInt64(place &* 8)
                }
            }
            let marked = JSONString.marks(word)
            let clean = min(marked == 0 ? 8 : marked.trailingZeroBitCount &>> 3, length)
            // Stores eight bytes, of which the first `clean` are used. The reserved space suffices.
            unsafe out.storage.storeBytes(of: word.littleEndian, toByteOffset: out.used, as: UInt64.self)
            out.used &+= clean
            unsafe p += clean
            if clean < length { unsafe p = unsafe special(p, end) }
        }
    }

    /// Writes the contents of a string, but stops before the character that would exceed `limit` bytes.
    @inline(__always)
    package mutating func escaped(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        let start = out.count
        unsafe escaped(bytes)
        if out.count &- start > limit { unsafe escapeAgain(bytes, from: start, limit: limit) }
    }

    @inline(never)
    private mutating func escapeAgain(_ bytes: UnsafeRawBufferPointer, from start: Int, limit: Int) {
        guard var p = bytes.baseAddress else { return }
        let end = unsafe p + bytes.count
        out.remove(from: start)
        while unsafe p < end {
            let written = out.count
            unsafe p = unsafe special(p, end)
            if out.count - start > limit {
                out.remove(from: written)
                return
            }
        }
    }

    /// Writes the character at `p`, escaped if necessary. Returns the position after the character.
    private mutating func special(_ p: UnsafeRawPointer, _ end: UnsafeRawPointer) -> UnsafeRawPointer {
        let byte = unsafe p.load(as: UInt8.self)
        switch byte {
        case 0x22: out.append("\\\"")
        case 0x5C: out.append("\\\\")
        case 0x08: out.append("\\b")
        case 0x0C: out.append("\\f")
        case 0x0A: out.append("\\n")
        case 0x0D: out.append("\\r")
        case 0x09: out.append("\\t")
        case 0..<0x20:
            out.append(byte < 0x10 ? "\\u000" : "\\u001")
            let digit = byte & 0xF
            out.append(byte: digit < 10 ? digit + 0x30 : digit + 0x57)
        case 0x20..<0x80:
            out.append(byte: byte)
        default:
            let length = unsafe JSONString.utf8Length(p, end)
            if length > 0 {
                unsafe out.append(bytes: UnsafeRawBufferPointer(start: p, count: length))
                return unsafe p + length
            }
            out.append("\u{FFFD}")
            return unsafe p + JSONString.damagedLength(p, end)
        }
        return unsafe p + 1
    }
}

extension UnsafeRawBufferPointer {
    /// Borrows the bytes of a static string, which are valid for the life of the process.
    init(lending text: StaticString) {
        unsafe self.init(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}
