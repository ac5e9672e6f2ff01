internal import PushRecords
// The machine uses the types of `PushTransport` in its inputs and outputs. With this export, a module that uses the
// machine imports only `Delivery`.
@_exported public import PushTransport
import Synchronization

/// The index of an entry in one of the machine's tables. Each table has a separate slot type, so that the compiler
/// rejects slots of another table.
package struct Slot<Element: ~Copyable> {
    package let number: UInt32

    @inlinable package init(_ number: UInt32) { self.number = number }

    /// The value for "no slot".
    @inlinable package static var none: Self { Self(.max) }
}

extension Slot: Hashable, Comparable, Sendable where Element: ~Copyable {
    @inlinable package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// The index of a notification in the `NotificationStore`.
package typealias NotificationSlot = Slot<Notification>
/// The index of a record with open notifications in the `NotificationStore`.
package typealias RecordSlot = Slot<Record>
/// The index of an assignment in the `CommitLedger`.
package typealias PartitionSlot = Slot<Partition>

extension NotificationID {
    package init(slot: NotificationSlot, generation: UInt32) {
        self.init(number: slot.number, generation: generation)
    }

    package var slot: NotificationSlot { NotificationSlot(number) }
}

/// All slots of a table in ascending order, including unused ones. In debug builds this is many times faster than a
/// lazy map, and the invariant checks iterate over all slots after each step.
struct SlotWalk<Element>: Sequence, IteratorProtocol {
    private var number: UInt32 = 0
    private let end: UInt32

    init(count: Int) { end = UInt32(count) }

    @inline(__always)
    mutating func next() -> Slot<Element>? {
        guard number < end else { return nil }
        number += 1
        return Slot(number - 1)
    }
}

/// A member that gives its containing value a fixed address. Add it to large noncopyable structs.
///
/// The compiler copies a loadable value to the stack for each call that only reads it, even a noncopyable one. Swift
/// 6.3 copied 1,752 bytes of the machine for each record read (measured with callgrind). A value with an atomic member
/// has a fixed address, and the compiler passes the address instead.
struct InPlace: ~Copyable {
    private let atomic = Atomic(false)
}

/// A table of trivial values with a free list. Taking and returning a slot takes constant time. The memory doubles when
/// all slots are taken, and never shrinks. The most recently returned slot is reused first, so a small working set
/// stays in the cache.
///
/// Slots are not cleared. The caller initializes them, and may keep a generation number in a slot across its uses.
struct Slab<Element>: ~Copyable {
    /// The address of the first slot, valid until the next `take`.
    private(set) var base: UnsafeMutablePointer<Element>
    private var free: UnsafeMutablePointer<UInt32>
    private var freeCount: Int
    private(set) var capacity = 1_024
    private let empty: Element

    init(empty: Element) {
        precondition(_isPOD(Element.self), "The elements of a slab must be of a trivial type")
        base = .allocate(capacity: capacity)
        base.initialize(repeating: empty, count: capacity)
        free = .allocate(capacity: capacity)
        for index in 0..<capacity { free[index] = UInt32(capacity - 1 - index) }
        freeCount = capacity
        self.empty = empty
    }

    deinit {
        base.deallocate()
        free.deallocate()
    }

    var count: Int { capacity - freeCount }

    subscript(slot: Slot<Element>) -> Element {
        @inline(__always) unsafeAddress { UnsafePointer(base + Int(slot.number)) }
        @inline(__always) unsafeMutableAddress { base + Int(slot.number) }
    }

    mutating func take() -> Slot<Element> {
        if freeCount == 0 { grow() }
        freeCount -= 1
        return Slot(free[freeCount])
    }

