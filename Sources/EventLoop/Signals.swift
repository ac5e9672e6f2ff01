internal import Glibc

/// Signals as events of a loop, taken by a thread of their own (sigwait(3)): so that a second one to stop ends the
/// process whatever the loop's thread is doing, or after it ended.
///
/// A signal reaches that thread only while it is blocked in every other one: make it before any other thread is
/// started; threads inherit the mask, and so do child processes (a child that is to be killed by SIGTERM unblocks it
/// before exec).
package final class Signals {
    /// The one that takes them; it lives to the process's end.
    let thread: pthread_t

    /// What the thread shares with the loop; it lives as long as the thread does: to the process's end.
    private final class Box: Sendable {
        let mailbox: Mailbox<Int32>
        let signals: [Int32]
        let stopping: [Int32]

        init(_ signals: [Int32], stopping: [Int32], _ mailbox: Mailbox<Int32>) {
            self.signals = signals
            self.stopping = stopping
            self.mailbox = mailbox
        }
    }

    /// Blocks signals in the calling thread and in all threads it starts from now on.
    package static func block(_ signals: [Int32]) {
        var set = Self.set(signals)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Blocks the signals in the calling thread and hands each that comes to the handler, on the loop's thread. The
    /// handler is kept for as long as the process lives.
    ///
    /// - Parameter stopping: of these, all taken together, the second ends the process at once, with 128 and its
    ///   number.
    package init(
        _ signals: [Int32], stopping: [Int32] = [], loop: Loop, handler: @escaping (_ signal: Int32) -> Void
    ) throws(SystemError) {
        Self.block(signals)
        let box = Box(signals, stopping: stopping, Mailbox(loop: loop, capacity: 64) { $0.forEach(handler) })
        thread = try startThread("signals") { Signals.take(box) }
        pthread_detach(thread)
    }

    private static func take(_ box: Box) -> Never {
        var set = Self.set(box.signals)
        var stops = 0
        while true {
            var signal: Int32 = 0
            guard unsafe sigwait(&set, &signal) == 0 else { continue }
            if box.stopping.contains(signal) {
                // Before anything that takes a lock or memory.
                if stops > 0 { _exit(128 + signal) }
                stops += 1
            }
            box.mailbox.post(signal)
        }
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        return set
    }
}
