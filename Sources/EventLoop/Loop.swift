internal import CLinux
internal import Glibc

/// An event loop for one thread, based on epoll(7), with level-triggered descriptors, timers and mailboxes.
///
/// A turn waits for events and reads the clock. It then handles ready descriptors, closures posted by other threads,
/// and due timers, in this order. At its end it runs the `onTurnEnd` closures in order, then calls `turnEnded()` of the
/// objects passed to `atTurnEnd`.
///
/// Use the loop on its thread only: the thread in `run` or, before that, the thread that sets the loop up. `stop`,
/// `perform` and mailboxes are thread-safe, which is why the class is `@unchecked Sendable`.
@safe package final class Loop: @unchecked Sendable {
    /// The time of this turn, read after its wait. Use it on the loop's thread only.
    package private(set) var now: LoopTime
    /// Buffers for reading: 64 KiB for bytes from a descriptor, and 96 KiB for the bytes after TLS decryption. Their
    /// contents are valid only within one callback.
    package let scratch = (
        raw: UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 64),
        cooked: UnsafeMutableRawBufferPointer.allocate(byteCount: 96 << 10, alignment: 64)
    )

    /// Reads the current time, unlike `now`, which stays the same during a turn. Use it on the loop's thread only.
    package let clock: () -> LoopTime
    private let epoll: Int32
    private let wakeUp: Int32
    private var watched: [Registration: (descriptor: Int32, handler: (Readiness) -> Void)] = [:]
    private var lastRegistration = Registration(number: 0)
    private let ready: UnsafeMutableBufferPointer<epoll_event>
    var timers = Timers()
    private var turnEndBodies: [() -> Void] = []
    private var turnEnders: [any TurnEnder] = []
    private var turnEndersInTurn: [any TurnEnder] = []
    private var wantsAnotherTurn = false
    private var owner: pthread_t?

    /// The state that other threads may access.
    private let inbound = Guarded(Inbound())
    private var performing: [@Sendable () -> Void] = []

    private struct Inbound {
        var bodies: [@Sendable () -> Void] = []
        /// Whether the loop's thread is waiting or about to wait. Only then must another thread wake it with a system
        /// call.
        var isAsleep = false
        var isStopping = false

        var isEmpty: Bool { bodies.isEmpty && !isStopping }
    }

    /// The maximum number of ready descriptors handled in a turn. The next turn handles the remaining ones.
    private static let readyLimit = 256

    /// Creates a loop. A `clock` other than the machine's is for tests that run single turns with `runOnce`.
    package init(clock: @escaping () -> LoopTime = { LoopTime.read() }) throws(SystemError) {
        self.clock = clock
        now = clock()
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard epoll >= 0 else { throw SystemError(call: "epoll_create1", code: errno) }
        wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        unsafe ready = .allocate(capacity: Self.readyLimit)
        guard wakeUp >= 0 else { throw SystemError(call: "eventfd", code: errno) }
        // With EPOLLET, epoll reports every write to the eventfd, so the loop need not read it. Its counter would
        // overflow only after 2^64 - 2 writes (eventfd(2)).
        var event = unsafe epoll_event(events: EPOLLIN.rawValue | EPOLLET.rawValue, data: epoll_data_t(u64: 0))
        guard unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, wakeUp, &event) == 0 else {
            throw SystemError(call: "epoll_ctl", code: errno)
        }
    }

    deinit {
        if epoll >= 0 { close(epoll) }
        if wakeUp >= 0 { close(wakeUp) }
        unsafe ready.deallocate()
        unsafe scratch.raw.deallocate()
        unsafe scratch.cooked.deallocate()
    }

    // MARK: Running

    /// Runs turns until `stop`. The calling thread becomes the loop's thread.
    package func run() {
        owner = pthread_self()
        while turn(waitAtMostNs: .max) {}
        owner = nil
        inbound.withLock { $0.isStopping = false }
    }

    /// Runs one turn that waits at most `timeoutNs`, for tests and set-up. Until it returns, the calling thread is the
    /// loop's thread.
    package func runOnce(timeoutNs: Int64 = 0) {
        let former = owner
        owner = pthread_self()
        _ = turn(waitAtMostNs: timeoutNs)
        owner = former
    }

    /// Makes `run` return, at the latest after the loop's next turn, also if called before `run`. Thread-safe.
    package func stop() { post { $0.isStopping = true } }

    /// Runs `body` on the loop's thread, in this turn or the next. For frequent events, use a `Mailbox`. Thread-safe.
    package func perform(_ body: @escaping @Sendable () -> Void) { post { $0.bodies.append(body) } }

    private func post(_ change: (inout Inbound) -> Void) {
        let mustWake = inbound.withLock { inbound in
            change(&inbound)
            // Until the loop sleeps again, later posts need no system call.
            defer { inbound.isAsleep = false }
            return inbound.isAsleep
        }
        guard mustWake else { return }
        var one: UInt64 = 1
        // eventfd(2) returns EAGAIN only if the counter is full. The descriptor is then readable anyway.
        _ = unsafe write(wakeUp, &one, 8)
    }

    /// Whether the calling thread may use the loop: it is the loop's thread, or the loop is not running.
    package var isOnThread: Bool { owner.map { pthread_equal($0, pthread_self()) != 0 } ?? true }

    /// Traps if the loop is running on another thread.
    package func assertOnThread() {
        precondition(isOnThread, "a loop must be used on its own thread only")
    }

    // MARK: Descriptors

    /// Watches a descriptor, level-triggered. The handler is called on the loop's thread with the ready events. The
    /// caller still owns the descriptor, and must unregister it before closing it.
    package func register(
        _ descriptor: Int32, for events: Readiness, handler: @escaping (Readiness) -> Void
    ) throws(SystemError) -> Registration {
        assertOnThread()
        lastRegistration.number += 1
        var event = unsafe epoll_event(events: events.rawValue, data: epoll_data_t(u64: lastRegistration.number))
        guard unsafe epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            throw SystemError(call: "epoll_ctl", code: errno)
        }
        watched[lastRegistration] = (descriptor, handler)
        return lastRegistration
    }

    /// Changes the watched events. Hang-ups and failures are always reported, even if `events` is empty.
    package func update(_ registration: Registration, for events: Readiness) {
        assertOnThread()
        guard let descriptor = watched[registration]?.descriptor else {
            preconditionFailure("the descriptor must be registered")
        }
        var event = unsafe epoll_event(events: events.rawValue, data: epoll_data_t(u64: registration.number))
        let result = unsafe epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event)
        // epoll_ctl(2), MOD: EBADF and ENOENT are programming errors (closed before unregistering). ENOMEM cannot be
        // handled.
        precondition(result == 0, "a descriptor must be unregistered before it is closed (epoll_ctl failed)")
    }

    /// Stops watching. Drops events of this turn that were not delivered yet. A second call has no effect.
    package func unregister(_ registration: Registration) {
        assertOnThread()
        guard let (descriptor, _) = watched.removeValue(forKey: registration) else { return }
        _ = epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, nil)
    }

    // MARK: Timers

    /// Runs `body` once, in the first turn that is at least `afterNs` after this turn. The loop's wait is rounded up to
    /// a millisecond.
    package func schedule(afterNs: Int64, _ body: @escaping () -> Void) {
        assertOnThread()
        timers.arm(LoopTimer(body), deadlineNs: deadline(afterNs))
    }

    func deadline(_ afterNs: Int64) -> Int64 {
        let (sum, overflow) = now.monotonicNs.addingReportingOverflow(max(0, afterNs))
        return overflow ? .max : sum
    }

    // MARK: The turn's end

    /// Runs `body` at the end of every turn from now on. Several bodies run in the order in which they were added.
    package func onTurnEnd(_ body: @escaping () -> Void) {
        assertOnThread()
        turnEndBodies.append(body)
    }

    /// Calls `turnEnded()` once at the end of this turn, after all `onTurnEnd` bodies. The object must not be added
    /// again before this call.
    package func atTurnEnd(_ ender: any TurnEnder) {
        turnEnders.append(ender)
    }

    /// Makes the next turn start without waiting.
    package func wantAnotherTurn() { wantsAnotherTurn = true }

    // MARK: One turn

    private func turn(waitAtMostNs: Int64) -> Bool {
        let isIdle = inbound.withLock { inbound in
            let isIdle = inbound.isEmpty && !wantsAnotherTurn && turnEnders.isEmpty
            inbound.isAsleep = isIdle
            return isIdle
        }
        wantsAnotherTurn = false
        let count = wait(isIdle ? timeoutMs(atMostNs: waitAtMostNs) : 0)
        now = clock()
        deliverReady(count)
        let isStopping = deliverInbound()
        fireTimers()
        endTurn()
        return !isStopping
    }

    private func timeoutMs(atMostNs: Int64) -> Int32 {
        var waitNs = atMostNs
        if let deadlineNs = timers.nextDeadlineNs {
            waitNs = min(waitNs, max(0, deadlineNs - clock().monotonicNs))
        }
        if waitNs == .max { return -1 }
        // Round up, so that no timer is early.
        return Int32(clamping: (max(0, waitNs - 1) / 1_000_000) + (waitNs > 0 ? 1 : 0))
    }

    private func wait(_ timeoutMs: Int32) -> Int {
        // Unwrap the address, because the parameter of epoll_wait(2) is optional only in some versions of glibc's
        // header.
        guard let events = unsafe ready.baseAddress else { preconditionFailure("the event buffer must be allocated") }
        let count = unsafe epoll_wait(epoll, events, Int32(Self.readyLimit), timeoutMs)
        if count >= 0 { return Int(count) }
        // epoll_wait(2): EINTR is caused by a signal handler. EBADF, EFAULT and EINVAL are programming errors.
        precondition(errno == EINTR, "epoll_wait must not fail except with EINTR")
        return 0
    }

    private func deliverReady(_ count: Int) {
        for index in 0..<count {
            let event = unsafe ready[index]
            // There is no handler for the wake-up descriptor, or for one that was unregistered earlier in this turn.
            let handler = unsafe watched[Registration(number: event.data.u64)]?.handler
            handler?(Readiness(rawValue: unsafe event.events))
        }
    }

    private func deliverInbound() -> Bool {
        let isStopping = inbound.withLock { inbound in
            inbound.isAsleep = false
            swap(&inbound.bodies, &performing)
            return inbound.isStopping
        }
        for body in performing { body() }
        performing.removeAll(keepingCapacity: true)
        return isStopping
    }

    private func fireTimers() {
        let mark = timers.nextSequence
        while let body = timers.popDue(nowNs: now.monotonicNs, armedBefore: mark) { body() }
    }

    private func endTurn() {
        for body in turnEndBodies { body() }
        while !turnEnders.isEmpty {
            swap(&turnEnders, &turnEndersInTurn)
            for ender in turnEndersInTurn { ender.turnEnded() }
            turnEndersInTurn.removeAll(keepingCapacity: true)
        }
    }
}

package protocol TurnEnder: AnyObject {
    /// Called at the end of a turn, on the loop's thread.
    func turnEnded()
}
