import CLinux
import EventLoop
import Glibc

/// What signals do from the first line of `run` until the worker takes them itself (`Signals`): by default each would
/// end the process, and as process 1 of a container it would never hear of one. Before that line, and before libraries'
/// constructors, they are held back (`CEarlySignals`).
enum EarlySignals {
    /// SIGHUP waits. SIGTERM and SIGINT end the process at once, with 0: nothing was begun that has to be ended in
    /// order, and what the start waits for, such as a pipe without a writer, may take for ever. On the main thread,
    /// before others.
    static func hold() {
        Signals.block([SIGHUP])
        for number in [SIGTERM, SIGINT] {
            signal(number) { _ in
                let line: StaticString = "apns-worker run: stopped before it had started\n"
                _ = write(STDERR_FILENO, line.utf8Start, line.utf8CodeUnitCount)
                _exit(ExitCode.fine.rawValue)
            }
        }
        // Blocked since the first moment (`CEarlySignals`), and where this process replaced one that died
        // (`crash_contain`).
        var stops = sigset_t()
        sigemptyset(&stops)
        sigaddset(&stops, SIGTERM)
        sigaddset(&stops, SIGINT)
        pthread_sigmask(SIG_UNBLOCK, &stops, nil)
    }
}
