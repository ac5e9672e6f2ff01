internal import CLinux
internal import Glibc
internal import Synchronization

/// A thread that runs a loop. If it is not joined, it is detached, so that its resources are freed when it ends.
package final class LoopThread: Sendable {
    /// The thread's loop. Other threads may use it for mailboxes, `perform` and `stop`.
    package let loop: Loop
    private let thread: pthread_t
    private let isJoined = Atomic(false)

    /// Starts the thread, which first calls `prepare` with the loop and then runs the loop until `stop`. The name is
    /// truncated to 15 bytes.
    package init(name: String, prepare: @escaping @Sendable (Loop) -> Void = { _ in }) throws(SystemError) {
        let loop = try Loop()
        self.loop = loop
        thread = try startThread(name) {
            prepare(loop)
            loop.run()
        }
    }

    deinit {
        // Detach a thread that was not joined, because its stack would otherwise stay mapped until the process ends.
        if !isJoined.load(ordering: .relaxed) { pthread_detach(thread) }
    }

    package func stop() { loop.stop() }

    /// Waits until the thread has ended. Call it once, from another thread, after `stop`.
    package func join() {
        guard !isJoined.exchange(true, ordering: .relaxed) else { return }
        pthread_join(thread, nil)
    }
}

/// Starts a thread that runs `body`. The caller must join or detach the thread. The name is truncated to 15 bytes.
package func startThread(
    _ name: String, _ body: @escaping @Sendable () -> Void
) throws(SystemError) -> UInt {
    // The type is `UInt` instead of `pthread_t`, because the compiler finds `pthread_t` in CLinux or in Glibc,
    // depending on which it loads first.
    var thread: UInt = 0
    let start = unsafe Unmanaged.passRetained(
        Start {
            unsafe name.withCString { unsafe linux_name_thread($0) }
            body()
        })
    let code = unsafe pthread_create(&thread, nil, { unsafe run($0) }, start.toOpaque())
    guard code == 0 else {
        unsafe start.release()
        throw SystemError(call: "pthread_create", code: code)
    }
    return thread
}

private final class Start: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

private func run(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    unsafe Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue().body()
    return nil
}
