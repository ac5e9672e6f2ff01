internal import CLinux
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
        let start = unsafe Unmanaged.passRetained(
            Start(name: name) {
                prepare(loop)
                loop.run()
            })
        var thread = pthread_t()
        let result = unsafe pthread_create(&thread, nil, { unsafe runThread($0) }, start.toOpaque())
        if result != 0 {
            unsafe start.release()
            throw SystemError(call: "pthread_create", code: result)
        }
        self.thread = thread
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

private final class Start: Sendable {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
    }
}

/// Called by pthread_create on the new thread.
private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    let start = unsafe Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
    unsafe start.name.withCString { unsafe linux_name_thread($0) }
    let stack = unsafe crash_stack_begin()
    start.body()
    unsafe crash_stack_end(stack)
    return nil
}
