internal import CLinux
internal import Glibc

/// The event bits of epoll(7), as literals, so that the compiler can treat them as constants in other modules.
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    @inlinable package static var readable: Readiness { Readiness(rawValue: 0x001) }
    @inlinable package static var writable: Readiness { Readiness(rawValue: 0x004) }

    /// Whether the owner must read from the descriptor: it has data, a hang-up (EPOLLHUP, 0x010) or an error (EPOLLERR,
    /// 0x008). epoll reports hang-ups and errors in every turn, even if unwatched, until the owner handles them.
    @inlinable package var needsRead: Bool { rawValue & 0x019 != 0 }
}

/// The identity of a watched descriptor of one loop. It is never reused after `unregister`.
package struct Registration: Hashable, Sendable {
    /// The value in `epoll_event.data`, counted from 1. 0 is the loop's own wake-up descriptor.
    var number: UInt64
}

/// The monotonic and wall-clock times of a turn.
package struct LoopTime: Hashable, Sendable {
    /// CLOCK_BOOTTIME, for deadlines and durations. It also advances while the machine is suspended, as the brokers'
    /// timeouts do.
    package var monotonicNs: Int64
    /// CLOCK_REALTIME in milliseconds since the epoch, for comparison with other machines' times.
    package var wallMs: Int64

    package init(monotonicNs: Int64, wallMs: Int64) {
        self.monotonicNs = monotonicNs
        self.wallMs = wallMs
    }

    /// Returns the current time, in about 40 ns. Thread-safe.
    package static func read() -> LoopTime {
        LoopTime(monotonicNs: nanoseconds(CLOCK_BOOTTIME), wallMs: nanoseconds(CLOCK_REALTIME) / 1_000_000)
    }

    private static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        // clock_gettime(2) fails only for an unknown clock or an invalid pointer.
        unsafe clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// A failed system call, with its name and `errno`.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package var call: String
    package var code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    /// A text such as `connect: Connection refused (ECONNREFUSED)`.
    package var description: String { "\(call): \(Self.text(code))" }

    /// Returns a text such as `Connection refused (ECONNREFUSED)`.
    package static func text(_ code: Int32) -> String {
        // strerror(3) is thread-safe in glibc since 2.32.
        let text = unsafe String(cString: strerror(code))
        guard let name = unsafe linux_error_name(code) else { return "\(text) (\(code))" }
        return unsafe "\(text) (\(String(cString: name)))"
    }
}
