internal import EventLoop
internal import Network
internal import PushTransport

/// One app's connections, whichever protocol they speak, and what is known of their host. Loop's thread.
///
/// `PoolPlan` and `Quarantine` decide which connections there are, `Reachability` what their ends mean for the host;
/// the pool dials, drains and waits as they say. The transport owns it, tells it what its connections did, and asks it
/// at the end of each turn what there is to tell.
final class ConnectionPool<Connection: PooledConnection> {
    typealias Dial = (PooledConnection.DialOrder) -> Connection

    /// For notes.
    var host: String
    private(set) var connections: [Connection] = []
    private(set) var quarantineConnection: Connection?
    private(set) var plan: PoolPlan
    var reachability = Reachability()
    /// Suspects that wait for the quarantine connection.
    var suspects = SuspectQueue()
    /// Counts how often all connections were replaced.
    private var replacements = 0
    /// All connections are being replaced, and none of the new ones has become ready or failed: requests go on waiting.
    private(set) var isReplacing = false
    private(set) var isClosing = false
    /// The capacity that was told last.
    private(set) var reportedCapacity = 0
    /// Something happened that may change whether the host can be reached (`updateReach`).
    private(set) var isReachStale = false

    private let outbox: Outbox
    private let loop: Loop
    private var dial: Dial?
    private var random: any RandomNumberGenerator
    private var wakeAlarm: Alarm?
    private var quarantine: Quarantine
    private var quarantineAlarm: Alarm?
    /// Connections that are closed since they are unused, which says nothing about the host.
    private var unused: Set<PoolPlan.ConnectionID> = []
    /// Nothing is left of the plan's connections, after `close`.
    private var isFinished = false
    /// The last reachability that was reported, or `nil` before the first report.
    private var toldReachable: Bool?
    private var toldConnections = ConnectionCounts()
    private var saturation = Saturation()

    /// - Parameter random: spreads the dials of many workers.
    init(
        outbox: Outbox, host: String, minimum: Int, maximum: Int, backOff: BackOff.Limits, loop: Loop,
        random: any RandomNumberGenerator
    ) {
        self.outbox = outbox
        self.host = host
        self.loop = loop
        self.random = random
        plan = PoolPlan(minimum: minimum, maximum: maximum, backOff: BackOff(limits: backOff))
        quarantine = Quarantine(backOff: BackOff(limits: backOff))
        quarantineAlarm = Alarm(loop: loop) { [unowned self] in
            outbox.askForTurnEnd()
            tellQuarantine(.due)
        }
        wakeAlarm = Alarm(loop: loop) { [unowned self] in tell(.due) }
    }

    /// Dials the first connections; `dial` makes each.
    func start(dial: @escaping Dial) {
        self.dial = dial
        tell(.start)
    }

    /// The present connections drain, and others take their place. Requests wait for the first of them.
    func replaceConnections(minimum: Int, maximum: Int) {
        replacements += 1
        for connection in connections { connection.isSuperseded = true }
        quarantineConnection?.isSuperseded = true
        isReplacing = true
        tellQuarantine(.replace)
        tell(.replace(minimum: minimum, maximum: maximum))
    }

    /// No more connections; the present ones drain. `report` tells `closed` when they are gone.
    func close() {
        isClosing = true
        tellQuarantine(.close)
        tell(.close)
    }

    // MARK: The plan

    func tell(_ event: PoolPlan.Event) {
        outbox.askForTurnEnd()
        for action in plan.handle(event, using: &random) {
            switch action {
            case .dial(let id, let firstAddress):
                if let connection = make(id, firstAddress, isQuarantine: false) { connections.append(connection) }
            case .drain(let id):
                if case .idle = event { unused.insert(id) }
                connections.first { $0.id == id }?.drain()
            case .wake(let afterNs): wakeAlarm?.set(afterNs: afterNs)
            case .finished:
                isFinished = true
                wakeAlarm = nil
            }
        }
    }

    private func make(_ id: PoolPlan.ConnectionID, _ firstAddress: Int, isQuarantine: Bool) -> Connection? {
        dial?(
            PooledConnection.DialOrder(
                id: id, firstAddress: firstAddress, isQuarantine: isQuarantine, replacements: replacements))
    }

    func tellQuarantine(_ event: Quarantine.Event) {
        for action in quarantine.handle(event, using: &random) {
            outbox.askForTurnEnd()
            switch action {
            case .dial(let id): quarantineConnection = make(id, id, isQuarantine: true)
            case .drain: quarantineConnection?.drain()
            case .wake(let afterNs): quarantineAlarm?.set(afterNs: afterNs)
            case .giveBack: giveBackSuspects()
            case .forget: suspects.forget()
            }
        }
    }

