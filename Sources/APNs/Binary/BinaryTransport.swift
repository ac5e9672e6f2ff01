package import EventLoop
package import Network
internal import PushRecords
package import PushTransport

/// Sends one app's notifications to a gateway that speaks Apple's binary provider protocol. Loop's thread.
///
/// <doc:BinaryGateway> says how its window works, and where its promise is weaker than that of HTTP/2.
package final class BinaryTransport: PooledTransport<BinaryConnection> {
    private var configuration: BinaryConfiguration
    private var admission: BinaryAdmission
    /// How long a gateway's silence must last, from when a notification has left, until it is acceptance.
    private(set) var windowNs: Int64

    /// Dials the first connections at once; with a minimum of 0, when something is to be sent.
    package init(
        app: AppIndex, configuration: BinaryConfiguration, loop: Loop, dialer: any ChannelDialer,
        random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.configuration = configuration
        admission = BinaryAdmission(most: configuration.window.notifications)
        windowNs = configuration.window.durationNs
        super.init(
            app: app, host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, maxAgeNs: configuration.maxAgeNs,
            backOff: configuration.backOff, loop: loop, dialer: dialer, random: random, emit: emit)
        start()
    }

    override func makeConnection(_ order: PooledConnection.DialOrder) -> BinaryConnection {
        BinaryConnection(order, configuration: configuration, transport: self)
    }

    // MARK: Commands

    /// A fence lets an answer, not silence, decide about the notifications on connections, if the protocol has one.
    override func didRecall(_ ids: Set<NotificationID>) {
        for connection in allConnections where connection.session.window.holds(anyOf: ids) {
            connection.fence()
            retired(connection, isFault: false)
        }
    }

    override func willClose() { for connection in allConnections { connection.fence() } }

    /// Replaces all connections by ones with this configuration. The old ones finish their requests. The backoff keeps
    /// the limits of the first configuration.
    package func replace(configuration: BinaryConfiguration) {
        loop.assertOnThread()
        guard !isClosing else { return }
        outbox.askForTurnEnd()
        // How late errors come is not forgotten for a certificate.
        if configuration.window != self.configuration.window { windowNs = configuration.window.durationNs }
        self.configuration = configuration
        admission = BinaryAdmission(most: configuration.window.notifications)
        // A gateway that was to prove itself is to do so still, which takes it no time.
        if !mustProve { reachability.replaced() }
        replaceConnections(
            host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, maxAgeNs: configuration.maxAgeNs)
        if mustProve { tell(.onProbation) }
    }

    // MARK: Sending

    override func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if plan.isAsleep { tell(.wanted) }
        let ready = connections.filter { $0.isReady }
        guard !ready.isEmpty else { return }
        let share = min(admission.limit, max(1, configuration.window.notifications / ready.count))
        let bytes = max(1, configuration.window.bytes / ready.count)
        for connection in ready where !queue.isEmpty { connection.fill(from: &queue, most: share, bytes: bytes) }
    }

    /// Suspects go over their own connection, one at a time: an end says which of them it was.
    private func dispatchSuspects() {
        guard !suspects.isEmpty else { return }
        if mustProve { return giveBackSuspects() }
        wantQuarantineConnection()
        guard let connection = quarantineConnection else { return }
        suspects.hand(unanswered: { connection.unanswered }) { queue, _ in
            connection.fill(from: &queue, most: 1, bytes: .max)
        }
    }

    // MARK: Whether the gateway reads

    /// What a gateway's kernel takes says nothing about its program: nothing is handed over before an answer shows that
    /// it reads, which a connection with nothing but a fence on it asks for.
    private var mustProve: Bool { reachability.isOnProbation && configuration.answersFence }

    /// One connection after the other came to nothing, or one was given up whose peer reads nothing: the others are
    /// asked for an answer, and so is the next one.
    private func demandProof() {
        tell(.onProbation)
        for connection in allConnections where connection.phase == .ready {
            connection.prove()
            retired(connection, isFault: true)
        }
    }

    // MARK: Reports of connections

    func connected(_ connection: BinaryConnection) {
        outbox.note(.connected(address: connection.address, streams: nil))
        opened(connection)
        if mustProve, !connection.isQuarantine { connection.prove() }
    }

    /// The silence of the gateway decided so many notifications, which shows that it works.
    func settled(_ connection: BinaryConnection, _ count: Int) {
        if !connection.isQuarantine { admission.settled(count) }
        works(connection)
    }

    /// The gateway decided `settled` notifications and discarded others. `isProof`: it reads what is sent.
    func answered(_ connection: BinaryConnection, settled: Int, discarded: Int, isProof: Bool) {
        if isProof { works(connection) }
        if !connection.isQuarantine { admission.settled(settled) }
        retired(connection, isFault: settled == 0 && !connection.session.wasAnswered)
        guard discarded > settled, !connection.isQuarantine else { return }
        admission.discarded()
        tell(.crowded)
    }

    private func works(_ connection: BinaryConnection) {
        connection.hasAnswered = true
        answered(connection)
    }

    /// An error named a notification that had closed as accepted, `ageNs` after it left, as far as that is known. The
    /// window becomes a quarter longer than that, or twice as long.
    func windowWasTooShort(ageNs: Int64?) {
        let longestNs = configuration.window.longestNs
        guard windowNs < longestNs else { return }
        windowNs = min(longestNs, max(windowNs, ageNs.map { $0 + $0 / 4 } ?? windowNs * 2))
        outbox.note(.windowLengthened(windowMs: windowNs / 1_000_000))
    }

    /// The connection is gone. `inDoubt`: so many at its end, unless that was the network's fault.
    func closed(_ connection: BinaryConnection, why: String, inDoubt: Int) {
        if !connection.isQuarantine {
            admission.ended(open: inDoubt, settled: connection.session.settledCount)
            if connection.isUnread { admission.unread() }
            // It works, and ends: more connections share what an end takes with it.
            if inDoubt > 0, connection.session.settledCount > 0 { tell(.crowded) }
        }
        let wasOnProbation = reachability.isOnProbation
        closed(connection, why: why)
        if mustProve, !wasOnProbation { demandProof() }
    }

    // MARK: The turn's end

    package override func turnEnded() {
        outbox.turnEnds()
        dispatchAndFlush()
        updateReach()
        let capacity = capacity
        if capacity == 0 { giveBackQueue() }
        // Every connection's peer reads too slowly.
        noticeSaturation(
            isFull: !queue.isEmpty && isAnyReady && connections.allSatisfy { $0.phase != .ready || $0.isBlocked })
        report(capacity: capacity, streams: takenAtOnce)
    }

    private var takenAtOnce: Int {
        min(admission.limit * connections.count(where: \.isReady), configuration.window.notifications)
    }

    private var capacity: Int {
        if isClosing || mustProve { return 0 }
        let leaving = leaving
        if isAnyReady { return leaving + (reachability.isOnProbation ? 1 : takenAtOnce) }
        if plan.isOnDemand { return leaving + min(Self.slackLimit, admission.limit) }
        // Notifications that an error discarded come back, and wait here for the successor.
        return awaitsSuccessor ? leaving + admission.limit : 0
    }
}
