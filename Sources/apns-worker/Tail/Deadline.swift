import EventLoop
import Glibc

/// A moment until which a command waits; without one it waits for ever.
struct Deadline {
    private let atNs: Int64?

    /// `nil`: never.
    init(after duration: Duration?) {
        atNs = duration.map {
            LoopTime.read().monotonicNs + $0.components.seconds * 1_000_000_000
                + $0.components.attoseconds / 1_000_000_000
        }
    }

    static var never: Deadline { Deadline(after: nil) }

    var hasPassed: Bool { atNs.map { $0 <= LoopTime.read().monotonicNs } ?? false }

    /// Waits until a descriptor can be read or written (poll(2)); false: not in time.
    func awaits(_ events: Int32, of descriptor: Int32) -> Bool {
        while true {
            var wanted = pollfd(fd: descriptor, events: Int16(events), revents: 0)
            let count = poll(&wanted, 1, leftMs(atMost: 1_000))
            if count > 0 { return !hasPassed }
            if count < 0, errno != EINTR { return false }
            if hasPassed { return false }
        }
    }

    /// What is left of it, at most `limitMs` and at least 0, in milliseconds.
    func leftMs(atMost limitMs: Int32) -> Int32 {
        guard let atNs else { return limitMs }
        // Rounded up, so that it has passed when the time is over.
        return Int32(min(Int64(limitMs), max(0, (atNs - LoopTime.read().monotonicNs + 999_999) / 1_000_000)))
    }
}
