import EventLoop
import Glibc

/// A thread that runs one function to its end.
struct PlainThread {
    private let thread: pthread_t

    /// `name`: at most 15 bytes are kept, as `top -H` shows it.
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        guard let thread = try? startThread(name, body) else { preconditionFailure("the system has no thread left") }
        self.thread = thread
    }

    /// Waits for its end; to be called once.
    func join() {
        pthread_join(thread, nil)
    }
}
