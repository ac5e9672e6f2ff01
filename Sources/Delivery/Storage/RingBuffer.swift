/// A queue of plain values in one block of memory that doubles when it is full and never shrinks.
///
/// Every element keeps its position for life: the number of elements appended before it.
struct RingBuffer<Element>: ~Copyable {
    private var base: UnsafeMutablePointer<Element>
    private var mask: UInt64
    /// Position of the first element.
    private(set) var head: UInt64 = 0
    /// Position that the next element gets.
    private(set) var tail: UInt64 = 0

    /// - Parameter capacity: a power of two.
    init(capacity: Int = 64) {
        precondition(_isPOD(Element.self), "a ring holds plain values only")
        precondition(capacity > 0 && capacity & (capacity - 1) == 0, "a ring's capacity is a power of two")
        base = .allocate(capacity: capacity)
        mask = UInt64(capacity - 1)
    }

    deinit { base.deallocate() }

    var count: Int { Int(tail &- head) }
    var isEmpty: Bool { head == tail }

    subscript(position: UInt64) -> Element {
        get {
            precondition(position &- head < tail &- head, "a position is inside the ring")
            return base[Int(position & mask)]
        }
        set {
            precondition(position &- head < tail &- head, "a position is inside the ring")
            base[Int(position & mask)] = newValue
        }
    }

    mutating func append(_ element: Element) {
        if tail &- head > mask { grow() }
        (base + Int(tail & mask)).initialize(to: element)
        tail &+= 1
    }

    mutating func removeFirst() {
        precondition(head != tail, "what is removed is in the ring")
        head &+= 1
    }

    private mutating func grow() {
        let wider = UnsafeMutablePointer<Element>.allocate(capacity: Int(mask + 1) * 2)
        let widerMask = mask << 1 | 1
        var position = head
        while position != tail {
            (wider + Int(position & widerMask)).initialize(to: base[Int(position & mask)])
            position &+= 1
        }
        base.deallocate()
        base = wider
        mask = widerMask
    }
}
