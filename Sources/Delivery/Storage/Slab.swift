/// Slots of plain values, named by a type of their own, given out and taken back in constant time; memory doubles when
/// all are taken and never shrinks. Slots are reused most recent first, so that a small working set stays in the cache.
///
/// The slab does not clear what it gives out: the caller initializes it, and may leave a generation in place.
struct Slab<Element, ElementSlot: Slot>: ~Copyable {
    /// Valid until the next `take`.
    private(set) var base: UnsafeMutablePointer<Element>
    private var free: UnsafeMutablePointer<UInt32>
    private var freeCount: Int
    private(set) var capacity: Int
    private let empty: Element

    init(capacity: Int, empty: Element) {
        precondition(_isPOD(Element.self), "a slab holds plain values only")
        precondition(capacity > 0, "a slab has room for at least one")
        base = .allocate(capacity: capacity)
        base.initialize(repeating: empty, count: capacity)
        free = .allocate(capacity: capacity)
        for index in 0..<capacity { free[index] = UInt32(capacity - 1 - index) }
        freeCount = capacity
        self.capacity = capacity
        self.empty = empty
    }

    deinit {
        base.deallocate()
        free.deallocate()
    }

    var count: Int { capacity - freeCount }

    subscript(slot: ElementSlot) -> Element {
        @inline(__always) unsafeAddress { UnsafePointer(base + Int(slot.number)) }
        @inline(__always) unsafeMutableAddress { base + Int(slot.number) }
    }

    mutating func take() -> ElementSlot {
        if freeCount == 0 { grow() }
        freeCount -= 1
        return ElementSlot(free[freeCount])
    }

    mutating func giveBack(_ slot: ElementSlot) {
        precondition(freeCount < capacity, "no more slots are given back than were taken")
        free[freeCount] = slot.number
        freeCount += 1
    }

    private mutating func grow() {
        let wider = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        wider.moveInitialize(from: base, count: capacity)
        (wider + capacity).initialize(repeating: empty, count: capacity)
        base.deallocate()
        base = wider
        free.deallocate()
        free = .allocate(capacity: capacity * 2)
        for index in 0..<capacity { free[index] = UInt32(capacity * 2 - 1 - index) }
        freeCount = capacity
        capacity *= 2
    }
}
