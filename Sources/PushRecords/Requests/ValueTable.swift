/// The values of one record by name. Reused for each record. The values are borrowed.
struct ValueTable<Name: RawRepresentable & CaseIterable>: ~Copyable where Name.RawValue == UInt8 {
    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// A bit set with one bit for each name that has a value.
    private var present: UInt32 = 0
    /// A bit set with one bit for each name that occurred, with or without a value.
    private var seen: UInt32 = 0

    init() {
        let count = Name.allCases.count
        precondition(count <= UInt32.bitWidth, "a table has one bit for each name")
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
