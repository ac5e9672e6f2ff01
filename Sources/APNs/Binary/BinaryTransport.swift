package import EventLoop
package import Network
internal import PushRecords
package import PushTransport

/// Sends one app's notifications to a gateway of Apple's binary provider protocol. Used on the loop's thread only.
///
/// <doc:BinaryGateway> explains the resend window, and which guarantees are weaker than over HTTP/2.
package final class BinaryTransport: PooledTransport<BinaryConnection> {
    private var configuration: BinaryConfiguration
    private var admission: BinaryAdmission
    /// How long the gateway must stay silent until a notification counts as accepted. Late errors increase this time.
    private(set) var windowNs: Int64

    /// Dials the first connections immediately or, with a minimum of 0, when there is a request to send.
    package init(
        app: AppIndex, configuration: BinaryConfiguration, loop: Loop, dialer: any ChannelDialer,
        random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.configuration = configuration
        admission = BinaryAdmission(most: configuration.window.notifications)
        windowNs = configuration.window.durationNs
        super.init(app: app, configuration.connections, loop: loop, dialer: dialer, random: random, emit: emit)
        start()
    }

    override func makeConnection(_ order: PooledConnection.DialOrder) -> BinaryConnection {
        BinaryConnection(order, configuration: configuration, transport: self)
    }

    // MARK: Commands

    /// Drains each connection with recalled notifications, with a fence if possible. After a fence, only the gateway's
    /// answer determines the outcome of the open notifications, and none of them is presumed accepted.
    override func didRecall(_ ids: Set<NotificationID>) {
        for connection in allConnections where connection.session.window.holds(anyOf: ids) {
            connection.fence()
            retired(connection, isFault: false)
        }
    }

    override func willClose() { for connection in allConnections { connection.fence() } }

    /// Replaces all connections with new ones that use this configuration. The old connections finish their requests.
    /// The backoff limits of the first configuration remain in effect.
    package func replace(configuration: BinaryConfiguration) {
        loop.assertOnThread()
        guard !isClosing else { return }
        outbox.askForTurnEnd()
        // A new certificate does not reset a window that late errors have lengthened.
        if configuration.window != self.configuration.window { windowNs = configuration.window.durationNs }
        self.configuration = configuration
        admission = BinaryAdmission(most: configuration.window.notifications)
        // A gateway on probation stays on probation. The next connection sends a fence, and the gateway's answer to it
        // ends the probation.
        if !mustProve { reachability.replaced() }
        replaceConnections(configuration.connections)
        if mustProve { tell(.mustProve) }
    }

    // MARK: Sending

    override func dispatch() {
        if mustProve { giveBackSuspects() }
        // Send one suspect at a time. If the connection ends, this suspect is probably the cause.
        dispatchSuspects { connection, queue, _ in connection.fill(from: &queue, most: 1, bytes: .max) }
        guard !queue.isEmpty else { return }
        if plan.isAsleep { tell(.wanted) }
        let ready = connections.filter { $0.isReady }
        guard !ready.isEmpty else { return }
        let share = min(admission.limit, max(1, configuration.window.notifications / ready.count))
        let bytes = max(1, configuration.window.bytes / ready.count)
        for connection in ready where !queue.isEmpty { connection.fill(from: &queue, most: share, bytes: bytes) }
    }

    // MARK: Probation

    /// Whether requests wait until the gateway answers a fence, which shows that its program reads from the connection.
    /// Until then, connections send only fences. Acknowledgements of the gateway's kernel do not show that its program
    /// reads.
    private var mustProve: Bool { reachability.isOnProbation && configuration.answersFence }

    /// Sends a fence on each ready connection, and replaces the connection. `connected` sends a fence on the next one.
    /// Called after several connections ended without an answer, or after a peer stopped reading.
    private func demandProof() {
        tell(.mustProve)
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

    /// Records that `count` notifications were presumed accepted, which shows that the gateway works.
    func settled(_ connection: BinaryConnection, _ count: Int) {
        if !connection.isQuarantine { admission.settled(count) }
        works(connection)
    }

    /// Records an answer of the gateway: `settled` notifications were processed, and `discarded` were not. `isProof` is
    /// whether the answer shows that the gateway's program reads.
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

    /// Lengthens the window to a quarter more than `ageNs`, or doubles it if `ageNs` is `nil`, up to the configured
    /// maximum. Called when an error named a notification that had been presumed accepted. `ageNs` is the time from the
    /// acknowledgement of the notification's bytes to the error.
    func windowWasTooShort(ageNs: Int64?) {
        let longestNs = configuration.window.longestNs
        guard windowNs < longestNs else { return }
        windowNs = min(longestNs, max(windowNs, ageNs.map { $0 + $0 / 4 } ?? windowNs * 2))
        outbox.note(.windowLengthened(windowMs: windowNs / 1_000_000))
    }

    /// Removes a closed connection. `inDoubt` is the number of notifications in doubt, or 0 if the connection was given
    /// up because the gateway had stopped reading or had not answered a fence.
    func closed(_ connection: BinaryConnection, why: String, inDoubt: Int) {
        if !connection.isQuarantine {
            admission.ended(open: inDoubt, settled: connection.session.settledCount)
            if connection.isUnread { admission.unread() }
            // The gateway works but closes connections. With more connections, each close affects fewer notifications.
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
        // More connections help if the gateway reads too slowly on all ready connections.
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
        // Report capacity for discarded notifications: the delivery machine sends them again, and the transport queues
        // them until the next connection is ready.
        return awaitsSuccessor ? leaving + admission.limit : 0
    }
}
