package import EventLoop
package import Network
internal import PushRecords
package import PushTransport

/// Sends one app's notifications to a gateway that speaks Apple's binary provider protocol: a pool of connections on
/// one loop. Loop's thread.
///
/// Every request of `TransportCommand.send` is answered by exactly one completion. What its promise lacks beside
/// HTTP/2's, and how its window works: <doc:BinaryGateway>. It keeps itself and its connections alive until `close` was
/// answered by `TransportEvent.closed`.
package final class BinaryTransport: Transport, BinaryConnectionOwner, ConnectionPoolOwner {
    private var configuration: BinaryConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private let pool: ConnectionPool<BinaryTransport>
    private var queue = RequestQueue()
    private var suspects = RequestQueue()
    private var admission: BinaryAdmission
    /// As lengthened, where errors came late.
    private var patience: BinaryPatience

    /// Requests that may wait for the first connection of a pool that is asleep.
    private static let slackLimit = 128

    /// Dials the first connections at once; with a minimum of 0, when something is to be sent.
    ///
    /// - Parameters:
    ///   - dialer: opens the channels of its connections, on the loop.
    ///   - random: decides how long it is waited after a failure, within limits.
    ///   - emit: called at the end of a turn, on the loop's thread, with that turn's events: completions, then the
    ///     others.
    package init(
        app: AppIndex, configuration: BinaryConfiguration, loop: Loop, dialer: any ChannelDialer,
        random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.configuration = configuration
        self.loop = loop
        self.dialer = dialer
        admission = BinaryAdmission(most: configuration.window.notifications)
        patience = BinaryPatience(configuration.window)
        pool = ConnectionPool(
            app: app, host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, backOff: configuration.backOff, loop: loop,
            random: random, emit: emit)
        pool.start(for: self)
    }

    // MARK: Commands

    package func handle(_ command: TransportCommand) {
        pool.askForTurnEnd()
        switch command {
        case .send(let batch):
            for request in batch {
                if request.isSuspect {
                    suspects.append(contentsOf: CollectionOfOne(request))
                } else {
                    queue.append(contentsOf: CollectionOfOne(request))
                }
            }
            if pool.isClosing { giveBackAll() }
        case .recall(let ids): recall(Set(ids))
        case .close:
            giveBackAll()
            for connection in pool.allConnections { connection.fence() }
            pool.close()
        }
    }

    /// Partitions go to another worker: what waits here is given back, and what is on connections is decided by an
    /// answer, where the protocol has one, not by silence.
    private func recall(_ ids: Set<NotificationID>) {
        pool.giveBack(queue.removeAll { ids.contains($0) } + suspects.removeAll { ids.contains($0) })
        for connection in pool.allConnections where connection.holds(anyOf: ids) {
            connection.fence()
            pool.retired(connection, isFault: false)
        }
    }

    /// Makes all connections anew, with this configuration from now on: another credential, host or window. The old
    /// ones take no more requests and finish what is on them. Loop's thread.
    ///
    /// The back-off's limits stay those of the first configuration.
    package func replace(configuration: BinaryConfiguration) {
        loop.assertOnThread()
        guard !pool.isClosing else { return }
        pool.askForTurnEnd()
        // How late errors come is not forgotten for a certificate.
        if configuration.window != self.configuration.window { patience = BinaryPatience(configuration.window) }
        self.configuration = configuration
        pool.host = configuration.host
        admission = BinaryAdmission(most: configuration.window.notifications)
        // One that was to prove itself is to do so still, which takes it no time.
        if !mustProve { pool.reachability.replaced() }
        pool.replaceConnections(minimum: configuration.minimumConnections, maximum: configuration.maximumConnections)
        if mustProve { pool.tell(.onProbation) }
    }

    private func giveBackAll() {
        giveBackQueue()
        giveBackSuspects()
    }

    private func giveBackQueue() { pool.giveBack(queue.removeAll { _ in true }) }

    // MARK: To the connections

    private func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if pool.plan.isAsleep { pool.tell(.wanted) }
        let ready = pool.connections.filter { $0.phase == .ready }
        guard !ready.isEmpty else { return }
        let share = min(admission.limit, max(1, configuration.window.notifications / ready.count))
        let bytes = max(1, configuration.window.bytes / ready.count)
        for connection in ready where !queue.isEmpty { connection.fill(from: &queue, most: share, bytes: bytes) }
    }

    /// Suspects go over their own connection, one at a time: an end says which of them it was.
    private func dispatchSuspects() {
        guard !suspects.isEmpty else { return }
        if pool.isClosing || mustProve { return giveBackSuspects() }
        pool.tellQuarantine(.wanted)
        pool.quarantineConnection?.fill(from: &suspects, most: 1, bytes: .max)
    }

    // MARK: Whether the gateway reads

    /// What a gateway's kernel takes says nothing about its program: nothing is handed over before an answer shows that
    /// it reads, which a connection with nothing but a fence on it asks for.
    private var mustProve: Bool { pool.reachability.isOnProbation && configuration.answersFence }

    /// One connection after the other came to nothing, or one was given up whose peer reads nothing: the others are
    /// asked for an answer, and so is the next one.
    private func demandProof() {
        pool.tell(.onProbation)
        for connection in pool.allConnections where connection.phase == .ready {
            connection.prove()
            pool.retired(connection, isFault: true)
        }
    }

    // MARK: The pool

    func dial(_ id: PoolPlan.ConnectionID, firstAddress: Int, isQuarantine: Bool) -> BinaryConnection {
        BinaryConnection(
            id: id, firstAddress: firstAddress, isQuarantine: isQuarantine, configuration: configuration,
            dialer: dialer,
            loop: loop, owner: self)
    }

    func giveBackSuspects() { pool.giveBack(suspects.removeAll { _ in true }) }

    func forgetSuspects() {}

    func reachMayHaveChanged() { pool.sayReach() }

    var credentialGeneration: Int { pool.credentialGeneration }

    func connectionOpened(_ connection: BinaryConnection) {
        note(.connected(address: connection.address, streams: nil))
        pool.opened(connection)
        if mustProve, !connection.isQuarantine { connection.prove() }
    }

    func connectionSettled(_ connection: BinaryConnection, _ count: Int) {
        if !connection.isQuarantine { admission.settled(count) }
        answered(connection)
    }

    func connectionAnswered(_ connection: BinaryConnection, settled: Int, discarded: Int, isProof: Bool) {
        if isProof { answered(connection) }
        if !connection.isQuarantine { admission.settled(settled) }
        pool.retired(connection, isFault: settled == 0 && !connection.wasAnswered)
        guard discarded > settled, !connection.isQuarantine else { return }
        admission.discarded()
        pool.tell(.crowded)
    }

    private func answered(_ connection: BinaryConnection) {
        connection.hasAnswered = true
        pool.answered(connection)
    }

    func connectionIdle(_ connection: BinaryConnection) { pool.idle(connection) }

    func connectionIsDirty(_ connection: BinaryConnection) { pool.becameDirty(connection) }

    func connectionClosed(_ connection: BinaryConnection, _ end: ChannelEnd, inDoubt: Int) {
        if !connection.isQuarantine {
            admission.ended(open: inDoubt, settled: connection.settledCount)
            if connection.isUnread { admission.unread() }
            // It works, and ends: more connections share what an end takes with it.
            if inDoubt > 0, connection.settledCount > 0 { pool.tell(.crowded) }
        }
        let wasOnProbation = pool.reachability.isOnProbation
        pool.closed(connection, why: end.text) { connection.note(itsEndIn: &pool.reachability) }
        if mustProve, !wasOnProbation { demandProof() }
    }

    func completed(_ completion: Completion) { pool.completed(completion) }

    func text(_ text: String) -> Int32 { pool.text(text) }

    func note(_ note: TransportNote) { pool.note(note) }

    // MARK: The window

    var windowNs: Int64 { patience.windowNs }

    func windowWasTooShort(ageNs: Int64?) {
        guard patience.wasTooShort(ageNs: ageNs) else { return }
        note(.windowLengthened(windowMs: windowNs / 1_000_000))
    }

    // MARK: The turn's end

    package func turnEnded() {
        pool.turnEnded()
        dispatch()
        pool.flush()
        // Writing made room again.
        dispatch()
        pool.flush()
        let capacity = capacity
        if capacity == 0 { giveBackQueue() }
        noticeSaturation()
        _ = pool.report(capacity: capacity)
    }

    var takenAtOnce: Int {
        min(admission.limit * pool.connections.count(where: \.isReady), configuration.window.notifications)
    }

    /// How many requests may be undecided at once.
    private var capacity: Int {
        if pool.isClosing || mustProve { return 0 }
        // What a connection that leaves has open counts as outstanding, and takes nothing of the others.
        let leaving = pool.connections.reduce(0) { $1.phase == .draining ? $0 + $1.open : $0 }
        if pool.isAnyReady { return leaving + (pool.reachability.isOnProbation ? 1 : takenAtOnce) }
        if pool.plan.isOnDemand { return leaving + min(Self.slackLimit, admission.limit) }
        if pool.isReplacing { return pool.reportedCapacity }
        // Between an error and the next connection, which is being made: what was discarded comes back, and waits here.
        return pool.plan.failures == 0 && pool.plan.live > 0 && pool.isSaidReachable ? leaving + admission.limit : 0
    }

    /// Grows the pool when every connection's peer reads too slowly while this thread has time to spare.
    private func noticeSaturation() {
        pool.noticeSaturation(
            isFull: !queue.isEmpty && pool.connections.allSatisfy { $0.phase != .ready || $0.isBlocked }
                && pool.isAnyReady)
    }
}
