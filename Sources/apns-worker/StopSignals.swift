internal import CLinux
import Glibc

/// SIGTERM and SIGINT, held back from every thread and waited for by one.
///
/// Make it before the first other thread: threads inherit the mask.
struct StopSignals: ~Copyable {
    private var set = sigset_t()

    init() {
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Returns once one of them came.
    func wait() {
        var set = set
        var signal: Int32 = 0
        while sigwait(&set, &signal) != 0 {}
    }

    /// Whether one came within the time; 0: whether one is pending.
    func came(withinMs milliseconds: Int) -> Bool {
        var set = set
        var time = timespec(tv_sec: milliseconds / 1_000, tv_nsec: milliseconds % 1_000 * 1_000_000)
        return sigtimedwait(&set, nil, &time) > 0
    }
}
