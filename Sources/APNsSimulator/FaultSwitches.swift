import EventLoop
import Glibc

/// The controls for latency and faults of a running simulator. Thread-safe.
///
/// `@unchecked Sendable` is correct because only the loop's thread uses the acceptors.
final class FaultSwitches: @unchecked Sendable {
    private let loop: Loop
    /// The acceptors of all ports, or `nil` after `stop`.
    private var acceptors: Acceptors!

    init(_ acceptors: Acceptors, loop: Loop) {
        self.loop = loop
        self.acceptors = acceptors
    }

    /// Runs a closure on the loop's thread and waits for its result. Must not be called after `stop`.
    @discardableResult
    func with<R: Sendable>(_ body: @escaping @Sendable (Acceptors) -> R) -> R {
        let handoff = Handoff<R>()
        loop.perform { handoff.give(body(self.acceptors)) }
        return handoff.wait()
    }

    /// Starts to close all connections, and returns. The loop stops when all are closed, or after a second.
    func stop() {
        loop.perform { [self] in
            acceptors.close()
            stopWhenEmpty(triesLeft: 100)
        }
    }

    private func stopWhenEmpty(triesLeft: Int) {
        if !acceptors.isEmpty, triesLeft > 0 {
            loop.schedule(afterNs: 10_000_000) { self.stopWhenEmpty(triesLeft: triesLeft - 1) }
            return
        }
        acceptors = nil
        loop.stop()
    }
}

/// A value that one thread provides once and another thread waits for.
///
/// `@unchecked Sendable` is correct because the semaphore orders the two accesses.
final class Handoff<Value>: @unchecked Sendable {
    private let given = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var value: Value?

    init() { sem_init(given, 0, 0) }

    deinit {
        sem_destroy(given)
        given.deallocate()
    }

    func give(_ value: sending Value) {
        self.value = value
        sem_post(given)
    }

    /// Blocks until the value is available. Call it only once.
    func wait() -> Value {
        while sem_wait(given) != 0 {}
        guard let value = value.take() else { preconditionFailure("wait must be called only once") }
        return value
    }
}
