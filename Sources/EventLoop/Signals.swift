internal import CLinux
internal import Glibc

/// Signals as events of a loop (signalfd(2)).
///
/// A signal reaches the descriptor only while it is blocked in every thread: call `block` first thing in `main`, before
/// any thread is started; threads inherit it, and so do child processes (a child that is to be killed by SIGTERM
/// unblocks it before exec).
package final class Signals {
    private let loop: Loop
    private let descriptor: Int32
    private var registration: Registration?

    /// Blocks signals in the calling thread and in all threads it starts from now on.
    package static func block(_ signals: [Int32]) {
        var set = Self.set(signals)
        unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Blocks the signals in the calling thread and hands each that comes to the handler, on the loop's thread.
    /// Signals of one kind that come before the loop turns count as one.
    package init(
        _ signals: [Int32], loop: Loop, handler: @escaping (_ signal: Int32) -> Void
    ) throws(SystemError) {
        self.loop = loop
        Self.block(signals)
        var set = Self.set(signals)
        let descriptor = unsafe signalfd(-1, &set, Int32(SFD_CLOEXEC | SFD_NONBLOCK))
        self.descriptor = descriptor
        guard descriptor >= 0 else { throw SystemError(call: "signalfd", code: errno) }
        registration = try loop.register(descriptor, for: .readable) { _ in
            var information = signalfd_siginfo()
            let size = MemoryLayout<signalfd_siginfo>.size
            while unsafe read(descriptor, &information, size) == size { handler(Int32(information.ssi_signo)) }
        }
    }

    deinit {
        if let registration { loop.unregister(registration) }
        if descriptor >= 0 { close(descriptor) }
    }

    private static func set(_ signals: [Int32]) -> sigset_t {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal) }
        return set
    }
}
