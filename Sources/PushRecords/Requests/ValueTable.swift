/// The values of one record's headers or members, by name. The table is reused for each record, and its values are
/// borrowed.
struct ValueTable<Name: RawRepresentable & CaseIterable>: ~Copyable where Name.RawValue == UInt8 {
    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// A bit set of the names that have a value.
    private var present: UInt32 = 0
    /// A bit set of the names that occurred, with or without a value.
    private var seen: UInt32 = 0

    init() {
        let count = Name.allCases.count
        precondition(count <= UInt32.bitWidth, "A table must have at most 32 names, one for each bit")
        values = .allocate(capacity: count)
        values.initialize(repeating: .nothing, count: count)
    }

    deinit { values.deallocate() }

    mutating func removeAll() {
        present = 0
        seen = 0
    }

    /// Adds a value unless the name has occurred before. Returns `false` if the name has occurred.
    @inline(__always)
    mutating func add(_ name: Name, _ value: UnsafeRawBufferPointer) -> Bool {
        let bit: UInt32 = 1 &<< UInt32(name.rawValue)
        guard seen & bit == 0 else { return false }
        seen |= bit
        guard value.baseAddress != nil else { return true }
        present |= bit
        values[Int(name.rawValue)] = value
        return true
    }

    /// Returns whether the name occurred in the record, with or without a value.
    @inline(__always)
    func contains(_ name: Name) -> Bool { seen & (1 &<< UInt32(name.rawValue)) != 0 }

    @inline(__always)
    subscript(_ name: Name) -> UnsafeRawBufferPointer? {
        present & (1 &<< UInt32(name.rawValue)) != 0 ? values[Int(name.rawValue)] : nil
    }
}
