// `timespec` is of this module or of Glibc, whichever the compiler loads first.
internal import CLinux
internal import Glibc

/// Both clocks, read together once a turn.
package struct LoopTime: Hashable, Sendable {
    /// CLOCK_BOOTTIME in nanoseconds: for deadlines and durations. It goes on while the machine sleeps, as whoever
    /// gives our partitions to others does.
    package var monotonicNs: Int64
    /// CLOCK_REALTIME in milliseconds since the epoch: for what is compared with other machines' times.
    package var wallMs: Int64

    package init(monotonicNs: Int64, wallMs: Int64) {
        self.monotonicNs = monotonicNs
        self.wallMs = wallMs
    }

    /// The time now. Any thread; some 40 ns.
    package static func read() -> LoopTime {
        LoopTime(monotonicNs: nanoseconds(CLOCK_BOOTTIME), wallMs: nanoseconds(CLOCK_REALTIME) / 1_000_000)
    }

    private static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        // clock_gettime(2) fails only for a clock that does not exist, or a bad pointer.
        unsafe clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
