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
package final class BinaryTransport: Transport, TurnEnder {
    private var configuration: BinaryConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private let outbox: Outbox
    private let pool: ConnectionPool<BinaryConnection>
    private var queue = RequestQueue()
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
        outbox = Outbox(app: app, loop: loop, emit: emit)
        pool = ConnectionPool(
            outbox: outbox, host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, backOff: configuration.backOff, loop: loop, random: random)
        outbox.start(for: self)
        pool.start { [unowned self] order in
            BinaryConnection(
                order, configuration: self.configuration, windowNs: patience.windowNs, dialer: dialer, loop: loop,
                outbox: outbox, report: take)
        }
    }

    // MARK: Commands

    package func handle(_ command: TransportCommand) {
        outbox.askForTurnEnd()
        switch command {
        case .send(let batch):
            for request in batch {
                if request.isSuspect {
                    pool.suspects.append(request)
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
        outbox.giveBack(queue.removeAll { ids.contains($0) } + pool.suspects.removeAll { ids.contains($0) })
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
        outbox.askForTurnEnd()
        // How late errors come is not forgotten for a certificate.
        if configuration.window != self.configuration.window {
            patience = BinaryPatience(configuration.window)
            setWindow()
        }
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
        pool.giveBackSuspects()
    }

    private func giveBackQueue() { outbox.giveBack(queue.removeAll { _ in true }) }

    // MARK: To the connections

    private func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if pool.plan.isAsleep { pool.tell(.wanted) }
        let ready = pool.connections.filter { $0.isReady }
        guard !ready.isEmpty else { return }
        let share = min(admission.limit, max(1, configuration.window.notifications / ready.count))
        let bytes = max(1, configuration.window.bytes / ready.count)
        for connection in ready where !queue.isEmpty { connection.fill(from: &queue, most: share, bytes: bytes) }
    }

    /// Suspects go over their own connection, one at a time: an end says which of them it was.
    private func dispatchSuspects() {
        guard !pool.suspects.isEmpty else { return }
        if pool.isClosing || mustProve { return pool.giveBackSuspects() }
        pool.tellQuarantine(.wanted)
        guard let connection = pool.quarantineConnection else { return }
        pool.suspects.hand(unanswered: { connection.open }) { queue, _ in
            connection.fill(from: &queue, most: 1, bytes: .max)
        }
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

    // MARK: What connections report

    private func take(_ connection: BinaryConnection, _ event: BinaryConnection.Event) {
        switch event {
        case .opened:
            outbox.note(.connected(address: connection.address, streams: nil))
            pool.opened(connection)
            if mustProve, !connection.isQuarantine { connection.prove() }
        case .settled(let count):
            if !connection.isQuarantine { admission.settled(count) }
            answered(connection)
        case .answered(let settled, let discarded, let isProof):
            if isProof { answered(connection) }
            if !connection.isQuarantine { admission.settled(settled) }
            pool.retired(connection, isFault: settled == 0 && !connection.wasAnswered)
            guard discarded > settled, !connection.isQuarantine else { return }
            admission.discarded()
            pool.tell(.crowded)
        case .windowTooShort(let ageNs):
            guard patience.wasTooShort(ageNs: ageNs) else { return }
            setWindow()
            outbox.note(.windowLengthened(windowMs: patience.windowNs / 1_000_000))
        case .idle: pool.idle(connection)
        case .closed(let end, let inDoubt): closed(connection, end, inDoubt: inDoubt)
        }
    }

    private func answered(_ connection: BinaryConnection) {
        connection.hasAnswered = true
        pool.answered(connection)
    }

    private func closed(_ connection: BinaryConnection, _ end: ChannelEnd, inDoubt: Int) {
        if !connection.isQuarantine {
            admission.ended(open: inDoubt, settled: connection.settledCount)
            if connection.isUnread { admission.unread() }
            // It works, and ends: more connections share what an end takes with it.
            if inDoubt > 0, connection.settledCount > 0 { pool.tell(.crowded) }
        }
        let wasOnProbation = pool.reachability.isOnProbation
        pool.closed(connection, why: end.text) { connection.judge(&$0) }
        if mustProve, !wasOnProbation { demandProof() }
    }

    private func setWindow() {
        for connection in pool.allConnections { connection.windowNs = patience.windowNs }
    }

    // MARK: The turn's end

    package func turnEnded() {
        outbox.turnEnds()
        dispatch()
        pool.flush()
        // Writing made room again.
        dispatch()
        pool.flush()
        if pool.isReachStale { pool.updateReach() }
        let capacity = capacity
        if capacity == 0 { giveBackQueue() }
        noticeSaturation()
        _ = pool.report(capacity: capacity, streams: takenAtOnce)
    }

    private var takenAtOnce: Int {
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
        return pool.plan.failures == 0 && pool.plan.live > 0 && pool.isToldReachable ? leaving + admission.limit : 0
    }

    /// Grows the pool when every connection's peer reads too slowly while this thread has time to spare.
    private func noticeSaturation() {
        pool.noticeSaturation(
            isFull: !queue.isEmpty && pool.connections.allSatisfy { $0.phase != .ready || $0.isBlocked }
                && pool.isAnyReady)
    }
}
