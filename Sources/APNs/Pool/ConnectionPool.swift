internal import EventLoop
internal import Network
internal import PushTransport

/// What a pool asks of a connection, whichever protocol it speaks.
protocol PooledConnection: AnyObject {
    var id: PoolPlan.ConnectionID { get }
    /// The pool's when it was made.
    var credentialGeneration: Int { get }
    /// It carries suspects only.
    var isQuarantine: Bool { get }
    /// It takes requests.
    var isReady: Bool { get }
    /// It took requests once.
    var wasReady: Bool { get }
    /// Takes no more requests; closes once nothing is open on it.
    func drain()
    /// The end of a turn: sends what was gathered.
    func flush()
}

/// The transport that a pool belongs to. Its turn ends with what it makes of the pool: handing over, writing, saying.
protocol ConnectionPoolOwner: TurnEnder {
    associatedtype Connection: PooledConnection
    func dial(_ id: PoolPlan.ConnectionID, firstAddress: Int, isQuarantine: Bool) -> Connection
    /// The quarantine connection cannot be made: whoever waits for it is not processed.
    func giveBackSuspects()
    /// Nobody needs the quarantine connection any more: what is known of those who died on it is of no use.
    func forgetSuspects()
    /// How many requests the connections that are ready may have without an answer at once.
    var takenAtOnce: Int { get }
    /// What the pool knows of the host may have changed: says so, by `sayReach`.
    func reachMayHaveChanged()
}

/// One app's connections, and what is told of them: what transports have in common, whatever they speak. Loop's thread.
///
/// `PoolPlan` and `Quarantine` decide which connections there are, `Reachability` what their ends mean for the host;
/// this dials, drains and waits as they say. Completions and events of a turn are gathered here, and told at once
/// (`report`).
final class ConnectionPool<Owner: ConnectionPoolOwner> {
    typealias Connection = Owner.Connection

    /// For notes.
    var host: String
    private(set) var connections: [Connection] = []
    private(set) var quarantineConnection: Connection?
    private(set) var plan: PoolPlan
    var reachability = Reachability()
    /// Counts how often all connections were to be made anew.
    private(set) var credentialGeneration = 0
    /// All connections are being made anew, and none of the new ones has become ready or failed: what waits goes on
    /// waiting.
    private(set) var isReplacing = false
    private(set) var isClosing = false
    /// As it was said last.
    private(set) var reportedCapacity = 0

    private let app: AppIndex
    private let loop: Loop
    private let emit: ([TransportEvent]) -> Void
    private unowned var owner: Owner?
    private var random: any RandomNumberGenerator
    private var wakeAlarm: Alarm?
    private var quarantine: Quarantine
    private var quarantineAlarm: Alarm?
    private var dirty: [Connection] = []
    /// We close these since nobody uses them, which says nothing about the host.
    private var unused: Set<PoolPlan.ConnectionID> = []
    /// Nothing is left of the plan's connections, after `close`.
    private var isFinished = false
    /// What was said last; `nil`: nothing yet.
    private var isReachable: Bool?
    private var saidConnections = ConnectionCounts()
    /// Appended to and taken, nothing else.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    /// Looked at for each completion, and nothing else is done with it meanwhile.
    @exclusivity(unchecked) private var asksForTurnEnd = false
    private var saturation = Saturation()

    /// - Parameters:
    ///   - random: spreads the dials of many workers.
    ///   - emit: called at the end of a turn with that turn's events.
    init(
        app: AppIndex, host: String, minimum: Int, maximum: Int, backOff: BackOff.Limits, loop: Loop,
        random: any RandomNumberGenerator, emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.app = app
        self.host = host
        self.loop = loop
        self.random = random
        self.emit = emit
        plan = PoolPlan(minimum: minimum, maximum: maximum, backOff: BackOff(limits: backOff))
        quarantine = Quarantine(backOff: BackOff(limits: backOff))
        batch = CompletionBatch(app: app)
        quarantineAlarm = Alarm(loop: loop) { [unowned self] in
            askForTurnEnd()
            tellQuarantine(.due)
        }
        wakeAlarm = Alarm(loop: loop) { [unowned self] in tell(.due) }
    }

