/// Names a timer of one loop; a name that has fired or was cancelled names nothing, for ever.
package struct TimerID: Hashable, Sendable {
    var slot: Int
    var generation: UInt32
}

/// Timers by deadline: a binary heap whose slots know their place in it, so that cancelling and moving cost O(log n)
/// and leave nothing behind. Equal deadlines fire in the order in which they were armed.
struct TimerHeap {
    private struct Entry {
        var deadlineNs: Int64
        var sequence: UInt64
        var slot: Int

        func isBefore(_ other: Entry) -> Bool {
            deadlineNs != other.deadlineNs ? deadlineNs < other.deadlineNs : sequence < other.sequence
        }
    }

    private struct Slot {
        var generation: UInt32 = 0
        /// The place in `heap`; -1: not armed.
        var position = -1
        var firesOnce = true
        var body: (() -> Void)?
    }

    private var heap: [Entry] = []
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    /// Counts arming; what was armed at or after a mark belongs to a later turn.
    private(set) var nextSequence: UInt64 = 0

    var count: Int { heap.count }
    var nextDeadlineNs: Int64? { heap.first?.deadlineNs }

    /// Takes a slot for a body, not armed yet. `firesOnce`: the slot is freed when it fires or is disarmed.
    mutating func reserve(firesOnce: Bool, _ body: @escaping () -> Void) -> TimerID {
        let slot: Int
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        slots[slot].firesOnce = firesOnce
        slots[slot].body = body
        return TimerID(slot: slot, generation: slots[slot].generation)
    }

    func isArmed(_ id: TimerID) -> Bool { isCurrent(id) && slots[id.slot].position >= 0 }

    /// Arms, or moves, a timer. An id that names nothing is ignored.
    mutating func arm(_ id: TimerID, deadlineNs: Int64) {
        guard isCurrent(id) else { return }
        detach(id.slot)
        let entry = Entry(deadlineNs: deadlineNs, sequence: nextSequence, slot: id.slot)
        nextSequence += 1
        heap.append(entry)
        slots[id.slot].position = heap.count - 1
        siftUp(heap.count - 1)
    }

    /// Disarms; a one-shot timer's slot is freed. False: it was not armed.
    @discardableResult
    mutating func disarm(_ id: TimerID) -> Bool {
        guard isArmed(id) else { return false }
        detach(id.slot)
        if slots[id.slot].firesOnce { free(id.slot) }
        return true
    }

    /// Disarms and frees the slot.
    mutating func release(_ id: TimerID) {
        guard isCurrent(id) else { return }
        detach(id.slot)
        free(id.slot)
    }

    /// The body of the next timer due at `nowNs` that was armed before `sequence`.
    mutating func popDue(nowNs: Int64, armedBefore sequence: UInt64) -> (() -> Void)? {
        guard let first = heap.first, first.deadlineNs <= nowNs, first.sequence < sequence else { return nil }
        let body = slots[first.slot].body
        detach(first.slot)
        if slots[first.slot].firesOnce { free(first.slot) }
        return body
    }

    private func isCurrent(_ id: TimerID) -> Bool {
        slots.indices.contains(id.slot) && slots[id.slot].generation == id.generation && slots[id.slot].body != nil
    }

    private mutating func free(_ slot: Int) {
        slots[slot].body = nil
        slots[slot].generation &+= 1
        freeSlots.append(slot)
    }

    private mutating func detach(_ slot: Int) {
        let position = slots[slot].position
        guard position >= 0 else { return }
        slots[slot].position = -1
        let last = heap.removeLast()
        guard position < heap.count else { return }
        heap[position] = last
        slots[last.slot].position = position
        siftUp(position)
        siftDown(slots[last.slot].position)
    }

    private mutating func siftUp(_ start: Int) {
        var position = start
        while position > 0 {
            let parent = (position - 1) / 2
            guard heap[position].isBefore(heap[parent]) else { return }
            exchange(position, parent)
            position = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var position = start
        while true {
            var least = position
            let left = 2 * position + 1
            let right = left + 1
            if left < heap.count, heap[left].isBefore(heap[least]) { least = left }
            if right < heap.count, heap[right].isBefore(heap[least]) { least = right }
            guard least != position else { return }
            exchange(position, least)
            position = least
        }
    }

    private mutating func exchange(_ left: Int, _ right: Int) {
        heap.swapAt(left, right)
        slots[heap[left].slot].position = left
        slots[heap[right].slot].position = right
    }
}

/// A timer to be set again and again without allocating: idle times, deadlines that move, the next thing due.
///
/// Loop's thread. The body must not keep the alarm's owner alive (capture it weakly or unowned); dropping the alarm
/// disarms it.
package final class Alarm {
    private let loop: Loop
    private let id: TimerID

    package init(loop: Loop, _ body: @escaping () -> Void) {
        loop.assertOnThread()
        self.loop = loop
        id = loop.reserveAlarm(body)
    }

    deinit { loop.release(id) }

    package var isSet: Bool { loop.isArmed(id) }

    /// Fires once `afterNs` from this turn's time; replaces what was set.
    package func set(afterNs: Int64) { loop.arm(id, atNs: loop.deadline(afterNs)) }

    /// Fires once at or after the monotonic time `atNs`; replaces what was set.
    package func set(atNs: Int64) { loop.arm(id, atNs: atNs) }

    package func clear() { loop.cancel(id) }
}
