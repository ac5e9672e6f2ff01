package import Delivery
package import EventLoop
package import Network
internal import PushRecords

/// Sends one app's notifications to a gateway that speaks Apple's binary provider protocol: a pool of connections on one
/// loop. Loop's thread.
///
/// Every request of `TransportCommand.send` is answered by exactly one completion. What its promise lacks beside HTTP/2's,
/// and how its window works: <doc:BinaryGateway>. It keeps itself and its connections alive until `close` was answered by
/// `TransportEvent.closed`.
package final class BinaryTransport: Transport, BinaryConnectionOwner, TurnEnder {
    private let app: AppIndex
    private var configuration: BinaryConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private let emit: ([TransportEvent]) -> Void

    private var plan: PoolPlan
    private var random = SystemRandomNumberGenerator()
    private var wakeAlarm: Alarm?
    private var connections: [BinaryConnection] = []
    private var dirty: [BinaryConnection] = []
    private var queue = RequestQueue()
    private var admission: BinaryAdmission
    /// As lengthened, where errors came late.
    private var patience: BinaryPatience
    private var quarantine: Quarantine
    private var quarantineAlarm: Alarm?
    private var quarantineConnection: BinaryConnection?
    private var suspects = RequestQueue()
    private var isClosing = false
    private var isFinished = false
    /// Counts how often `replace` had all connections made anew.
    private(set) var credentialGeneration = 0
    /// All connections are being made anew, and none of the new ones has become ready or failed: requests stay in the queue.
    private var isReplacing = false
    private var reachability = Reachability()
    /// What was said last; `nil`: nothing yet.
    private var isReachable: Bool?
    private var saidConnections = ConnectionCounts()
    /// Appended to and taken, nothing else.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    private var asksForTurnEnd = false
    private var reportedCapacity = 0
    private var saturation = Saturation()

    /// Requests that may wait for the first connection of a pool that is asleep.
    private static let slackLimit = 128

    /// Dials the first connections at once; with a minimum of 0, when something is to be sent.
    ///
    /// - Parameters:
    ///   - dialer: opens the channels of its connections, on the loop.
    ///   - emit: called at the end of a turn, on the loop's thread, with that turn's events: completions, then the others.
    package init(
        app: AppIndex, configuration: BinaryConfiguration, loop: Loop, dialer: any ChannelDialer,
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.app = app
        self.configuration = configuration
        self.loop = loop
        self.dialer = dialer
        self.emit = emit
        admission = BinaryAdmission(most: configuration.window.notifications)
        patience = BinaryPatience(configuration.window)
        plan = PoolPlan(
            minimum: configuration.minimumConnections, maximum: configuration.maximumConnections,
            backOff: BackOff(limits: configuration.backOff))
        quarantine = Quarantine(backOff: BackOff(limits: configuration.backOff))
        batch = CompletionBatch(app: app)
        quarantineAlarm = Alarm(loop: loop) { [unowned self] in
            askForTurnEnd()
            tellQuarantine(.due)
        }
        wakeAlarm = Alarm(loop: loop) { [unowned self] in tell(.due) }
        tell(.start)
    }

    // MARK: Commands

    package func handle(_ command: TransportCommand) {
        askForTurnEnd()
        switch command {
        case .send(let batch):
            for request in batch {
                if request.isSuspect {
                    suspects.append(contentsOf: CollectionOfOne(request))
                } else {
                    queue.append(contentsOf: CollectionOfOne(request))
                }
            }
            if isClosing { giveBackAll() }
        case .recall(let ids): recall(Set(ids))
        case .close:
            isClosing = true
            giveBackAll()
            for connection in connections { connection.fence() }
            quarantineConnection?.fence()
            tellQuarantine(.close)
            tell(.close)
        }
    }

    /// Partitions go to another worker: what waits here is given back, and what is on connections is decided by an answer,
    /// where the protocol has one, not by silence.
    private func recall(_ ids: Set<NotificationID>) {
        giveBack(queue.removeAll { ids.contains($0) } + suspects.removeAll { ids.contains($0) })
        for connection in connections where connection.holds(anyOf: ids) {
            connection.fence()
            tell(.retired(connection.id, isFault: false))
        }
        if let connection = quarantineConnection, connection.holds(anyOf: ids) {
            connection.fence()
            tellQuarantine(.retired(isFault: false))
        }
    }

    /// Makes all connections anew, with this configuration from now on: another credential, host or window. The old ones take
    /// no more requests and finish what is on them. Loop's thread.
    ///
    /// The back-off's limits stay those of the first configuration.
    package func replace(configuration: BinaryConfiguration) {
        loop.assertOnThread()
        guard !isClosing else { return }
        askForTurnEnd()
        credentialGeneration += 1
        // How late errors come is not forgotten for a certificate.
        if configuration.window != self.configuration.window { patience = BinaryPatience(configuration.window) }
        self.configuration = configuration
        admission = BinaryAdmission(most: configuration.window.notifications)
        reachability.replaced()
        isReplacing = true
        tellQuarantine(.replace)
        tell(.replace(minimum: configuration.minimumConnections, maximum: configuration.maximumConnections))
    }

    private func giveBackAll() {
        giveBack(queue.removeAll { _ in true } + suspects.removeAll { _ in true })
    }

    private func giveBack(_ ids: [NotificationID]) {
        for id in ids { completed(Completion(id: id, kind: .notProcessed)) }
    }

    // MARK: To the connections

    private func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if plan.isAsleep { tell(.wanted) }
        let ready = connections.filter { $0.phase == .ready }
        guard !ready.isEmpty else { return }
        let share = min(admission.limit, max(1, configuration.window.notifications / ready.count))
        let bytes = max(1, configuration.window.bytes / ready.count)
        for connection in ready where !queue.isEmpty { connection.fill(from: &queue, most: share, bytes: bytes) }
    }

    /// Suspects go over their own connection, one at a time: an end says which of them it was.
    private func dispatchSuspects() {
        guard !suspects.isEmpty else { return }
        if isClosing { return giveBack(suspects.removeAll { _ in true }) }
        tellQuarantine(.wanted)
        quarantineConnection?.fill(from: &suspects, most: 1, bytes: .max)
    }

    // MARK: The plan

    private func tell(_ event: PoolPlan.Event) {
        askForTurnEnd()
        for action in plan.handle(event, using: &random) {
            switch action {
            case .dial(let id, let firstAddress):
                connections.append(
                    BinaryConnection(
                        id: id, firstAddress: firstAddress, configuration: configuration, dialer: dialer, loop: loop,
                        owner: self))
            case .drain(let id): connections.first { $0.id == id }?.drain()
            case .wake(let afterNs): wakeAlarm?.set(afterNs: afterNs)
            case .finished:
                isFinished = true
                wakeAlarm = nil
            }
        }
        sayConnections()
    }

    private func tellQuarantine(_ event: Quarantine.Event) {
        for action in quarantine.handle(event, using: &random) {
            askForTurnEnd()
            switch action {
            case .dial(let id):
                quarantineConnection = BinaryConnection(
                    id: id, firstAddress: id, isQuarantine: true, configuration: configuration, dialer: dialer,
                    loop: loop, owner: self)
            case .drain: quarantineConnection?.drain()
            case .wake(let afterNs): quarantineAlarm?.set(afterNs: afterNs)
            case .giveBack: giveBack(suspects.removeAll { _ in true })
            case .forget: break
            }
            sayConnections()
        }
    }

    func connectionOpened(_ connection: BinaryConnection) {
        askForTurnEnd()
        note(.connected(address: connection.address, streams: nil))
        if connection.isQuarantine { return tellQuarantine(.opened) }
        if connection.credentialGeneration == credentialGeneration {
            isReplacing = false
            reachability.connected()
            sayReachable()
        }
        tell(.opened(connection.id))
    }

    func connectionSettled(_ connection: BinaryConnection, _ count: Int, isAnswer: Bool) {
        if !connection.isQuarantine { admission.settled(count) }
        guard isAnswer else { return }
        connection.hasAnswered = true
        tellAnswered(connection)
    }

    func connectionAnswered(_ connection: BinaryConnection, settled: Int, discarded: Int) {
        if settled > 0 {
            connection.hasAnswered = true
            tellAnswered(connection)
        }
        if connection.isQuarantine { return tellQuarantine(.retired(isFault: settled == 0)) }
        admission.settled(settled)
        tell(.retired(connection.id, isFault: settled == 0 && !connection.wasAnswered))
        guard discarded > settled else { return }
        admission.discarded()
        tell(.crowded)
    }

    private func tellAnswered(_ connection: BinaryConnection) {
        if connection.isQuarantine { return tellQuarantine(.answered) }
        // That the old credential is still good says nothing about the new one.
        guard connection.credentialGeneration == credentialGeneration else { return }
        reachability.answered()
        sayReachable()
        tell(.answered(connection.id))
    }

    var windowNs: Int64 { patience.windowNs }

    func windowWasTooShort(ageNs: Int64?) {
        guard patience.wasTooShort(ageNs: ageNs) else { return }
        note(.windowLengthened(windowMs: windowNs / 1_000_000))
    }

    func connectionIdle(_ connection: BinaryConnection) {
        if connection.isQuarantine { return tellQuarantine(.idle) }
        tell(.idle(connection.id))
    }

    func connectionClosed(_ connection: BinaryConnection, _ end: ChannelEnd, inDoubt: Int) {
        askForTurnEnd()
        let isOfNow = connection.credentialGeneration == credentialGeneration
        if connection.isQuarantine { return quarantineClosed(connection, end) }
        connections.removeAll { $0 === connection }
        admission.ended(open: inDoubt, settled: connection.settledCount)
        // It works, and ends: more connections share what an end takes with it.
        if inDoubt > 0, connection.settledCount > 0 { tell(.crowded) }
        let failures = plan.failures
        tell(.closed(connection.id))
        guard !isClosing else { return }
        var reason = plan.failures > failures && !connection.wasReady ? end.text : nil
        if isOfNow {
            if connection.wasReady {
                reachability.ended(
                    Reachability.End(
                        wasAnswered: connection.hasAnswered, wasAsked: connection.wasAsked, lifeNs: connection.lifeNs))
                if reachability.isOnProbation {
                    reason =
                        "\(Reachability.endsLimit) connections in a row ended without an answer, the last one: "
                        + end.text
                }
            } else {
                isReplacing = false
                reachability.failed(isAnotherReady: isAnyReady)
            }
            sayReachable()
        }
        if let reason {
            note(.connectFailed(host: configuration.host, reason: reason, retryInMs: plan.lastWaitNs / 1_000_000))
        }
    }

    private func quarantineClosed(_ connection: BinaryConnection, _ end: ChannelEnd) {
        quarantineConnection = nil
        let failures = quarantine.failures
        quarantine.doesHostAnswer = !reachability.isOnProbation
        tellQuarantine(.closed)
        if !isClosing, quarantine.failures > failures, !connection.wasReady {
            note(
                .connectFailed(
                    host: configuration.host, reason: end.text, retryInMs: quarantine.lastWaitNs / 1_000_000))
        }
    }

    // MARK: Completions and events

    func completed(_ completion: Completion) {
        askForTurnEnd()
        batch.completions.append(completion)
    }

    func text(_ text: String) -> Int32 {
        batch.texts.append(text)
        return Int32(batch.texts.count - 1)
    }

    func note(_ note: TransportNote) {
        askForTurnEnd()
        events.append(.note(app: app, note))
    }

    private func sayConnections() {
        var counts = plan.counts
        quarantine.count(in: &counts)
        counts.streams = admitted
        guard counts != saidConnections else { return }
        saidConnections = counts
        events.append(.connections(app: app, counts))
    }

    private var isAnyReady: Bool { connections.contains { $0.phase == .ready } }

    private func sayReachable() {
        guard let isReachable = reachability.isReachable, self.isReachable != isReachable else { return }
        self.isReachable = isReachable
        askForTurnEnd()
        events.append(.reachable(app: app, isReachable))
    }

    // MARK: The turn's end

    func connectionIsDirty(_ connection: BinaryConnection) {
        askForTurnEnd()
        dirty.append(connection)
    }

    private func askForTurnEnd() {
        guard !asksForTurnEnd else { return }
        asksForTurnEnd = true
        loop.atTurnEnd(self)
    }

    package func turnEnded() {
        asksForTurnEnd = false
        dispatch()
        flush()
        // Writing made room again.
        dispatch()
        flush()
        let capacity = capacity
        if capacity == 0 { giveBack(queue.removeAll { _ in true }) }
        noticeSaturation()
        report(capacity)
    }

    private func flush() {
        var index = 0
        while index < dirty.count {
            dirty[index].flush()
            index += 1
        }
        dirty.removeAll(keepingCapacity: true)
    }

    /// How many the connections that are ready may have undecided at once.
    private var admitted: Int {
        min(admission.limit * connections.count { $0.phase == .ready }, configuration.window.notifications)
    }

    /// How many requests may be undecided at once.
    private var capacity: Int {
        if isClosing { return 0 }
        // What a connection that leaves has open counts as outstanding, and takes nothing of the others.
        let leaving = connections.reduce(0) { $1.phase == .draining ? $0 + $1.open : $0 }
        if isAnyReady { return leaving + (reachability.isOnProbation ? 1 : admitted) }
        if plan.isOnDemand { return leaving + min(Self.slackLimit, admission.limit) }
        if isReplacing { return reportedCapacity }
        // Between an error and the next connection, which is being made: what was discarded comes back, and waits here.
        return plan.failures == 0 && plan.live > 0 && isReachable == true ? leaving + admission.limit : 0
    }

    private func report(_ capacity: Int) {
        if !batch.completions.isEmpty {
            let count = batch.completions.count
            events.insert(.completions(batch), at: 0)
            batch = CompletionBatch(app: app)
            batch.completions.reserveCapacity(count)
        }
        if capacity != reportedCapacity {
            reportedCapacity = capacity
            events.append(.capacity(app: app, requests: capacity))
            sayConnections()
        }
        if isFinished, quarantineConnection == nil {
            isFinished = false
            quarantineAlarm = nil
            events.append(.closed(app: app))
        }
        guard !events.isEmpty else { return }
        let said = events
        events = []
        emit(said)
    }

    /// Grows the pool when every connection's peer reads too slowly while this thread has time to spare.
    private func noticeSaturation() {
        let isFull = !queue.isEmpty && connections.allSatisfy { $0.phase != .ready || $0.isBlocked } && isAnyReady
        let endNs = loop.readClock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }
}
