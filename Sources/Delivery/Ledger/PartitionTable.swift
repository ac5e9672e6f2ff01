/// Every assignment that there is, each at a slot of its own for as long as it lives.
///
/// An assignment is found by its name (`PartitionID`), which is given only once; or, by what belongs to it, by its
/// slot.
struct PartitionTable: ~Copyable {
    private var places: UnsafeMutablePointer<UnsafeMutablePointer<Partition>?>
    private var capacity = 16
    /// Slots below it are, or were, in use.
    private(set) var count = 0
    private var lastGeneration: UInt32 = 0

    init() {
        places = .allocate(capacity: capacity)
        places.initialize(repeating: nil, count: capacity)
    }

    deinit {
        for slot in 0..<count {
            places[slot]?.deinitialize(count: 1)
            places[slot]?.deallocate()
        }
        places.deallocate()
    }

    /// The assignment in a slot that is in use.
    subscript(slot: PartitionSlot) -> Partition {
        @inline(__always) unsafeAddress { UnsafePointer(places[Int(slot.number)].unsafelyUnwrapped) }
        @inline(__always) unsafeMutableAddress { places[Int(slot.number)].unsafelyUnwrapped }
    }

    func address(of slot: PartitionSlot) -> UnsafeMutablePointer<Partition> {
        places[Int(slot.number)].unsafelyUnwrapped
    }

    /// Where the assignment is, unless it is gone.
    @inline(__always)
    func find(_ id: PartitionID) -> PartitionSlot? {
        guard let slot = find(id.slot), self[slot].id.generation == id.generation else { return nil }
        return slot
    }

    /// The slot itself, unless nothing is there.
    @inline(__always)
    func find(_ slot: PartitionSlot) -> PartitionSlot? {
        Int(slot.number) < count && places[Int(slot.number)] != nil ? slot : nil
    }

    /// Those in use, in their order. To be gone through while none comes or goes.
    var slots: Slots { Slots(places: UnsafePointer(places), count: count) }

    struct Slots: Sequence, IteratorProtocol {
        private let places: UnsafePointer<UnsafeMutablePointer<Partition>?>
        private let count: Int
        private var index = 0

        fileprivate init(places: UnsafePointer<UnsafeMutablePointer<Partition>?>, count: Int) {
            self.places = places
            self.count = count
        }

        @inline(__always)
        mutating func next() -> PartitionSlot? {
            while index < count {
                index += 1
                if places[index - 1] != nil { return PartitionSlot(UInt32(index - 1)) }
            }
            return nil
        }
    }

    /// The name of the next assignment, whose slot is free.
    mutating func nextID() -> PartitionID {
        var slot = 0
        while slot < count, places[slot] != nil { slot += 1 }
        return nextID(at: PartitionSlot(UInt32(slot)))
    }

    /// The next name of what is at this slot.
    mutating func nextID(at slot: PartitionSlot) -> PartitionID {
        lastGeneration += 1
        return PartitionID(slot: slot, generation: lastGeneration)
    }

    /// Puts an assignment at the slot of its name.
    mutating func insert(_ partition: consuming Partition) {
        let slot = Int(partition.id.slot.number)
        if slot == capacity { grow() }
        precondition(slot <= count && (slot == count || places[slot] == nil), "an assignment has a slot of its own")
        let pointer = UnsafeMutablePointer<Partition>.allocate(capacity: 1)
        pointer.initialize(to: partition)
        places[slot] = pointer
        count = max(count, slot + 1)
    }

    mutating func remove(_ slot: PartitionSlot) {
        let slot = Int(slot.number)
        places[slot]?.deinitialize(count: 1)
        places[slot]?.deallocate()
        places[slot] = nil
    }

    private mutating func grow() {
        let wider = UnsafeMutablePointer<UnsafeMutablePointer<Partition>?>.allocate(capacity: capacity * 2)
        wider.initialize(repeating: nil, count: capacity * 2)
        wider.update(from: places, count: count)
        places.deallocate()
        places = wider
        capacity *= 2
    }
}