    /// Dials the first connections.
    func start(for owner: Owner) {
        self.owner = owner
        tell(.start)
    }

    /// Those there are drain; others are made, with the next `credentialGeneration`. What waits, waits for the first of
    /// them.
    func replaceConnections(minimum: Int, maximum: Int) {
        credentialGeneration += 1
        isReplacing = true
        tellQuarantine(.replace)
        tell(.replace(minimum: minimum, maximum: maximum))
    }

    /// No more connections; those there are drain. `report` says `closed` when they are gone.
    func close() {
        isClosing = true
        tellQuarantine(.close)
        tell(.close)
    }

    // MARK: The plan

    func tell(_ event: PoolPlan.Event) {
        askForTurnEnd()
        for action in plan.handle(event, using: &random) {
            switch action {
            case .dial(let id, let firstAddress):
                if let owner { connections.append(owner.dial(id, firstAddress: firstAddress, isQuarantine: false)) }
            case .drain(let id):
                if case .idle = event { unused.insert(id) }
                connections.first { $0.id == id }?.drain()
            case .wake(let afterNs): wakeAlarm?.set(afterNs: afterNs)
            case .finished:
                isFinished = true
                wakeAlarm = nil
            }
        }
        sayConnections()
    }

    func tellQuarantine(_ event: Quarantine.Event) {
        for action in quarantine.handle(event, using: &random) {
            askForTurnEnd()
            switch action {
            case .dial(let id): quarantineConnection = owner?.dial(id, firstAddress: id, isQuarantine: true)
            case .drain: quarantineConnection?.drain()
            case .wake(let afterNs): quarantineAlarm?.set(afterNs: afterNs)
            case .giveBack: owner?.giveBackSuspects()
            case .forget: owner?.forgetSuspects()
            }
        }
        // Also where there is nothing to do: it opened, or is gone.
        sayConnections()
    }

    /// Connections made with what was replaced finish what is on them, and say nothing about the host.
    func isCurrent(_ connection: Connection) -> Bool { connection.credentialGeneration == credentialGeneration }

    /// The quarantine connection, too.
    var allConnections: [Connection] { connections + (quarantineConnection.map { [$0] } ?? []) }

    var isAnyReady: Bool { connections.contains(where: \.isReady) }

    /// These take what is left when the others have taken theirs.
    func putLast(_ last: [Connection]) {
        connections = connections.filter { connection in !last.contains { $0 === connection } } + last
    }

    // MARK: What connections say

    /// It is ready, for the first time or again.
    func opened(_ connection: Connection) {
        askForTurnEnd()
        if connection.isQuarantine { return tellQuarantine(.opened) }
        if isCurrent(connection) {
            isReplacing = false
            reachability.connected()
            owner?.reachMayHaveChanged()
        }
        tell(.opened(connection.id))
    }