    /// The quarantine connection cannot be made, or must not be used: what waits for it was not processed.
    func giveBackSuspects() { outbox.giveBack(suspects.removeAll { _ in true }) }

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
        outbox.askForTurnEnd()
        if connection.isQuarantine { return tellQuarantine(.opened) }
        if !connection.isSuperseded {
            isReplacing = false
            reachability.connected()
            isReachStale = true
        }
        tell(.opened(connection.id))
    }

    /// What was sent over it was answered: the host is of use.
    func answered(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.answered) }
        // That the old credential is still good tells nothing about the new one.
        guard !connection.isSuperseded else { return }
        reachability.answered()
        isReachStale = true
        tell(.answered(connection.id))
    }

    /// It was answered before, and goes on while others may fail: the host is of use. How long is waited for those
    /// stays as it is, or one bad way among good ones is tried again and again.
    func wentOn(_ connection: Connection) {
        guard plan.failures > 0 || reachability.endsInRow > 0, connection.isReady, !connection.isQuarantine,
            !connection.isSuperseded
        else { return }
        reachability.answered()
        isReachStale = true
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
    ///   - judge: says what its end means for the host, where it was ready and is not superseded.
    func closed(_ connection: Connection, why: String, judge: (inout Reachability) -> Void) {
        if connection.isQuarantine { return quarantineClosed(connection, why: why) }
        outbox.askForTurnEnd()
        connections.removeAll { $0 === connection }
        let wasUnused = unused.remove(connection.id) != nil
        let failures = plan.failures
        tell(.closed(connection.id))
        guard !isClosing else { return }
        var reason = plan.failures > failures && !connection.wasReady ? why : nil
        if !connection.isSuperseded, !wasUnused {
            if connection.wasReady {
                judge(&reachability)
                if reachability.isOnProbation { reason = reachability.why(last: why) }
            } else {
                isReplacing = false
                reachability.failed(isAnotherReady: isAnyReady)
            }
            isReachStale = true
        }
        if let reason {
            outbox.note(.connectFailed(host: host, reason: reason, retryInMs: plan.lastWaitNs / 1_000_000))
        }
    }

    private func quarantineClosed(_ connection: Connection, why: String) {
        outbox.askForTurnEnd()
        quarantineConnection = nil
        let failures = quarantine.failures
        quarantine.doesHostAnswer = !reachability.isOnProbation
        tellQuarantine(.closed)
        if !isClosing, quarantine.failures > failures, !connection.wasReady {
            outbox.note(.connectFailed(host: host, reason: why, retryInMs: quarantine.lastWaitNs / 1_000_000))
        }
    }

    // MARK: The turn's end

    /// Tells whether the host can be reached, if that changed.
    func updateReach() {
        isReachStale = false
        guard let isReachable = reachability.isReachable, toldReachable != isReachable else { return }
        toldReachable = isReachable
        outbox.append(.reachable(app: outbox.app, isReachable))
    }

    /// The host can be reached, as far as was told.
    var isToldReachable: Bool { toldReachable == true }

    /// Has connections write what the turn gathered.
    func flush() {
        var index = 0
        while index < connections.count {
            if connections[index].isDirty { connections[index].flush() }
            index += 1
        }
        if let quarantineConnection, quarantineConnection.isDirty { quarantineConnection.flush() }
    }

    /// Grows the pool when all connections stay full while this thread has time to spare.
    func noticeSaturation(isFull: Bool) {
        let endNs = loop.readClock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }

    /// Tells what the turn brought: `first`, then completions, then the rest.
    ///
    /// - Parameter streams: what the open connections allow at once.
    /// - Returns: whether that was the last of it, because all is closed.
    func report(capacity: Int, streams: Int, first: [TransportEvent] = []) -> Bool {
        var last: [TransportEvent] = []
        if capacity != reportedCapacity {
            reportedCapacity = capacity
            last.append(.capacity(app: outbox.app, requests: capacity))
        }
        var counts = plan.counts
        quarantine.count(in: &counts)
        counts.streams = streams
        if counts != toldConnections {
            toldConnections = counts
            last.append(.connections(app: outbox.app, counts))
        }
        let isOver = isFinished && quarantineConnection == nil
        if isOver {
            isFinished = false
            quarantineAlarm = nil
            last.append(.closed(app: outbox.app))
        }
        outbox.send(first: first, last: last)
        return isOver
    }
}

/// Whether the thread spent its time waiting with every stream taken: a value machine. Then more connections help; a
/// thread that has no time to wait gains nothing by them.
struct Saturation: Sendable {
    /// Looked at once in so long.
    private static let periodNs: Int64 = 100_000_000

    private var periodBeganNs: Int64 = 0
    private var lastEndedNs: Int64 = 0
    private var wasFull = false
    private var waitedFullNs: Int64 = 0

    init() {}

    /// A turn of the thread, from `beganNs` to `endedNs`, after which every stream was taken, or not.
    ///
    /// - Returns: true when over half of the period that ends now was spent waiting with every stream taken.
    mutating func turned(isFull: Bool, beganNs: Int64, endedNs: Int64) -> Bool {
        if periodBeganNs == 0 { periodBeganNs = max(1, beganNs) }
        if wasFull { waitedFullNs += max(0, beganNs - lastEndedNs) }
        wasFull = isFull
        lastEndedNs = endedNs
        let spanNs = endedNs - periodBeganNs
        guard spanNs >= Self.periodNs else { return false }
        let isSaturated = waitedFullNs > spanNs / 2
        periodBeganNs = endedNs
        waitedFullNs = 0
        return isSaturated
    }
}
