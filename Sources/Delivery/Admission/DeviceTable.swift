/// Finds the first notification of a device queue by the hash of the device: open addressing with linear probing,
/// eight bytes an entry, at most half full. An empty device queue leaves no trace: entries behind it move up.
package struct DeviceTable: ~Copyable {
    struct Entry {
        var hash: UInt32
        /// `.none`: empty.
        var head: NotificationSlot
    }

    private var entries: UnsafeMutablePointer<Entry>
    private var mask: UInt32
    package private(set) var count = 0

    package init(capacity: Int = 1_024) {
        precondition(capacity > 0 && capacity & (capacity - 1) == 0, "a table's capacity is a power of two")
        entries = .allocate(capacity: capacity)
        entries.initialize(repeating: Entry(hash: 0, head: .none), count: capacity)
        mask = UInt32(capacity - 1)
    }

    deinit { entries.deallocate() }

    /// The head of the device queue with this hash for which `isSame` holds.
    @inline(__always)
    package func head(hash: UInt32, isSame: (NotificationSlot) -> Bool) -> NotificationSlot? {
        var index = hash & mask
        while true {
            let entry = entries[Int(index)]
            if entry.head == .none { return nil }
            if entry.hash == hash, isSame(entry.head) { return entry.head }
            index = (index + 1) & mask
        }
    }

    package mutating func insert(hash: UInt32, head: NotificationSlot) {
        if (count + 1) * 2 > Int(mask) + 1 { grow() }
        put(Entry(hash: hash, head: head))
        count += 1
    }

    /// The device queue's next notification takes the place of `head`.
    package mutating func replace(hash: UInt32, head: NotificationSlot, by next: NotificationSlot) {
        entries[Int(index(hash: hash, head: head))].head = next
    }

    package mutating func remove(hash: UInt32, head: NotificationSlot) {
        var hole = index(hash: hash, head: head)
        count -= 1
        var index = hole
        while true {
            index = (index + 1) & mask
            let entry = entries[Int(index)]
            if entry.head == .none { break }
            // It may move up unless its own place lies between the hole and where it stands.
            let home = entry.hash & mask
            if (index &- home) & mask >= (index &- hole) & mask {
                entries[Int(hole)] = entry
                hole = index
            }
        }
        entries[Int(hole)].head = .none
    }

    private func index(hash: UInt32, head: NotificationSlot) -> UInt32 {
        var index = hash & mask
        while entries[Int(index)].head != head {
            precondition(entries[Int(index)].head != .none, "a device queue's head is in the table")
            index = (index + 1) & mask
        }
        return index
    }

    private mutating func put(_ entry: Entry) {
        var index = entry.hash & mask
        while entries[Int(index)].head != .none { index = (index + 1) & mask }
        entries[Int(index)] = entry
    }

    private mutating func grow() {
        let old = entries
        let oldCapacity = Int(mask) + 1
        entries = .allocate(capacity: oldCapacity * 2)
        entries.initialize(repeating: Entry(hash: 0, head: .none), count: oldCapacity * 2)
        mask = UInt32(oldCapacity * 2 - 1)
        for index in 0..<oldCapacity where old[index].head != .none { put(old[index]) }
        old.deallocate()
    }
}