    /// What was sent over it was answered: the host is of use.
    func answered(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.answered) }
        // That the old credential is still good says nothing about the new one.
        guard isCurrent(connection) else { return }
        reachability.answered()
        owner?.reachMayHaveChanged()
        tell(.answered(connection.id))
    }

    /// It was answered before, and goes on while others may fail: the host is of use. How long is waited for those
    /// stays as it is, or one bad way among good ones is tried again and again.
    func wentOn(_ connection: Connection) {
        guard plan.failures > 0 || reachability.endsInRow > 0, connection.isReady, !connection.isQuarantine,
            isCurrent(connection)
        else { return }
        reachability.answered()
        owner?.reachMayHaveChanged()
        tell(.wentOn(connection.id))
    }

    /// It must take no more requests.
    func retired(_ connection: Connection, isFault: Bool) {
        if connection.isQuarantine { return tellQuarantine(.retired(isFault: isFault)) }
        tell(.retired(connection.id, isFault: isFault))
    }

    func idle(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.idle) }
        tell(.idle(connection.id))
    }

    /// It is gone, or never came to be.
    ///
    /// - Parameters:
    ///   - why: for people.
    ///   - note: what its end means for the host, where it was ready and made with what is in force: tells
    ///     `reachability`.
    func closed(_ connection: Connection, why: String, note end: () -> Void) {
        if connection.isQuarantine { return quarantineClosed(connection, why: why) }
        askForTurnEnd()
        connections.removeAll { $0 === connection }
        let wasUnused = unused.remove(connection.id) != nil
        let failures = plan.failures
        tell(.closed(connection.id))
        guard !isClosing else { return }
        var reason = plan.failures > failures && !connection.wasReady ? why : nil
        if isCurrent(connection), !wasUnused {
            if connection.wasReady {
                end()
                if reachability.isOnProbation { reason = reachability.why(last: why) }
            } else {
                isReplacing = false
                reachability.failed(isAnotherReady: isAnyReady)
            }
            owner?.reachMayHaveChanged()
        }
        if let reason { note(.connectFailed(host: host, reason: reason, retryInMs: plan.lastWaitNs / 1_000_000)) }
    }

    private func quarantineClosed(_ connection: Connection, why: String) {
        askForTurnEnd()
        quarantineConnection = nil
        let failures = quarantine.failures
        quarantine.doesHostAnswer = !reachability.isOnProbation
        tellQuarantine(.closed)
        if !isClosing, quarantine.failures > failures, !connection.wasReady {
            note(.connectFailed(host: host, reason: why, retryInMs: quarantine.lastWaitNs / 1_000_000))
        }
    }

    /// It has something to send at the end of the turn.
    func becameDirty(_ connection: Connection) {
        askForTurnEnd()
        dirty.append(connection)
    }

    // MARK: Completions and events

    func completed(_ completion: Completion) {
        askForTurnEnd()
        batch.completions.append(completion)
    }

    /// Comes back unprocessed: it was on no connection.
    func giveBack(_ ids: [NotificationID]) {
        for id in ids { completed(Completion(id: id, kind: .notProcessed)) }
    }

    /// Stores a rare text beside the completions of this turn.
    func text(_ text: String) -> Int32 {
        batch.texts.append(text)
        return Int32(batch.texts.count - 1)
    }

    func note(_ note: TransportNote) { say(.note(app: app, note)) }

    func say(_ event: TransportEvent) {
        askForTurnEnd()
        events.append(event)
    }

    private func sayConnections() {
        var counts = plan.counts
        quarantine.count(in: &counts)
        counts.streams = owner?.takenAtOnce ?? 0
        guard counts != saidConnections else { return }
        saidConnections = counts
        events.append(.connections(app: app, counts))
    }

    func sayReach() {
        guard let isReachable = reachability.isReachable, self.isReachable != isReachable else { return }
        self.isReachable = isReachable
        say(.reachable(app: app, isReachable))
    }

    /// As it was said last.
    var isSaidReachable: Bool { isReachable == true }

    // MARK: The turn's end

    func askForTurnEnd() {
        guard !asksForTurnEnd, let owner else { return }
        asksForTurnEnd = true
        loop.atTurnEnd(owner)
    }

    /// What is asked for from now on is for the next one.
    func turnEnded() { asksForTurnEnd = false }

    /// Has connections write what the turn gathered.
    func flush() {
        var index = 0
        while index < dirty.count {
            dirty[index].flush()
            index += 1
        }
        dirty.removeAll(keepingCapacity: true)
    }

    /// Grows the pool when all connections stay full while this thread has time to spare.
    func noticeSaturation(isFull: Bool) {
        let endNs = loop.readClock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }

    /// Tells what the turn brought: `first`, then completions, then the rest.
    ///
    /// - Returns: whether that was the last of it: all is closed.
    func report(capacity: Int, first: [TransportEvent] = []) -> Bool {
        if !batch.completions.isEmpty {
            let count = batch.completions.count
            events.insert(.completions(batch), at: 0)
            batch = CompletionBatch(app: app)
            batch.completions.reserveCapacity(count)
        }
        if !first.isEmpty { events.insert(contentsOf: first, at: 0) }
        if capacity != reportedCapacity {
            reportedCapacity = capacity
            events.append(.capacity(app: app, requests: capacity))
            sayConnections()
        }
        let isOver = isFinished && quarantineConnection == nil
        if isOver {
            isFinished = false
            quarantineAlarm = nil
            events.append(.closed(app: app))
        }
        guard !events.isEmpty else { return isOver }
        let said = events
        events = []
        emit(said)
        return isOver
    }
}
