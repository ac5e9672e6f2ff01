/// The header values of one request, by name, wherever they came from. Reused from record to record; owns its table,
/// not the bytes.
struct FieldTable: ~Copyable {
    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// One bit a name: whether it is there, in this record, with a value.
    private var present: UInt32 = 0
    /// One bit a name: whether it was there before, with a value or without.
    private var seen: UInt32 = 0

    init() {
        let count = KnownHeader.all.count
        precondition(count <= UInt32.bitWidth, "a field table has one bit a name")
        values = .allocate(capacity: count)
        values.initialize(repeating: .nothing, count: count)
    }

    deinit { values.deallocate() }

    mutating func removeAll() {
        present = 0
        seen = 0
    }

    /// Keeps the first value of each name; `false` when the name was there before.
    @inline(__always)
    mutating func add(_ header: KnownHeader, _ value: UnsafeRawBufferPointer) -> Bool {
        let bit: UInt32 = 1 &<< UInt32(header.index)
        guard seen & bit == 0 else { return false }
        seen |= bit
        guard value.baseAddress != nil else { return true }
        present |= bit
        values[Int(header.index)] = value
        return true
    }

    @inline(__always)
    func has(_ name: HeaderName) -> Bool { present & (1 &<< UInt32(name.rawValue)) != 0 }

    /// The name's value; `nil` when it is not there.
    @inline(__always)
    subscript(_ name: HeaderName) -> UnsafeRawBufferPointer? { has(name) ? values[Int(name.rawValue)] : nil }

    /// The text headers that are there.
    @inline(__always)
    var texts: TextHeaders { TextHeaders(bits: present &>> UInt32(HeaderName.count)) }

    /// The value of a text header that is there.
    @inline(__always)
    subscript(_ header: TextHeader) -> UnsafeRawBufferPointer { values[Int(KnownHeader(header).index)] }
}

extension UnsafeRawBufferPointer {
    /// No bytes, and no address: what is not there.
    @inlinable package static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    /// A part of lent bytes.
    @inline(__always)
    func part(_ start: Int, _ end: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: baseAddress! + start, count: end &- start)
    }
}
