internal import CNghttp2

/// How a field is added to the peer's dynamic table (HPACK, RFC 7541).
package enum HeaderIndexing: Sendable, Equatable {
    /// The field is indexed with its value, because the value repeats.
    case value
    /// The value changes with each message. The field is indexed once per connection, so that later messages can refer
    /// to its name. Indexing every value would evict all other entries from the 4,096-byte table. `slot` (0...7)
    /// identifies the field within its connection.
    case nameOnly(slot: UInt8)
    /// The value changes with each message, and the name is in HPACK's static table (`:path`).
    case never
    /// The `authorization` field, which nghttp2 would never index. See `AuthorizationIndexing`.
    case credential
}

/// The header fields of one message, in a reused array. Names and values are borrowed until the call that uses the list
/// returns. Not thread-safe.
@safe
package struct HeaderList: ~Copyable {
    package static let limit = 32

    let fields: UnsafeMutablePointer<nghttp2_nv>
    /// One value per field: 1 plus the field's `nameOnly` slot, or 0 for other kinds of indexing.
    let nameSlots: UnsafeMutablePointer<UInt8>
    package private(set) var count = 0
    /// The index of the credential field, or -1.
    private(set) var credential = -1

    package init() {
        unsafe fields = .allocate(capacity: Self.limit)
        unsafe nameSlots = .allocate(capacity: Self.limit)
    }

    deinit {
        unsafe fields.deallocate()
        unsafe nameSlots.deallocate()
    }

    /// Adds a field. Names must be in lower case, pseudo-headers must come first, and a list has at most 32 fields.
    package mutating func append(
        _ name: StaticString, _ value: UnsafeRawBufferPointer, _ indexing: HeaderIndexing = .value
    ) {
        precondition(count < Self.limit, "a header list must have at most 32 fields")
        var flags = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
        var slot: UInt8 = 0
        switch indexing {
        case .value: break
        case .never: flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        case .nameOnly(let index):
            precondition(index < 8, "a nameOnly slot must be in 0...7")
            slot = index + 1
            flags |= UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        case .credential: credential = count
        }
        // `name` and `value` are not const for historical reasons. With NO_COPY nghttp2 only reads them (nghttp2.h).
        unsafe fields[count] = nghttp2_nv(
            name: UnsafeMutablePointer(mutating: name.utf8Start),
            value: UnsafeMutablePointer(mutating: Self.bytes(value)),
            namelen: name.utf8CodeUnitCount, valuelen: value.count, flags: flags)
        unsafe nameSlots[count] = slot
        count += 1
    }

    package mutating func append(
        _ name: StaticString, _ value: StaticString, _ indexing: HeaderIndexing = .value
    ) {
        let bytes = unsafe UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount)
        unsafe append(name, bytes, indexing)
    }

    package mutating func replaceValue(at index: Int, _ value: UnsafeRawBufferPointer) {
        precondition(index >= 0 && index < count, "the index must be that of a header field")
        unsafe fields[index].value = unsafe UnsafeMutablePointer(mutating: Self.bytes(value))
        unsafe fields[index].valuelen = value.count
    }

    package mutating func truncate(to length: Int) {
        precondition(length >= 0 && length <= count, "the new length must not exceed the old one")
        count = length
        if credential >= length { credential = -1 }
    }

    /// Marks the names of `nameOnly` fields for indexing, unless the connection has already indexed them. Bit n of
    /// `known` is set if the name in slot n is indexed.
    func indexNames(_ known: inout UInt8) {
        let noIndex = UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
        for index in 0..<count {
            let slot = unsafe nameSlots[index]
            guard slot > 0 else { continue }
            let bit = UInt8(1) << (slot - 1)
            if known & bit == 0 {
                known |= bit
                unsafe fields[index].flags &= ~noIndex
            } else {
                unsafe fields[index].flags |= noIndex
            }
        }
    }

    /// Returns a non-null pointer, which nghttp2 requires even for zero bytes.
    @inline(__always)
    private static func bytes(_ value: UnsafeRawBufferPointer) -> UnsafePointer<UInt8> {
        guard let base = value.baseAddress else { return unsafe (" " as StaticString).utf8Start }
        return unsafe base.assumingMemoryBound(to: UInt8.self)
    }
}
