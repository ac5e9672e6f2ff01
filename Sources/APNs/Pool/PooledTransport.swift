internal import EventLoop
internal import Network
internal import PushRecords
package import PushTransport

/// The base class of the HTTP/2 and binary transports, which send the notifications of one app. Used on the loop's
/// thread only.
///
/// Two `PoolPlan`s decide which connections exist. `Reachability` judges by how connections end whether the host works.
/// Every request of `TransportCommand.send` gets exactly one completion. After `close` and the last completion, the
/// transport emits `TransportEvent.closed`. The owner must keep the transport until then.
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

    private final var settings: ConnectionSettings
    private final var random: any RandomNumberGenerator
    private final var wakeAlarm: Alarm?
    private final var quarantinePlan: PoolPlan
    private final var quarantineAlarm: Alarm?
    private final var replacements = 0
    private final var isClosed = false
    private final var reportedConnections = ConnectionCounts()
    private final var refusals: [ReasonCode] = []
    private final var saturation = Saturation()

    /// The longest pause before the quarantine connection is dialed again after a loss, while the host answers other
    /// connections. A longer backoff is not needed: the suspects probably cause these losses, and each suspect is sent
    /// only a few times.
    private static var deathWaitNs: Int64 { 4_000_000_000 }

    /// The maximum number of requests that may wait in the transport beyond the available streams. They use the streams
    /// that become free before the owner has processed the completions and sent further requests.
    static var slackLimit: Int { 128 }

    /// - Parameter emit: receives the events at the end of a turn: refusals of the credential, completions, then the
    ///   other events.
    init(
        app: AppIndex, _ settings: ConnectionSettings, loop: Loop, dialer: any ChannelDialer,
        random: any RandomNumberGenerator, emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.settings = settings
        self.loop = loop
        self.dialer = dialer
        self.random = random
        outbox = Outbox(app: app, loop: loop, emit: emit)
        let backOff = BackOff(limits: settings.backOff)
        plan = PoolPlan(minimum: settings.minimum, maximum: settings.maximum, backOff: backOff)
        quarantinePlan = PoolPlan(minimum: 0, maximum: 1, isOfQuarantine: true, backOff: backOff)
        quarantineAlarm = Alarm(loop: loop) { [unowned self] in tell(.due, ofQuarantine: true) }
        wakeAlarm = Alarm(loop: loop) { [unowned self] in tell(.due) }
    }

    /// Dials the first connections or, with a minimum of 0, the first one when there is a request to send.
    final func start() {
        outbox.transport = self
        tell(.due)
    }

    // MARK: Overridden by each protocol

    func makeConnection(_ order: PooledConnection.DialOrder) -> Connection {
        preconditionFailure("A subclass must override makeConnection(_:)")
    }
    func dispatch() { preconditionFailure("A subclass must override dispatch()") }
    /// Handles a recall. The recalled requests that waited for a connection are already completed as not processed.
    func didRecall(_ ids: Set<NotificationID>) {}
    /// Called by `close`, before all connections drain and close.
    func willClose() {}
    package func turnEnded() { preconditionFailure("A subclass must override turnEnded()") }

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

    /// Replaces all connections with new ones that use these settings. Waiting requests are sent on the first new
    /// connection.
    final func replaceConnections(_ settings: ConnectionSettings) {
        self.settings = settings
        replacements += 1
        for connection in allConnections { connection.isSuperseded = true }
        tell(.replace(minimum: 0, maximum: 1), ofQuarantine: true)
        tell(.replace(minimum: settings.minimum, maximum: settings.maximum))
    }

    final func giveBackQueue() { outbox.giveBack(queue.removeAll { _ in true }) }

    /// Completes the waiting suspects as not processed.
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

    /// Passes suspects to the quarantine connection by calling `fill`. Dials that connection if there is none.
    final func dispatchSuspects(_ fill: (Connection, inout RequestQueue, _ most: Int) -> Void) {
        guard !suspects.isEmpty else { return }
        if quarantineConnection == nil, quarantinePlan.isAsleep { tell(.wanted, ofQuarantine: true) }
        guard let connection = quarantineConnection, connection.isReady else { return }
        suspects.hand(unanswered: { connection.unanswered }) { fill(connection, &$0, $1) }
    }

    private final func make(_ id: PoolPlan.ConnectionID, isQuarantine: Bool) -> Connection {
        // The lifetimes are random, so that connections that were opened together are not replaced together.
        let maxAgeNs = settings.maxAgeNs
        let lifetimeNs =
            maxAgeNs > 0 ? Int64.random(in: (maxAgeNs - maxAgeNs / 4)...maxAgeNs, using: &random) : Int64.max
        return makeConnection(
            PooledConnection.DialOrder(
                id: id, isQuarantine: isQuarantine, replacements: replacements, lifetimeNs: lifetimeNs))
    }

    final var allConnections: [Connection] { connections + (quarantineConnection.map { [$0] } ?? []) }

    final var host: String { settings.target.host }

    final var isAnyReady: Bool { connections.contains(where: \.isReady) }

    /// Moves these connections to the end of the order, where they get only requests that the others cannot take.
    final func putLast(_ last: [Connection]) {
        connections = connections.filter { connection in !last.contains { $0 === connection } } + last
    }

    // MARK: Reports of connections

    final func opened(_ connection: Connection) {
        if !connection.isQuarantine, !connection.isSuperseded { reachability.connected() }
        tell(.opened(connection.id), of: connection)
    }

    /// Records an answer that shows that the host works, and resets the backoff.
    final func answered(_ connection: Connection) {
        // An answer on a connection with the old credential does not show whether the new one works.
        guard !connection.isSuperseded else { return }
        if !connection.isQuarantine { reachability.answered() }
        tell(.answered(connection.id), of: connection)
    }

    /// Records a later answer on an HTTP/2 connection. The host works, but the backoff is not reset, because one
    /// bad address among good ones would otherwise be dialed at a high rate.
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

    /// Reports to the plan that a connection without open requests (`isEmpty`) has been idle for `idleNs`, or that a
    /// connection has reached its age limit. At that limit, the old connection is used until its replacement is ready.
    final func checkTimes(of connection: Connection, isEmpty: Bool, idleNs: Int64) {
        let nowNs = loop.now.monotonicNs
        if connection.isReady, isEmpty, nowNs - connection.lastUsedNs >= idleNs {
            // If the plan keeps the connection, the idle time starts again.
            connection.lastUsedNs = nowNs
            idle(connection)
        }
        guard connection.isReady, nowNs >= connection.retirementNs else { return }
        connection.retirementNs = .max
        if connection.isQuarantine { return retired(connection, isFault: false) }
        tell(.aged(connection.id))
    }

    /// Records that APNs refused the credential by a GOAWAY or a TLS alert.
    final func credentialRefused(_ reason: ReasonCode) {
        outbox.askForTurnEnd()
        if !refusals.contains(reason) { refusals.append(reason) }
    }

    private final func idle(_ connection: Connection) {
        // An idle pool does not sleep while the host is on probation, because a sleeping pool would not notice that the
        // host works again.
        if !connection.isQuarantine, reachability.isOnProbation { return }
        // No suspect is in flight or waits, so those of an earlier lost connection have been answered or given back.
        if connection.isQuarantine { suspects.forget() }
        tell(.idle(connection.id), of: connection)
    }

    /// Removes a connection that closed or could not be opened. `why` is text for log lines.
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
        // A host that refuses the certificate is reachable, and its refusal concerns the credential.
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

    /// Hands waiting requests to connections, and makes connections write the turn's output.
    final func dispatchAndFlush() {
        for _ in 0..<2 {
            dispatch()
            // Writing frees buffer space, which the second round of dispatching uses.
            for connection in connections where connection.isDirty { connection.flush() }
            if let quarantineConnection, quarantineConnection.isDirty { quarantineConnection.flush() }
        }
    }

    final func updateReach() {
        guard let isReachable = reachability.isReachable, reportedReachable != isReachable else { return }
        reportedReachable = isReachable
        outbox.append(.reachable(app: outbox.app, isReachable))
    }

    /// Adds a connection when all connections stay full while this thread is not busy.
    final func noticeSaturation(isFull: Bool) {
        let endNs = loop.clock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }

    /// Whether the transport waits for a connection after the last one ended: none is ready, and no dial has failed.
    final var awaitsSuccessor: Bool { !isAnyReady && plan.failures == 0 && plan.live > 0 && reportedReachable == true }

    /// The number of requests on draining connections. They count as outstanding, but do not reduce the other
    /// connections' capacity.
    final var leaving: Int { connections.reduce(0) { $1.phase == .draining ? $0 + $1.unanswered : $0 } }

    /// Emits the turn's events. Refusals of the credential come first, so that no request is sent again with a refused
    /// credential.
    final func report(capacity: Int, streams: Int) {
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
        if plan.isFinished, quarantinePlan.isFinished, !isClosed {
            isClosed = true
            wakeAlarm = nil
            quarantineAlarm = nil
            last.append(.closed(app: outbox.app))
        }
        outbox.send(first: first, last: last)
    }
}

