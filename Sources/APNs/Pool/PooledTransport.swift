internal import EventLoop
internal import Network
internal import PushRecords
package import PushTransport

/// Sends the notifications of one app to Apple: the base of both transports. Loop's thread.
///
/// Two `PoolPlan`s decide which connections there are, `Reachability` what their ends mean for the host.
/// Every request of `TransportCommand.send` gets exactly one completion. `close` is answered by
/// `TransportEvent.closed`, until which the transport keeps itself alive.
package class PooledTransport<Connection: PooledConnection>: TurnEnder {
    final let loop: Loop
    final let dialer: any ChannelDialer
    final let outbox: Outbox
    final var queue = RequestQueue()
    final var suspects = SuspectQueue()
    private(set) final var connections: [Connection] = []
    private(set) final var quarantineConnection: Connection?
    private(set) final var plan: PoolPlan
    final var reachability = Reachability()
    private(set) final var isClosing = false
    private(set) final var reportedCapacity = 0
    /// The last reachability that was reported, or `nil` before the first report.
    private(set) final var reportedReachable: Bool?

    private final var host: String
    /// How long a connection may be open, or 0 for any time.
    private final var maxAgeNs: Int64
    private final var random: any RandomNumberGenerator
    private final var wakeAlarm: Alarm?
    private final var quarantinePlan: PoolPlan
    private final var quarantineAlarm: Alarm?
    private final var replacements = 0
    private final var isClosed = false
    private final var reportedConnections = ConnectionCounts()
    private final var refusals: [ReasonCode] = []
    private final var saturation = Saturation()

    /// The longest pause after the quarantine connection died while the host answers others: then its suspects are what
    /// ends it, and each of them is tried a few times only.
    private static var deathWaitNs: Int64 { 4_000_000_000 }

    /// Requests that may wait here beyond the streams there are: the next ones while a completion travels.
    static var slackLimit: Int { 128 }

    /// - Parameter emit: gets the turn's events at its end: refusals of the credential, completions, then the others.
    init(
        app: AppIndex, host: String, minimum: Int, maximum: Int, maxAgeNs: Int64, backOff: BackOff.Limits, loop: Loop,
        dialer: any ChannelDialer, random: any RandomNumberGenerator, emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.host = host
        self.maxAgeNs = maxAgeNs
        self.loop = loop
        self.dialer = dialer
        self.random = random
        outbox = Outbox(app: app, loop: loop, emit: emit)
        plan = PoolPlan(minimum: minimum, maximum: maximum, backOff: BackOff(limits: backOff))
        quarantinePlan = PoolPlan(minimum: 0, maximum: 1, isOfQuarantine: true, backOff: BackOff(limits: backOff))
        quarantineAlarm = Alarm(loop: loop) { [unowned self] in tell(.due, ofQuarantine: true) }
        wakeAlarm = Alarm(loop: loop) { [unowned self] in tell(.due) }
    }

    /// Dials the first connections; with a minimum of 0, the first is dialled when something is to be sent.
    final func start() {
        outbox.transport = self
        tell(.due)
    }

    // MARK: What each protocol has its own of

    func makeConnection(_ order: PooledConnection.DialOrder) -> Connection { preconditionFailure("overridden") }
    func dispatch() { preconditionFailure("overridden") }
    /// Partitions go to another worker: called when what waits here was given back.
    func didRecall(_ ids: Set<NotificationID>) {}
    /// Called before the connections drain for good.
    func willClose() {}
    package func turnEnded() { preconditionFailure("overridden") }

    // MARK: Commands

    package final func handle(_ command: TransportCommand) {
        outbox.askForTurnEnd()
        switch command {
        case .send(let batch):
            if batch.contains(where: \.isSuspect) {
                queue.append(contentsOf: batch.filter { !$0.isSuspect })
                for request in batch where request.isSuspect { suspects.append(request) }
            } else {
                queue.append(contentsOf: batch)
            }
            if isClosing { giveBackAll() } else { dispatch() }
        case .recall(let ids):
            let ids = Set(ids)
            outbox.giveBack(queue.removeAll { ids.contains($0) } + suspects.removeAll { ids.contains($0) })
            didRecall(ids)
        case .close:
            giveBackAll()
            willClose()
            isClosing = true
            tell(.close, ofQuarantine: true)
            tell(.close)
        }
    }

    /// Replaces all connections by ones with the present configuration. Requests wait for the first of them.
    final func replaceConnections(host: String, minimum: Int, maximum: Int, maxAgeNs: Int64) {
        self.host = host
        self.maxAgeNs = maxAgeNs
        replacements += 1
        for connection in allConnections { connection.isSuperseded = true }
        tell(.replace(minimum: 0, maximum: 1), ofQuarantine: true)
        tell(.replace(minimum: minimum, maximum: maximum))
    }

    final func giveBackQueue() { outbox.giveBack(queue.removeAll { _ in true }) }

    /// The quarantine connection cannot be made, or must not be used: what waits for it was not processed.
    final func giveBackSuspects() { outbox.giveBack(suspects.removeAll { _ in true }) }

    private final func giveBackAll() {
        giveBackQueue()
        giveBackSuspects()
    }

    // MARK: The plans

    final func tell(_ event: PoolPlan.Event, ofQuarantine isQuarantine: Bool = false) {
        outbox.askForTurnEnd()
        quarantinePlan.longestWaitNs = reachability.isOnProbation ? .max : Self.deathWaitNs
        let actions =
            isQuarantine ? quarantinePlan.handle(event, using: &random) : plan.handle(event, using: &random)
        for action in actions {
            switch action {
            case .dial(let id) where isQuarantine: quarantineConnection = make(id, isQuarantine: true)
            case .dial(let id): connections.append(make(id, isQuarantine: false))
            case .drain(let id):
                let connection = allConnections.first { $0.id == id && $0.isQuarantine == isQuarantine }
                if case .idle = event { connection?.isUnused = true }
                connection?.drain()
            case .wake(let afterNs): (isQuarantine ? quarantineAlarm : wakeAlarm)?.set(afterNs: afterNs)
            }
        }
    }

    private final func tell(_ event: PoolPlan.Event, of connection: Connection) {
        tell(event, ofQuarantine: connection.isQuarantine)
    }

    /// Has the quarantine connection dialled for suspects that wait, unless it is there.
    final func wantQuarantineConnection() {
        if quarantineConnection == nil, quarantinePlan.isAsleep { tell(.wanted, ofQuarantine: true) }
    }

    private final func make(_ id: PoolPlan.ConnectionID, isQuarantine: Bool) -> Connection {
        // Spread, so that connections that were made together are not renewed together.
        let lifetimeNs =
            maxAgeNs > 0 ? Int64.random(in: (maxAgeNs - maxAgeNs / 4)...maxAgeNs, using: &random) : Int64.max
        return makeConnection(
            PooledConnection.DialOrder(
                id: id, isQuarantine: isQuarantine, replacements: replacements, lifetimeNs: lifetimeNs))
    }

    final var allConnections: [Connection] { connections + (quarantineConnection.map { [$0] } ?? []) }

    final var isAnyReady: Bool { connections.contains(where: \.isReady) }

    /// Moves these behind the others: they are handed what is left over.
    final func putLast(_ last: [Connection]) {
        connections = connections.filter { connection in !last.contains { $0 === connection } } + last
    }

    // MARK: Reports of connections

    final func opened(_ connection: Connection) {
        if !connection.isQuarantine, !connection.isSuperseded { reachability.connected() }
        tell(.opened(connection.id), of: connection)
    }

    /// Something sent over the connection was answered for the first time: the host is of use.
    final func answered(_ connection: Connection) {
        // An answer to the old credential tells nothing about the new one.
        guard !connection.isSuperseded else { return }
        if !connection.isQuarantine { reachability.answered() }
        tell(.answered(connection.id), of: connection)
    }

    /// The connection was answered before and is answered again, while others may fail: the host is of use. The backoff
    /// stays as it is, or one bad way among good ones is tried again and again.
    final func wentOn(_ connection: Connection) {
        guard reachability.endsInRow > 0, connection.isReady, !connection.isQuarantine, !connection.isSuperseded else {
            return
        }
        reachability.answered()
        outbox.askForTurnEnd()
    }

    final func retired(_ connection: Connection, isFault: Bool) {
        tell(.retired(connection.id, isFault: isFault), of: connection)
    }

    /// The connection is old: another one is dialled, and takes its place once it is ready.
    final func aged(_ connection: Connection) {
        if connection.isQuarantine { return retired(connection, isFault: false) }
        tell(.aged(connection.id))
    }

    /// APNs refused the credential by a GOAWAY or a TLS alert.
    final func credentialRefused(_ reason: ReasonCode) {
        outbox.askForTurnEnd()
        if !refusals.contains(reason) { refusals.append(reason) }
    }

    final func idle(_ connection: Connection) {
        // The host is to answer first: a pool that sleeps would not find out.
        if !connection.isQuarantine, reachability.isOnProbation { return }
        // What is known of the suspects that the connection died under is of no use any more.
        if connection.isQuarantine { suspects.forget() }
        tell(.idle(connection.id), of: connection)
    }

    /// The connection is gone, or could not be made. `why` is for people.
    final func closed(_ connection: Connection, why: String) {
        outbox.askForTurnEnd()
        if connection.isCertificateRefused, !connection.isSuperseded { credentialRefused(.badCertificate) }
        if connection.isQuarantine {
            let failures = quarantinePlan.failures
            quarantineConnection = nil
            tell(.closed(connection.id), of: connection)
            if !isClosing, quarantinePlan.failures > failures, !connection.wasReady {
                giveBackSuspects()
                noteFailure(why, of: connection, retryInNs: quarantinePlan.lastWaitNs)
            }
            return
        }
        connections.removeAll { $0 === connection }
        let failures = plan.failures
        tell(.closed(connection.id))
        guard !isClosing else { return }
        var reason = plan.failures > failures && !connection.wasReady ? why : nil
        // A host that refuses the certificate is there, and its answer is about the credential.
        if !connection.isSuperseded, !connection.isCertificateRefused, !connection.isUnused {
            if connection.wasReady {
                connection.judge(&reachability)
                if reachability.isOnProbation { reason = reachability.why(last: why) }
            } else {
                reachability.failed(isAnotherReady: isAnyReady)
            }
        }
        if let reason { noteFailure(reason, of: connection, retryInNs: plan.lastWaitNs) }
    }

    private final func noteFailure(_ reason: String, of connection: Connection, retryInNs: Int64) {
        outbox.note(
            connection.isCertificateRefused
                ? .credentialFault(reason: reason)
                : .connectFailed(host: host, reason: reason, retryInMs: retryInNs / 1_000_000))
    }

    // MARK: The turn's end

    /// Hands waiting requests over and has connections write what the turn gathered.
    final func dispatchAndFlush() {
        for _ in 0..<2 {
            dispatch()
            // Writing makes room again, which the second round uses.
            for connection in connections where connection.isDirty { connection.flush() }
            if let quarantineConnection, quarantineConnection.isDirty { quarantineConnection.flush() }
        }
    }

    final func updateReach() {
        guard let isReachable = reachability.isReachable, reportedReachable != isReachable else { return }
        reportedReachable = isReachable
        outbox.append(.reachable(app: outbox.app, isReachable))
    }

    /// Grows the pool when all connections stay full while this thread has time to spare.
    final func noticeSaturation(isFull: Bool) {
        let endNs = loop.readClock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }

    /// No connection is ready, and the next one is being made, after nothing failed: requests go on waiting for it.
    final var awaitsSuccessor: Bool { !isAnyReady && plan.failures == 0 && plan.live > 0 && reportedReachable == true }

    /// Requests on draining connections: they count as outstanding, and take no room of the other connections.
    final var leaving: Int { connections.reduce(0) { $1.phase == .draining ? $0 + $1.unanswered : $0 } }

    /// Emits what the turn brought; returns whether all is closed, so that nothing follows. Refusals of the credential
    /// come first, so that nothing is sent again with it.
    @discardableResult
    final func report(capacity: Int, streams: Int) -> Bool {
        let first = refusals.map { TransportEvent.credentialRefused(app: outbox.app, reason: $0) }
        refusals = []
        var last: [TransportEvent] = []
        if capacity != reportedCapacity {
            reportedCapacity = capacity
            last.append(.capacity(app: outbox.app, requests: capacity))
        }
        var counts = plan.counts
        counts.dialing += quarantinePlan.counts.dialing
        counts.open += quarantinePlan.counts.open
        counts.draining += quarantinePlan.counts.draining
        counts.streams = streams
        if counts != reportedConnections {
            reportedConnections = counts
            last.append(.connections(app: outbox.app, counts))
        }
        let isOver = plan.isFinished && quarantinePlan.isFinished && !isClosed
        if isOver {
            isClosed = true
            wakeAlarm = nil
            quarantineAlarm = nil
            last.append(.closed(app: outbox.app))
        }
        outbox.send(first: first, last: last)
        return isOver
    }
}
