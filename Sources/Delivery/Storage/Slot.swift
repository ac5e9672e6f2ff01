// The machine's commands and events are in the vocabulary of the transports, so a module that drives the machine gets
// both with one import.
@_exported public import PushTransport

/// The number of an entry of one of the machine's tables. Each table has a type of its own for it, so that the compiler
/// finds who takes one for another's.
package protocol Slot: Hashable, Comparable, Sendable {
    var number: UInt32 { get }
    init(_ number: UInt32)
}

extension Slot {
    /// No slot.
    @inlinable package static var none: Self { Self(.max) }

    @inlinable package static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// Where a notification is in the `NotificationStore`.
package struct NotificationSlot: Slot {
    package let number: UInt32

    @inlinable package init(_ number: UInt32) { self.number = number }
}

extension NotificationID {
    package init(slot: NotificationSlot, generation: UInt32) {
        self.init(number: slot.number, generation: generation)
    }

    package var slot: NotificationSlot { NotificationSlot(number) }
}

/// Where a record with something open is in the `NotificationStore`.
package struct RecordSlot: Slot {
    package let number: UInt32

    @inlinable package init(_ number: UInt32) { self.number = number }
}

/// Where an assignment is in the `PartitionTable`.
package struct PartitionSlot: Slot {
    package let number: UInt32

    @inlinable package init(_ number: UInt32) { self.number = number }
}

/// The slots of a table from the first on, in their order, used or not.
struct SlotWalk<ElementSlot: Slot>: Sequence, IteratorProtocol {
    private var number: UInt32 = 0
    private let end: UInt32

    /// - Parameter count: slots of the table.
    init(count: Int) { end = UInt32(count) }

    @inline(__always)
    mutating func next() -> ElementSlot? {
        guard number < end else { return nil }
        number += 1
        return ElementSlot(number - 1)
    }
}
