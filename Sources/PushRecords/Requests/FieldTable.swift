/// The header values of one request, by name, wherever they came from. Reused from record to record; owns its table,
/// not the bytes.
struct FieldTable: ~Copyable {
    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// One bit a name: whether it is there, in this record, with a value.
    private var present: UInt32 = 0
    /// One bit a name: whether it was there before, with a value or without.
    private var seen: UInt32 = 0

    init() {
        values = .allocate(capacity: HeaderName.allCases.count)
        values.initialize(repeating: .nothing, count: HeaderName.allCases.count)
    }

    deinit { values.deallocate() }

    mutating func removeAll() {
        present = 0
        seen = 0
    }

    /// Keeps the first value of each name; `false` when the name was there before.
    @inline(__always)
    mutating func add(_ name: HeaderName, _ value: UnsafeRawBufferPointer) -> Bool {
        let bit: UInt32 = 1 &<< UInt32(name.rawValue)
        guard seen & bit == 0 else { return false }
        seen |= bit
        guard value.baseAddress != nil else { return true }
        present |= bit
        values[Int(name.rawValue)] = value
        return true
    }

    @inline(__always)
    func has(_ name: HeaderName) -> Bool { present & (1 &<< UInt32(name.rawValue)) != 0 }

    /// The name's value; `nil` when it is not there.
    @inline(__always)
    subscript(_ name: HeaderName) -> UnsafeRawBufferPointer? { has(name) ? values[Int(name.rawValue)] : nil }
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
