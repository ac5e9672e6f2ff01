/// An open-addressing index from keys to row numbers that knows neither: rows are compared and hashed by closures.
///
/// It is split in 64 parts by the hash's top bits that grow one by one, so that growing at a million rows does not stop
/// the server for long. 4 bytes a slot, at most three quarters full. Row numbers below 2^32 - 1.
struct HashIndex: ~Copyable {
    private struct Part {
        var slots: UnsafeMutablePointer<UInt32>
        var mask: UInt32
        var used: UInt32
    }

    private static let parts = 64
    private static let empty = UInt32.max
    private let table: UnsafeMutablePointer<Part>

    init() {
        table = .allocate(capacity: Self.parts)
        for index in 0..<Self.parts { (table + index).initialize(to: Self.part(slots: 64)) }
    }

    deinit {
        for index in 0..<Self.parts { table[index].slots.deallocate() }
        table.deallocate()
    }

    private static func part(slots: Int) -> Part {
        let memory = UnsafeMutablePointer<UInt32>.allocate(capacity: slots)
        memory.initialize(repeating: empty, count: slots)
        return Part(slots: memory, mask: UInt32(slots - 1), used: 0)
    }

    /// The row that `isSame`; where there is none, `new`, if there is one, becomes the key's row, and `nil` is
    /// returned.
    @inline(__always)
    mutating func find(
        hash: UInt64, orInsert new: UInt32?, isSame: (UInt32) -> Bool, hashOf: (UInt32) -> UInt64
    ) -> UInt32? {
        let part = table + Int(hash >> 58)
        var slot = UInt32(truncatingIfNeeded: hash) & part.pointee.mask
        while part.pointee.slots[Int(slot)] != Self.empty {
            let row = part.pointee.slots[Int(slot)]
            if isSame(row) { return row }
            slot = (slot &+ 1) & part.pointee.mask
        }
        guard let new else { return nil }
        part.pointee.slots[Int(slot)] = new
        part.pointee.used += 1
        if part.pointee.used > part.pointee.mask / 4 * 3 { Self.grow(part, hashOf: hashOf) }
        return nil
    }

    private static func grow(_ part: UnsafeMutablePointer<Part>, hashOf: (UInt32) -> UInt64) {
        let old = part.pointee
        var larger = Self.part(slots: (Int(old.mask) + 1) * 2)
        for index in 0...Int(old.mask) where old.slots[index] != empty {
            var slot = UInt32(truncatingIfNeeded: hashOf(old.slots[index])) & larger.mask
            while larger.slots[Int(slot)] != empty { slot = (slot &+ 1) & larger.mask }
            larger.slots[Int(slot)] = old.slots[index]
        }
        larger.used = old.used
        old.slots.deallocate()
        part.pointee = larger
    }
}

/// Two words folded into one by multiplication, as wyhash does.
@inline(__always) func fold(_ one: UInt64, _ two: UInt64) -> UInt64 {
    let (high, low) = (one ^ 0xA076_1D64_78BD_642F).multipliedFullWidth(by: two ^ 0xE703_7ED1_A0B4_28DB)
    return high ^ low
}