/// Requests that wait until a connection accepts them, in order. The storage is reused.
struct RequestQueue {
    private var elements: ContiguousArray<OutgoingRequest> = []
    private var head = 0

    /// The capacity up to which the storage of an empty queue is kept. Larger storage is freed, for example several
    /// megabytes after a burst.
    private static let keptCapacity = 4_096

    var count: Int { elements.count - head }
    var isEmpty: Bool { head == elements.count }

    var first: OutgoingRequest {
        _read { yield elements[head] }
    }

    mutating func append(contentsOf batch: some Collection<OutgoingRequest>) {
        if head > 0 && head >= elements.count / 2 {
            elements.removeFirst(head)
            head = 0
        }
        elements.append(contentsOf: batch)
    }

    mutating func removeFirst() {
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.capacity <= Self.keptCapacity)
            head = 0
        }
    }

    /// Removes and returns the requests with matching ids, in order.
    mutating func removeAll(where matches: (NotificationID) -> Bool) -> [NotificationID] {
        var removed: [NotificationID] = []
        elements.removeFirst(head)
        head = 0
        elements.removeAll { request in
            guard matches(request.id) else { return false }
            removed.append(request.id)
            return true
        }
        return removed
    }
}

/// Suspects that wait for the quarantine connection. When that connection is lost, it is unknown which of its requests
/// is the cause, so each of them is sent alone on the next connection. Other suspects are sent together.
struct SuspectQueue {
    private var together = RequestQueue()
    private var alone = RequestQueue()
    /// The ids of the requests that were in flight when the quarantine connection was lost. Each is sent alone next.
    private var marked: Set<NotificationID> = []
    /// Whether a request that must be alone is on the connection.
    private var isTaken = false

