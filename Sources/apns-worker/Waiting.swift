internal import CLinux
import Configuration
import EventLoop
import Glibc
import Kafka

struct Deadline {
    private let atNs: Int64?

    /// - Parameter duration: The time until the deadline, or `nil` for no deadline.
    init(after duration: Duration?) { atNs = duration.map { LoopTime.read().monotonicNs + $0.nanoseconds } }

    var hasPassed: Bool { leftMs == 0 }

    /// The time left in milliseconds, rounded up so that 0 means that the deadline has passed.
    var leftMs: Int64 { atNs.map { max(0, ($0 - LoopTime.read().monotonicNs + 999_999) / 1_000_000) } ?? .max }

    func leftMs(atMost limitMs: Int32) -> Int32 { Int32(min(Int64(limitMs), leftMs)) }

    /// Waits until a descriptor is readable (poll(2)). Returns false if the deadline passes first or poll(2) fails.
    func awaitInput(of descriptor: Int32) -> Bool {
        while !hasPassed {
            var wanted = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let count = poll(&wanted, 1, leftMs(atMost: 1_000))
            if count > 0 { return !hasPassed }
            if count < 0, errno != EINTR { return false }
        }
        return false
    }
}

/// Reports the problems of operations that are being retried: the first immediately, then at most one every ten
/// seconds.
final class Troubles {
    private var pause = Deadline(after: .zero)

    func say(_ text: String) {
        guard pause.hasPassed else { return }
        pause = Deadline(after: .seconds(10))
        complain("\(text); trying again")
    }
}

extension BrokerWait {
    /// Creates a wait of up to ten seconds for each answer of the brokers, or until the deadline if it is earlier.
    init(_ cluster: ClusterSettings, until deadline: Deadline, report: ((String) -> Void)? = nil) {
        self.init(cluster, limitMs: 10_000, leftMs: { deadline.leftMs }, report: report ?? Troubles().say)
    }
}

/// SIGTERM and SIGINT, which are blocked on every thread so that one thread can wait for them.
///
/// Create the value before any other thread, because threads inherit the signal mask.
struct StopSignals: ~Copyable {
    private let set = Signals.set([SIGTERM, SIGINT])

    init() { Signals.block([SIGTERM, SIGINT]) }

    func wait() {
        var set = set
        var signal: Int32 = 0
        while sigwait(&set, &signal) != 0 {}
    }

    /// Consumes a pending signal, and returns whether there was one.
    func take() -> Bool {
        var set = set
        var now = timespec()
        return sigtimedwait(&set, nil, &now) > 0
    }
}
