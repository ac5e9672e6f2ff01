package import Glibc

/// Delivers signals as events of a loop.
///
/// A separate thread receives the signals (sigwait(3)). It ends the process at a second stop signal, even if the loop's
/// thread hangs or has ended. Create this object before any other thread, because a thread that does not block the
/// signals may receive them instead. Child processes inherit the blocked signals.
package final class Signals {
    /// The thread that receives the signals. It runs until the process ends.
    let thread: pthread_t

    /// Blocks signals in the calling thread and in all threads that it starts from now on.
    package static func block(_ signals: [Int32]) {
        var set = Self.set(signals)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Blocks the signals in the calling thread, and passes each received signal to the handler on the loop's thread.
    /// The second signal from `stopping` ends the process immediately, with exit code 128 plus the signal's number.
    package init(
        _ signals: [Int32], stopping: [Int32] = [], loop: Loop, handler: @escaping (_ signal: Int32) -> Void
    ) throws(SystemError) {
        Self.block(signals)
        let mailbox = Mailbox<Int32>(loop: loop, capacity: 64) { $0.forEach(handler) }
        thread = try startThread("signals") { Self.take(signals, stopping: stopping, mailbox) }
        pthread_detach(thread)
    }

    private static func take(_ signals: [Int32], stopping: [Int32], _ mailbox: Mailbox<Int32>) -> Never {
        var set = Self.set(signals)
        var stops = 0
        while true {
            var signal: Int32 = 0
            guard unsafe sigwait(&set, &signal) == 0 else { continue }
            if stopping.contains(signal) {
                // Do not call `post` before the exit: a thread that hangs may hold the mailbox's lock or the
                // allocator's.
                if stops > 0 { _exit(128 + signal) }
                stops += 1
            }
            mailbox.post(signal)
        }
    }

    package static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        return set
    }
}