    var isEmpty: Bool { together.isEmpty && alone.isEmpty }

    mutating func append(_ request: OutgoingRequest) {
        if marked.contains(request.id) {
            alone.append(contentsOf: CollectionOfOne(request))
        } else {
            together.append(contentsOf: CollectionOfOne(request))
        }
    }

    /// Marks the requests that were in flight when the connection was lost. Each is then sent alone.
    mutating func died(under ids: [NotificationID]) { marked.formUnion(ids) }

    mutating func forget() {
        if alone.isEmpty { marked = [] }
    }

    /// Removes and returns the requests with matching ids.
    mutating func removeAll(where matches: (NotificationID) -> Bool) -> [NotificationID] {
        together.removeAll(where: matches) + alone.removeAll(where: matches)
    }

    /// Hands requests that may be sent now to the connection. `fill` moves requests from the front of a queue to the
    /// connection until the connection has `most` requests.
    mutating func hand(unanswered: () -> Int, _ fill: (inout RequestQueue, _ most: Int) -> Void) {
        if unanswered() == 0 { isTaken = false }
        guard !isTaken else { return }
        guard !alone.isEmpty else { return fill(&together, .max) }
        guard unanswered() == 0 else { return }
        let first = alone.first.id
        fill(&alone, 1)
        guard unanswered() > 0 else { return }
        isTaken = true
        marked.remove(first)
    }
}