    mutating func giveBack(_ slot: Slot<Element>) {
        precondition(freeCount < capacity, "A returned slot must have been taken before")
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

/// A queue of trivial values in one block of memory. The block doubles when it is full, and never shrinks.
///
/// Every element keeps its position: the number of elements that were appended before it.
struct RingBuffer<Element>: ~Copyable {
    private var base: UnsafeMutablePointer<Element>
    private var mask: UInt64
    /// The position of the first element.
    private(set) var head: UInt64 = 0
    /// The position of the next appended element.
    private(set) var tail: UInt64 = 0

    /// - Parameter capacity: A power of two.
    init(capacity: Int = 64) {
        precondition(_isPOD(Element.self), "The elements of a ring buffer must be of a trivial type")
        precondition(capacity > 0 && capacity & (capacity - 1) == 0, "The capacity must be a power of two")
        base = .allocate(capacity: capacity)
        mask = UInt64(capacity - 1)
    }

    deinit { base.deallocate() }

    var count: Int { Int(tail &- head) }
    var isEmpty: Bool { head == tail }

    subscript(position: UInt64) -> Element {
        get {
            precondition(position &- head < tail &- head, "The position must be in the ring buffer")
            return base[Int(position & mask)]
        }
        set {
            precondition(position &- head < tail &- head, "The position must be in the ring buffer")
            base[Int(position & mask)] = newValue
        }
    }

    mutating func append(_ element: Element) {
        if tail &- head > mask { grow() }
        (base + Int(tail & mask)).initialize(to: element)
        tail &+= 1
    }

    mutating func removeFirst() {
        precondition(head != tail, "The ring buffer must not be empty")
        head &+= 1
    }

    private mutating func grow() {
        let wider = UnsafeMutablePointer<Element>.allocate(capacity: Int(mask + 1) * 2)
        let widerMask = mask << 1 | 1
        for position in head..<tail {
            (wider + Int(position & widerMask)).initialize(to: base[Int(position & mask)])
        }
        base.deallocate()
        base = wider
        mask = widerMask
    }
}

/// Memory blocks for the bytes of records. Blocks of up to 8 KB have size classes in steps of 64 bytes, each with a
/// free list. Larger blocks are not reused. The total size of the free lists is limited.
struct BlockStore: ~Copyable {
    private static let step = 64
    private static let classCount = 128

    /// The first free block of each size class. The first word of a free block is the address of the next free block.
    private var free: UnsafeMutablePointer<UnsafeMutableRawPointer?>
    private var idleBytes = 0
    private let idleLimit: Int
    /// The size of all blocks in use, each rounded up to its size class.
    private(set) var openBytes = 0

    init(idleLimit: Int) {
        free = .allocate(capacity: Self.classCount)
        free.initialize(repeating: nil, count: Self.classCount)
        self.idleLimit = idleLimit
    }

    deinit {
        for index in 0..<Self.classCount {
            while let block = free[index] {
                free[index] = block.load(as: UnsafeMutableRawPointer?.self)
                block.deallocate()
            }
        }
        free.deallocate()
    }

    /// Returns the size of the block for this many bytes.
    static func rounded(_ size: Int) -> Int { max(step, (size + step - 1) & ~(step - 1)) }

    /// Returns a block of at least `size` bytes, aligned to 16. Pass the same size when the block is returned.
    mutating func take(_ size: Int) -> UnsafeMutableRawPointer {
        let bytes = Self.rounded(size)
        openBytes += bytes
        let index = bytes / Self.step - 1
        if index < Self.classCount, let block = free[index] {
            free[index] = block.load(as: UnsafeMutableRawPointer?.self)
            idleBytes -= bytes
            return block
        }
        return .allocate(byteCount: bytes, alignment: 16)
    }

    mutating func giveBack(_ block: UnsafeMutableRawPointer, size: Int) {
        let bytes = Self.rounded(size)
        openBytes -= bytes
        let index = bytes / Self.step - 1
        guard index < Self.classCount, idleBytes + bytes <= idleLimit else {
            block.deallocate()
            return
        }
        block.storeBytes(of: free[index], as: UnsafeMutableRawPointer?.self)
        free[index] = block
        idleBytes += bytes
    }
}

// Hashing and comparison of short byte strings, eight bytes at a time.
extension UnsafeRawBufferPointer {
    func hash(seed: UInt64) -> UInt64 {
        var hash = seed ^ 0x9E37_79B9_7F4A_7C15 ^ UInt64(count)
        var index = 0
        while index + 8 <= count {
            hash = Self.mix(hash ^ loadUnaligned(fromByteOffset: index, as: UInt64.self))
            index += 8
        }
        var rest: UInt64 = 0
        while index < count {
            rest = rest << 8 | UInt64(self[index])
            index += 1
        }
        return Self.mix(hash ^ rest ^ 0xD6E8_FEB8_6659_FD93)
    }

    @inline(__always)
    private static func mix(_ value: UInt64) -> UInt64 {
        let product = value.multipliedFullWidth(by: 0xA076_1D64_78BD_642F)
        return product.high ^ product.low
    }

    func isEqual(to other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count, let base = other.baseAddress else { return count == other.count }
        return isEqual(to: base)
    }
}
