import EventLoop

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

    /// What is left of it, at most `limitMs` and at least 0, in milliseconds.
    func leftMs(atMost limitMs: Int32) -> Int32 {
        guard let atNs else { return limitMs }
        // Rounded up, so that it has passed when the time is over.
        return Int32(min(Int64(limitMs), max(0, (atNs - LoopTime.read().monotonicNs + 999_999) / 1_000_000)))
    }
}
