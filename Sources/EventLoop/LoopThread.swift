internal import Glibc
internal import Synchronization

/// A thread that runs a loop of its own. One that nobody joins gives back what it holds when it ends.
package final class LoopThread: Sendable {
    /// The thread's loop: for mailboxes, `perform` and `stop`.
    package let loop: Loop
    private let thread: pthread_t
    private let isJoined = Atomic(false)

    /// Starts the thread: it runs `prepare` with its loop, then the loop until `stop`.
    ///
    /// - Parameter name: as `top -H` shows it; 15 bytes are kept.
    package init(name: String, prepare: @escaping @Sendable (Loop) -> Void = { _ in }) throws(SystemError) {
        let loop = try Loop()
        self.loop = loop
        thread = try startThread(name) {
            prepare(loop)
            loop.run()
        }
    }

    deinit {
        // Else its stack stays mapped to the process's end.
        if !isJoined.load(ordering: .relaxed) { pthread_detach(thread) }
    }

    /// Asks the loop to stop. Any thread.
    package func stop() { loop.stop() }

    /// Waits until the thread has ended; call it once, from another thread, after `stop`.
    package func join() {
        guard !isJoined.exchange(true, ordering: .relaxed) else { return }
        pthread_join(thread, nil)
    }
}
