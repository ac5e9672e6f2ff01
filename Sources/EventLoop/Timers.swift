/// A timer that runs its body once, at or after its deadline, unless it is disarmed earlier.
final class LoopTimer {
    fileprivate let body: () -> Void
    /// The deadline and sequence number by which `Timers` sorts, or `nil` while the timer is not armed.
    fileprivate var key: Timers.Key?

    init(_ body: @escaping () -> Void) { self.body = body }
}

/// Timers by deadline. Timers with equal deadlines fire in the order in which they were armed.
///
/// A sorted array suffices: a loop has a few hundred timers, and most are armed for later than all others or cancelled
/// early.
struct Timers {
    fileprivate typealias Key = (deadlineNs: Int64, sequence: UInt64)

    /// The armed timers, sorted so that the next one to fire is last.
    private var armed: [(key: Key, timer: LoopTimer)] = []
    /// The sequence number of the next timer to arm. A timer that is armed while due timers fire does not fire in the
    /// same turn, because its number is too high (`popDue`).
    private(set) var nextSequence: UInt64 = 0

    var nextDeadlineNs: Int64? { armed.last?.key.deadlineNs }

    /// Arms or moves a timer.
    mutating func arm(_ timer: LoopTimer, deadlineNs: Int64) {
        disarm(timer)
        let key = (deadlineNs, nextSequence)
        nextSequence += 1
        armed.insert((key, timer), at: place(of: key))
        timer.key = key
    }

    mutating func disarm(_ timer: LoopTimer) {
        guard let key = timer.key else { return }
        timer.key = nil
        armed.remove(at: place(of: key))
    }

    /// Disarms the next timer due at `nowNs` that was armed before `sequence`, and returns its body.
    mutating func popDue(nowNs: Int64, armedBefore sequence: UInt64) -> (() -> Void)? {
        guard let (key, timer) = armed.last, key.deadlineNs <= nowNs, key.sequence < sequence else { return nil }
        disarm(timer)
        return timer.body
    }

    /// Returns the index of the first armed timer that does not fire later than a timer with this key.
    private func place(of key: Key) -> Int {
        var (low, high) = (0, armed.count)
        while low < high {
            let middle = (low + high) / 2
            if key < armed[middle].key { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// A timer that can be set repeatedly without allocating. Use it on the loop's thread only.
///
/// Releasing the alarm disarms it. If the body retains the alarm's owner, the owner must release the alarm explicitly.
package final class Alarm {
    private let loop: Loop
    private let timer: LoopTimer

    package init(loop: Loop, _ body: @escaping () -> Void) {
        self.loop = loop
        timer = LoopTimer(body)
    }

    deinit { loop.timers.disarm(timer) }

    /// Fires once, `afterNs` after this turn's time. Replaces the time set before.
    package func set(afterNs: Int64) { set(atNs: loop.deadline(afterNs)) }

    /// Fires once, at or after the monotonic time `atNs`. Replaces the time set before.
    package func set(atNs: Int64) { loop.timers.arm(timer, deadlineNs: atNs) }

    /// Fires at or after `atNs`, or at the alarm's present time if that is earlier. This avoids moving the timer each
    /// time a deadline becomes later, but the body must check whether the deadline has passed.
    package func set(noLaterThanNs atNs: Int64) { if atNs < timer.key?.deadlineNs ?? .max { set(atNs: atNs) } }

    package func clear() { loop.timers.disarm(timer) }
}
