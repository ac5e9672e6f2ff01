/// Names a timer of one loop. Once it has fired or was cancelled, it names nothing.
package struct TimerID: Hashable, Sendable {
    fileprivate var slot: Int
    fileprivate var generation: UInt32
}

/// Timers by deadline. Equal deadlines fire in the order in which they were armed.
///
/// A sorted array: a loop has some hundred timers, mostly armed for later than all others or cancelled early.
struct Timers {
    private struct Key {
        var deadlineNs: Int64
        var sequence: UInt64

        func isBefore(_ other: Key) -> Bool {
            deadlineNs != other.deadlineNs ? deadlineNs < other.deadlineNs : sequence < other.sequence
        }
    }

    private struct Slot {
        var generation: UInt32 = 0
        /// `nil` while the timer is not armed.
        var key: Key?
        var firesOnce = true
        var body: (() -> Void)?
    }

    /// The armed timers, the next one last.
    private var armed: [(key: Key, slot: Int)] = []
    private var slots: [Slot] = []
    private var freeSlots: [Int] = []
    /// Counts arming. A timer armed at or after a mark belongs to a later turn.
    private(set) var nextSequence: UInt64 = 0

    var count: Int { armed.count }
    var nextDeadlineNs: Int64? { armed.last?.key.deadlineNs }

    /// Takes a slot for a body. With `firesOnce`, the slot is freed when the timer fires or is disarmed.
    mutating func reserve(firesOnce: Bool, _ body: @escaping () -> Void) -> TimerID {
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count { slots.append(Slot()) }
        slots[slot].firesOnce = firesOnce
        slots[slot].body = body
        return TimerID(slot: slot, generation: slots[slot].generation)
    }

    /// When the timer fires, or `nil` if it is not armed.
    func deadlineNs(of id: TimerID) -> Int64? { isCurrent(id) ? slots[id.slot].key?.deadlineNs : nil }

    /// Arms or moves a timer. Ignores an id that names nothing.
    mutating func arm(_ id: TimerID, deadlineNs: Int64) {
        guard isCurrent(id) else { return }
        detach(id.slot)
        let key = Key(deadlineNs: deadlineNs, sequence: nextSequence)
        nextSequence += 1
        armed.insert((key, id.slot), at: place(of: key))
        slots[id.slot].key = key
    }

    /// Returns whether the timer was armed.
    @discardableResult
    mutating func disarm(_ id: TimerID) -> Bool {
        guard deadlineNs(of: id) != nil else { return false }
        detach(id.slot)
        if slots[id.slot].firesOnce { free(id.slot) }
        return true
    }

    mutating func release(_ id: TimerID) {
        guard isCurrent(id) else { return }
        detach(id.slot)
        free(id.slot)
    }

    /// Returns the body of the next timer due at `nowNs` that was armed before `sequence`.
    mutating func popDue(nowNs: Int64, armedBefore sequence: UInt64) -> (() -> Void)? {
        guard let (key, slot) = armed.last, key.deadlineNs <= nowNs, key.sequence < sequence else { return nil }
        let body = slots[slot].body
        detach(slot)
        if slots[slot].firesOnce { free(slot) }
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
        guard let key = slots[slot].key else { return }
        slots[slot].key = nil
        armed.remove(at: place(of: key))
    }

    /// Returns the index of the first armed timer that is not after `key`.
    private func place(of key: Key) -> Int {
        var (low, high) = (0, armed.count)
        while low < high {
            let middle = (low + high) / 2
            if key.isBefore(armed[middle].key) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// A timer that can be set again and again without allocating.
///
/// Loop's thread. The body must not keep the alarm's owner alive (capture it weakly or unowned). Dropping the alarm
/// disarms it.
package final class Alarm {
    private let loop: Loop
    private let id: TimerID

    package init(loop: Loop, _ body: @escaping () -> Void) {
        self.loop = loop
        id = loop.timers.reserve(firesOnce: false, body)
    }

    deinit { loop.timers.release(id) }

    var isSet: Bool { loop.timers.deadlineNs(of: id) != nil }

    /// Fires once `afterNs` from this turn's time. Replaces an earlier time.
    package func set(afterNs: Int64) { set(atNs: loop.deadline(afterNs)) }

    /// Fires once at or after the monotonic time `atNs`. Replaces an earlier time.
    package func set(atNs: Int64) { loop.timers.arm(id, deadlineNs: atNs) }

    /// Fires at or after `atNs`, unless it is set to fire before. Where deadlines mostly move away, this moves nothing,
    /// and what the alarm calls finds out.
    package func set(noLaterThanNs atNs: Int64) { if atNs < loop.timers.deadlineNs(of: id) ?? .max { set(atNs: atNs) } }

    package func clear() { loop.cancel(id) }
}
