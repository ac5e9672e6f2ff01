internal import CLinux
internal import Glibc

/// The bits of epoll(7), as numbers so that callers in other modules fold them.
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    @inlinable package static var readable: Readiness { Readiness(rawValue: 0x001) }
    @inlinable package static var writable: Readiness { Readiness(rawValue: 0x004) }
    /// Always watched.
    @inlinable package static var hangUp: Readiness { Readiness(rawValue: 0x010) }
    /// Always watched.
    @inlinable package static var failed: Readiness { Readiness(rawValue: 0x008) }

    /// Whether only a read can settle it: hang-up and failure are reported again and again.
    @inlinable package var needsRead: Bool { rawValue & 0x019 != 0 }
}

/// Names a watched descriptor of one loop; after `unregister` it names nothing, for ever.
package struct Registration: Hashable, Sendable {
    var slot: UInt32
    var generation: UInt32
}

/// Both clocks, read together once a turn.
package struct LoopTime: Hashable, Sendable {
    /// CLOCK_BOOTTIME, for deadlines and durations. It goes on while the machine sleeps, as brokers do.
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

/// A system call that failed: its name and its `errno`.
package struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
    package var call: String
    package var code: Int32

    package init(call: String, code: Int32) {
        self.call = call
        self.code = code
    }

    /// `connect: Connection refused (ECONNREFUSED)`.
    package var description: String { "\(call): \(Self.text(code))" }

    /// `Connection refused (ECONNREFUSED)`.
    package static func text(_ code: Int32) -> String {
        // strerror(3) is thread-safe in glibc since 2.32.
        let text = unsafe String(cString: strerror(code))
        guard let name = unsafe linux_error_name(code) else { return "\(text) (\(code))" }
        return unsafe "\(text) (\(String(cString: name)))"
    }
}
