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
