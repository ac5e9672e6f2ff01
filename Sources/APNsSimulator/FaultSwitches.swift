import EventLoop
import Glibc

/// Latency and faults of a running simulator, for any thread.
///
/// `@unchecked Sendable`: the acceptors are only used on the loop's thread.
final class FaultSwitches: @unchecked Sendable {
    private let loop: Loop
    /// `nil` once it has stopped.
    private var acceptors: Acceptors!

    init(_ acceptors: Acceptors, loop: Loop) {
        self.loop = loop
        self.acceptors = acceptors
    }

    /// Runs on the loop's thread and waits for it. Not after `stop`.
    @discardableResult
    private func with<R: Sendable>(_ body: @escaping @Sendable (Acceptors) -> R) -> R {
        let handoff = Handoff<R>()
        loop.perform { handoff.give(body(self.acceptors)) }
        return handoff.wait()
    }

    /// The faults of new connections of the binary gateway. Open connections keep theirs, except that connections
    /// that read nothing end.
    var gateway: GatewayFaults {
        get { with { $0.gatewayFaults } }
        set { with { $0.gatewayFaults = newValue } }
    }

    /// SETTINGS_MAX_CONCURRENT_STREAMS. Every connection is sent a change at once.
    var streams: UInt32 {
        get { with { $0.streams } }
        set { with { $0.streams = newValue } }
    }

    var latency: Latency {
        get { with { $0.service.options.latency } }
        set { with { $0.service.options.latency = newValue } }
    }

    /// Setting them restarts every rule's count and clock.
    var rules: [FaultRule] {
        get { with { $0.service.schedule.rules } }
        set {
            with { [loop] in
                $0.service.schedule = FaultSchedule(rules: newValue, nowNs: loop.now.monotonicNs)
            }
        }
    }

    /// Injects a fault into every open connection. A fault of a single request does nothing. Returns the number of
    /// connections.
    @discardableResult
    func inject(_ fault: Fault) -> Int { with { $0.inject(fault) } }

    /// Ends all connections, then the loop. Waits at most a second for output to be sent.
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

/// A value that one thread waits for and another one provides, once.
///
/// `@unchecked Sendable`: the semaphore orders the two accesses.
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

    /// Called once.
    func wait() -> Value {
        while sem_wait(given) != 0 {}
        guard let value = value.take() else { preconditionFailure("a handoff is waited for once") }
        return value
    }
}
