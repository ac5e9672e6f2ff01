import CLinux
import Glibc

/// Ctrl-C and SIGTERM end the bench at its next wait, so that it leaves no process and no file behind.
enum Interruption {
    private static var signals: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGINT)
        sigaddset(&set, SIGTERM)
        return set
    }

    /// To be called before the first other thread is made: threads inherit the mask.
    static func holdBack() {
        var set = signals
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Waits so long.
    ///
    /// - Throws: when one of the signals came.
    static func pause(ms: Int) throws(BenchFailure) {
        var set = signals
        var time = timespec(tv_sec: ms / 1_000, tv_nsec: ms % 1_000 * 1_000_000)
        guard sigtimedwait(&set, nil, &time) <= 0 else { throw BenchFailure("interrupted") }
    }
}

/// A moment by which something must have happened.
struct Deadline {
    private let endNs: Int64

    init(seconds: Int) { endNs = Clocks.monotonicNs + Int64(seconds) * 1_000_000_000 }

    var isOver: Bool { Clocks.monotonicNs >= endNs }
}
