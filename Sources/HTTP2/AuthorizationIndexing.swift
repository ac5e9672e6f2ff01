import Glibc

// nghttp2 never adds `authorization` to the dynamic table, whatever the flags, so the header would cost about 155
// bytes in every request. To index it anyway:
// - The client submits the field under a placeholder name of the same length, which nghttp2 does index.
// - If a HEADERS frame contains the placeholder name as a literal, the client replaces the literal with a reference to
//   `authorization` in the static table. The dynamic tables of both sides then contain entries of the same size at the
//   same index, so every later reference is valid on both sides.
// - If the value changes, nghttp2 refers to the dynamic-table entry that has the placeholder as its name. In the peer's
//   table, this entry has the name `authorization`.
// Tested against nghttpd. RFC 7541: appendix A (index 23: authorization), 4.1 (size of an entry), 6.2 (literals).

enum AuthorizationIndexing {
    static let name: StaticString = "authorization"
    /// The placeholder name. It is as long as `authorization`, and not in HPACK's static table.
    static let standIn: StaticString = "authorisation"
    /// nghttp2's encoding of the placeholder name: the Huffman flag with the length, then the Huffman code (RFC 7541,
    /// appendix B).
    static let literal: [10 of UInt8] = [0x89, 0x1d, 0xa9, 0x9c, 0xf6, 0x19, 0x03, 0x49, 0x8f, 0x57]

    /// Appends a frame to `output`. If it is a HEADERS frame with the placeholder name as a literal, replaces the
    /// literal with a reference to `authorization` in the static table.
    static func append(_ frame: UnsafeRawPointer, _ size: Int, to output: inout OutputBuffer) {
        guard let found = unsafe find(frame, size) else { return unsafe output.append(frame, size) }
        let first = unsafe frame.load(fromByteOffset: found.offset, as: UInt8.self)
        let name: [UInt8] = found.usesShortPrefix ? [first | 23] : [first | 15, 23 - 15]
        let rest = found.offset + 1 + literal.count
        let payload = found.offset + name.count + size - rest - 9
        let length = [16, 8, 0].map { UInt8(truncatingIfNeeded: payload >> $0) }
        unsafe output.append(length, length.count)
        unsafe output.append(frame + 3, found.offset - 3)
        unsafe output.append(name, name.count)
        unsafe output.append(frame + rest, size - rest)
    }

    struct Found: Equatable {
        /// The offset of the literal's first byte in the frame.
        var offset: Int
        /// Whether the field's name index has a 6-bit prefix (incremental indexing), into which the index 23 of
        /// `authorization` fits. The other two kinds of literal fields have a 4-bit prefix.
        var usesShortPrefix: Bool
    }

    /// Searches the header block of a HEADERS frame (RFC 7541, section 6) for the placeholder name as a literal.
    static func find(_ frame: UnsafeRawPointer, _ size: Int) -> Found? {
        let bytes = unsafe UnsafeRawBufferPointer(start: frame, count: size)
        let headersType: UInt8 = 1
        // nghttp2 writes requests without padding and priority.
        guard size > 9, unsafe bytes[3] == headersType, unsafe bytes[4] & 0x28 == 0 else { return nil }
        var at = 9
        while at < size {
            let first = unsafe bytes[at]
            let start = at
            let prefix: UInt8 =
                if first & 0x80 != 0 { 7 } else if first & 0x40 != 0 { 6 } else if first & 0x20 != 0 { 5 } else { 4 }
            guard let index = unsafe integer(bytes, &at, prefix: prefix) else { return nil }
            if prefix == 7 || prefix == 5 { continue }
            if index == 0 {
                if unsafe matches(bytes, at) { return Found(offset: start, usesShortPrefix: prefix == 6) }
                guard unsafe skipString(bytes, &at) else { return nil }
            }
            guard unsafe skipString(bytes, &at) else { return nil }
        }
        return nil
    }

    private static func matches(_ bytes: UnsafeRawBufferPointer, _ at: Int) -> Bool {
        guard at + literal.count <= bytes.count else { return false }
        for offset in 0..<literal.count where unsafe bytes[at + offset] != literal[offset] { return false }
        return true
    }

    private static func skipString(_ bytes: UnsafeRawBufferPointer, _ at: inout Int) -> Bool {
        guard let length = unsafe integer(bytes, &at, prefix: 7), length <= bytes.count - at else { return false }
        at += length
        return true
    }

    /// Decodes an integer (RFC 7541, 5.1). Returns `nil` if it is incomplete or larger than any frame.
    private static func integer(_ bytes: UnsafeRawBufferPointer, _ at: inout Int, prefix: UInt8) -> Int? {
        guard at < bytes.count else { return nil }
        let mask = UInt8((1 << UInt16(prefix)) - 1)
        var value = Int(unsafe bytes[at] & mask)
        at += 1
        guard value == Int(mask) else { return value }
        var shift = 0
        while at < bytes.count, shift <= 21 {
            let next = unsafe bytes[at]
            at += 1
            value += Int(next & 0x7f) << shift
            if next & 0x80 == 0 { return value }
            shift += 7
        }
        return nil
    }
}
