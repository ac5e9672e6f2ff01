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
    static let literal: [UInt8] = [0x89, 0x1d, 0xa9, 0x9c, 0xf6, 0x19, 0x03, 0x49, 0x8f, 0x57]

    /// Appends a frame of nghttp2 to `output`. If it is a HEADERS frame with the placeholder name as a literal,
    /// replaces the literal with a reference to `authorization` in the static table.
    static func append(_ frame: UnsafeRawPointer, _ size: Int, to output: inout OutputBuffer) {
        guard let found = unsafe find(frame, size) else { return unsafe output.append(frame, size) }
        let first = unsafe frame.load(fromByteOffset: found, as: UInt8.self)
        // The index 23 fits into the 6-bit prefix of a field with incremental indexing. The other two kinds of literal
        // fields have a 4-bit prefix.
        let name: [UInt8] = first & 0x40 != 0 ? [first | 23] : [first | 15, 23 - 15]
        let rest = found + 1 + literal.count
        let payload = found + name.count + size - rest - 9
        let length = [16, 8, 0].map { UInt8(truncatingIfNeeded: payload >> $0) }
        unsafe output.append(length, length.count)
        unsafe output.append(frame + 3, found - 3)
        unsafe output.append(name, name.count)
        unsafe output.append(frame + rest, size - rest)
    }

    /// Returns the offset of the field whose name is the placeholder as a literal, if the frame is a HEADERS frame with
    /// such a field. Follows the fields of the header block (RFC 7541, section 6), because a value could contain the
    /// same bytes.
    private static func find(_ frame: UnsafeRawPointer, _ size: Int) -> Int? {
        let bytes = unsafe UnsafeRawBufferPointer(start: frame, count: size)
        let (headersType, endHeaders, paddedOrPriority): (UInt8, UInt8, UInt8) = (1, 0x4, 0x28)
        // nghttp2 writes requests without padding and priority, and their header blocks fit into one frame.
        guard unsafe bytes[3] == headersType, unsafe bytes[4] & (paddedOrPriority | endHeaders) == endHeaders else {
            return nil
        }
        var at = 9
        while at < size {
            let start = at
            let first = unsafe bytes[at]
            let prefix = first & 0x80 != 0 ? 7 : first & 0x40 != 0 ? 6 : first & 0x20 != 0 ? 5 : 4
            let index = unsafe integer(bytes, &at, prefix: prefix)
            // The representation is an index without a literal, or a new size of the table.
            if prefix == 7 || prefix == 5 { continue }
            if index == 0 {
                if size - at > literal.count, unsafe memcmp(frame + at, literal, literal.count) == 0 { return start }
                at += unsafe integer(bytes, &at, prefix: 7)
            }
            at += unsafe integer(bytes, &at, prefix: 7)
        }
        return nil
    }

    /// Decodes an integer (RFC 7541, 5.1) and advances `at`.
    private static func integer(_ bytes: UnsafeRawBufferPointer, _ at: inout Int, prefix: Int) -> Int {
        let mask = 1 << prefix - 1
        var value = Int(unsafe bytes[at]) & mask
        at += 1
        guard value == mask else { return value }
        var shift = 0
        while true {
            let next = Int(unsafe bytes[at])
            at += 1
            value += (next & 0x7f) << shift
            if next < 0x80 { return value }
            shift += 7
        }
    }
}
