/// A pull parser for borrowed JSON bytes, which returns one value at a time in document order.
///
/// `init(_:)` validates all bytes, so later calls throw only if a value has another type, or is not a 64-bit integer.
/// The bytes must stay valid and unchanged while the reader is used.
///
/// ```swift
/// var reader = try JSONReader(bytes)
/// try reader.enterObject()
/// while let name = reader.nextMember() {
///     if name.equals("reason") { reason = try reader.text().string } else { reader.skip() }
/// }
/// ```
@safe package struct JSONReader {
    private let base: UnsafeRawPointer
    private let end: UnsafeRawPointer
    private var p: UnsafeRawPointer

    /// Throws if the bytes are not exactly one JSON value.
    package init(_ bytes: UnsafeRawBufferPointer) throws(JSONError) {
        if let error = unsafe JSONScanner.scan(bytes).error { throw error }
        unsafe self.init(checked: bytes)
    }

    /// - Parameter bytes: One JSON value that `JSONScanner` accepted, alone or as part of another value.
    package init(checked bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { preconditionFailure("the checked JSON must not be empty") }
        unsafe base = unsafe start
        unsafe end = unsafe start + bytes.count
        unsafe p = unsafe JSONScanner.skipSpace(start, start + bytes.count)
    }

    /// The offset in bytes of the next value.
    package var offset: Int { unsafe p - base }

    package var kind: JSONKind { JSONScanner.kind(of: byte) }

    package mutating func enterObject() throws(JSONError) { try enter(.object) }

    /// Returns the name of the object's next member, whose value must be read next. At the object's end, leaves the
    /// object and returns `nil`.
    package mutating func nextMember() -> JSONText? {
        if byte == 0x2C { step() }
        if byte == 0x7D {
            step()
            return nil
        }
        precondition(byte == 0x22, "the previous member's value must be read before the next name")
        let name = stringBody()
        step()
        return name
    }

    package mutating func enterArray() throws(JSONError) { try enter(.array) }

    /// Returns whether the array has another element, which must be read next. At the array's end, leaves the array.
    package mutating func nextElement() -> Bool {
        if byte == 0x2C { step() }
        if byte == 0x5D {
            step()
            return false
        }
        return true
    }

    package mutating func text() throws(JSONError) -> JSONText {
        try expect(.string)
        return stringBody()
    }

    package mutating func integer() throws(JSONError) -> Int64 {
        try expect(.number)
        let start = offset
        let digits = unsafe String(decoding: skip(), as: UTF8.self)
        guard let value = Int64(digits) else { throw JSONError(kind: .notAnInteger, offset: start) }
        return value
    }

    /// Reads a number as the nearest `Double`, or infinity if it is too large.
    package mutating func double() throws(JSONError) -> Double {
        try expect(.number)
        let digits = unsafe String(decoding: skip(), as: UTF8.self)
        return Double(digits) ?? (digits.hasPrefix("-") ? -Double.infinity : Double.infinity)
    }

    /// Reads a `null` if it is the next value, and returns whether it was.
    package mutating func null() -> Bool {
        guard kind == .null else { return false }
        unsafe skip()
        return true
    }

    /// Skips a value of any type and returns its bytes.
    @discardableResult
    package mutating func skip() -> UnsafeRawBufferPointer {
        let start = unsafe p
        let last = unsafe pastValue()
        unsafe p = unsafe JSONScanner.skipSpace(last, end)
        return unsafe UnsafeRawBufferPointer(start: start, count: last - start)
    }

    private func pastValue() -> UnsafeRawPointer {
        var q = unsafe p
        var depth = 0
        repeat {
            precondition(unsafe q < end, "the checked bytes must be complete JSON")
            switch unsafe q.load(as: UInt8.self) {
            case 0x22:
                guard let next = unsafe JSONString.end(of: q + 1, end) else {
                    preconditionFailure("the checked bytes must be valid JSON")
                }
                unsafe q = unsafe next
            case 0x7B, 0x5B:
                depth += 1
                unsafe q += 1
            case 0x7D, 0x5D:
                depth -= 1
                unsafe q += 1
            case 0x2C, 0x3A, 0x20, 0x09, 0x0A, 0x0D:
                unsafe q += 1
            default:
                // A comma, a bracket or white space ends a number, `true`, `false` or `null`.
                while unsafe q < end, case let byte = unsafe q.load(as: UInt8.self), byte > 0x20,
                    byte != 0x2C, byte != 0x5D, byte != 0x7D
                { unsafe q += 1 }
            }
        } while depth > 0
        return unsafe q
    }

    private var byte: UInt8 {
        precondition(unsafe p < end, "the JSON must have another value to read")
        return unsafe p.load(as: UInt8.self)
    }

    private mutating func step() { unsafe p = unsafe JSONScanner.skipSpace(p + 1, end) }

    private mutating func enter(_ expected: JSONKind) throws(JSONError) {
        try expect(expected)
        step()
    }

    private func expect(_ expected: JSONKind) throws(JSONError) {
        guard kind == expected else { throw JSONError(kind: .wrongKind, offset: offset) }
    }

    private mutating func stringBody() -> JSONText {
        let quoted = unsafe skip()
        return unsafe JSONText(checked: UnsafeRawBufferPointer(rebasing: quoted[1..<(quoted.count - 1)]))
    }
}
