package import Delivery
package import EventLoop
internal import HTTP2
package import Network
internal import PushRecords

/// Sends one app's notifications to APNs over HTTP/2: a pool of connections on one loop. Loop's thread.
///
/// Every request of `TransportCommand.send` is answered by exactly one completion, gathered with those of the same turn. It
/// keeps itself and its connections alive until `close` was answered by `TransportEvent.closed`.
package final class APNsTransport: Transport, ConnectionOwner, TurnEnder {
    private let app: AppIndex
    private var configuration: APNsConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private var token: ProviderToken?
    private let emit: ([TransportEvent]) -> Void

    private var plan: PoolPlan
    private var random = SystemRandomNumberGenerator()
    private var wakeAlarm: Alarm?
    private var connections: [Connection] = []
    private var dirty: [Connection] = []
    private var headers: RequestHeaders
    /// The token that `headers` carry, by its generation; 0: none yet.
    private var seenToken: UInt32 = 0
    /// The one that `TransportNote.providerTokenRenewed` was said of.
    private var announcedToken: UInt32 = 0
    private var queue = RequestQueue()
    private var quarantine: Quarantine
    private var quarantineAlarm: Alarm?
    private var quarantineConnection: Connection?
    private var suspects = SuspectQueue()
    private var isClosing = false
    private var isFinished = false
    /// Counts how often all connections were to be made anew: by `replace`, or for a topic.
    private(set) var credentialGeneration = 0
    /// All connections are being made anew, and none of the new ones has become ready or failed: requests stay in the queue.
    private var isReplacing = false
    /// When connections were made anew for a topic; `nil`: never.
    private var topicRenewalNs: Int64?
    /// Some connections answer nothing but server errors (5xx, or without a reason); looked at until they are gone, or well.
    private var hasErring = false
    private var errorRetirement: ErrorRetirement
    private var reachability = Reachability()
    /// What was said last; `nil`: nothing yet.
    private var isReachable: Bool?
    private var answers: AnswerWatch
    private var answersAlarm: Alarm?
    private var answersAlarmNs = Int64.max
    private var saidUnanswered: Unanswered?
    private var saidConnections = ConnectionCounts()

    /// Appended to and taken, nothing else.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    /// Why APNs refused the credential by a GOAWAY, in this turn.
    private var refusals: [ReasonCode] = []
    private var asksForTurnEnd = false
    private var reportedCapacity = 0
    private var saturation = Saturation()

    /// Requests that may wait here beyond the streams there are: the next ones while a completion travels.
    private static let slackLimit = 128

    /// Dials the first connections at once; with a minimum of 0, when something is to be sent.
    ///
    /// - Parameters:
    ///   - token: shared by the apps of one key on this loop; `nil`: the TLS context's client certificate says who sends.
    ///   - dialer: opens the channels of its connections, on the loop.
    ///   - emit: called at the end of a turn, on the loop's thread, with that turn's events: refusals of the
    ///     credential, then completions, then the others.
    package init(
        app: AppIndex, configuration: APNsConfiguration, token: ProviderToken?, loop: Loop,
        dialer: any ChannelDialer, emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.app = app
        self.configuration = configuration
        self.token = token
        self.loop = loop
        self.dialer = dialer
        self.emit = emit
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        plan = PoolPlan(
            minimum: configuration.minimumConnections, maximum: configuration.maximumConnections,
            backOff: BackOff(limits: configuration.backOff))
        quarantine = Quarantine(backOff: BackOff(limits: configuration.backOff))
        batch = CompletionBatch(app: app)
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        errorRetirement = ErrorRetirement(spanNs: configuration.errorSpanNs)
        answersAlarm = Alarm(loop: loop) { [unowned self] in
            answersAlarmNs = .max
            askForTurnEnd()
        }
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
            if batch.contains(where: \.isSuspect) {
                queue.append(contentsOf: batch.filter { !$0.isSuspect })
                for request in batch where request.isSuspect { suspects.append(request) }
            } else {
                queue.append(contentsOf: batch)
            }
            if isClosing { giveBackQueue() } else { dispatch() }
        case .recall(let ids):
            let wanted = Set(ids)
            giveBack(queue.removeAll { wanted.contains($0) } + suspects.removeAll { wanted.contains($0) })
        case .close:
            isClosing = true
            giveBackQueue()
            tellQuarantine(.close)
            tell(.close)
        }
    }

    /// Makes all connections anew, with this configuration and token from now on: another credential, host or proxy. The
    /// old ones take no more requests and finish what is on them; what waits here waits for the first new connection, or
    /// until that cannot be made. Loop's thread.
    ///
    /// The back-off's limits stay those of the first configuration.
    package func replace(configuration: APNsConfiguration, token: ProviderToken?) {
        loop.assertOnThread()
        guard !isClosing else { return }
        askForTurnEnd()
        credentialGeneration += 1
        self.configuration = configuration
        if token !== self.token { announcedToken = 0 }
        self.token = token
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        seenToken = 0
        topicRenewalNs = nil
        errorRetirement.replaced()
        reachability.replaced()
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        replaceConnections()
    }

    /// The old ones take no more requests and finish what is on them.
    private func replaceConnections() {
        isReplacing = true
        tellQuarantine(.replace)
        tell(.replace(minimum: configuration.minimumConnections, maximum: configuration.maximumConnections))
    }

    /// Apple knows a bundle id that is new on new connections only. Where they do not help, others would not either.
    func topicDisallowed(lifeNs: Int64) {
        let nowNs = loop.now.monotonicNs
        guard !isClosing, lifeNs >= configuration.topicAgeNs,
            topicRenewalNs.map({ nowNs - $0 >= configuration.topicPauseNs }) ?? true
        else { return }
        topicRenewalNs = nowNs
        credentialGeneration += 1
        note(.replacing("Apple refuses one of the app's topics on connections that are open; they are made anew"))
        replaceConnections()
    }

    /// Hands waiting requests to connections, the first one that can take each: so few connections carry full writes.
    private func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if plan.isAsleep { tell(.wanted) }
        refreshToken()
        var index = 0
        while index < connections.count, !queue.isEmpty {
            connections[index].fill(from: &queue, headers: &headers)
            index += 1
        }
    }

    /// Suspects go over their own connection, which is dialled for them.
    private func dispatchSuspects() {
        guard !suspects.isEmpty else { return }
        if isClosing { return giveBack(suspects.removeAll { _ in true }) }
        tellQuarantine(.wanted)
        guard let connection = quarantineConnection, connection.phase == .ready else { return }
        refreshToken()
        suspects.fill(connection, headers: &headers)
    }

    private func giveBackQueue() { giveBack(queue.removeAll { _ in true }) }

    private func giveBack(_ ids: [NotificationID]) {
        for id in ids { completed(Completion(id: id, kind: .notProcessed)) }
    }

    // MARK: Provider token

    var tokenGeneration: UInt32 { token?.generation ?? 0 }

    /// Makes requests carry the current token, which another app with the same key may have renewed.
    private func refreshToken() {
        guard let token else { return }
        _ = token.refresh(now: loop.now)
        guard token.generation != seenToken else { return }
        seenToken = token.generation
        headers.setAuthorization(token.headerValue)
        guard token.generation != announcedToken else { return }
        announcedToken = token.generation
        note(.providerTokenRenewed(keyID: token.keyID, issuedMs: token.issuedMs))
    }

    func providerTokenExpired() { _ = token?.renewIfAllowed(now: loop.now) }

    func credentialRefused(_ reason: ReasonCode) {
        askForTurnEnd()
        if !refusals.contains(reason) { refusals.append(reason) }
    }

    // MARK: The plan

    private func tell(_ event: PoolPlan.Event) {
        askForTurnEnd()
        for action in plan.handle(event, using: &random) {
            switch action {
            case .dial(let id, let firstAddress):
                connections.append(
                    Connection(
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
                quarantineConnection = Connection(
                    id: id, firstAddress: id, isQuarantine: true, configuration: configuration, dialer: dialer,
                    loop: loop, owner: self)
            case .drain: quarantineConnection?.drain()
            case .wake(let afterNs): quarantineAlarm?.set(afterNs: afterNs)
            case .giveBack: giveBack(suspects.removeAll { _ in true })
            case .forget: suspects.forget()
            }
            sayConnections()
        }
    }

    func settingsReceived(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.opened) }
        if connection.credentialGeneration == credentialGeneration {
            isReplacing = false
            reachability.connected()
            sayReachable()
        }
        tell(.opened(connection.id))
    }

    func connectionAnswered(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.answered) }
        // That the old credential is still good says nothing about the new one.
        guard connection.credentialGeneration == credentialGeneration else { return }
        reachability.answered()
        sayReachable()
        tell(.answered(connection.id))
    }

    func requestsAnswered(_ connection: Connection) {
        if connection.credentialGeneration == credentialGeneration { answers.answered() }
    }

    func streamEnded(_ connection: Connection, _ code: ErrorCode) {
        if connection.credentialGeneration == credentialGeneration { answers.ended(code, nowNs: loop.now.monotonicNs) }
    }

    var refusalsLimit: Int { reachability.isOnProbation ? 1 : Reachability.refusalsLimit }

    func connectionErrs(_ connection: Connection) { if !connection.isQuarantine { hasErring = true } }

    /// What others can take goes to them: so they show whether it is the connection. Then that is replaced.
    private func replaceErring() {
        let erring = connections.filter { $0.phase == .ready && $0.errorStreak.isLong }
        hasErring = !erring.isEmpty
        guard hasErring else { return }
        connections = connections.filter { $0.phase != .ready || !$0.errorStreak.isLong } + erring
        for connection in erring {
            let streak = connection.errorStreak
            let isAnotherGood = connections.contains {
                $0.credentialGeneration == credentialGeneration && $0.goodNs > streak.beganNs
            }
            guard errorRetirement.retires(streak, isAnotherGood: isAnotherGood, nowNs: loop.now.monotonicNs) else {
                continue
            }
            let others = isAnotherGood ? ", while other connections answer well" : ""
            note(
                .replacing(
                    "\(connection.address): the last \(streak.count) answers were server errors (5xx, or without a "
                        + "reason)\(others); the "
                        + "connection is replaced"))
            return tell(.retired(connection.id, isFault: false))
        }
    }

    func connectionRetires(_ connection: Connection, isFault: Bool) {
        if connection.isQuarantine { return tellQuarantine(.retired(isFault: isFault)) }
        tell(.retired(connection.id, isFault: isFault))
    }

    func connectionIdle(_ connection: Connection) {
        if connection.isQuarantine { return tellQuarantine(.idle) }
        tell(.idle(connection.id))
    }

    func connectionFellSilent(_ connection: Connection) {
        for other in connections where other !== connection { other.askForSign() }
    }

    func isAnotherAlive(than connection: Connection, sinceNs: Int64, answers: Bool) -> Bool {
        func isAlive(_ other: Connection) -> Bool {
            other !== connection && other.credentialGeneration == connection.credentialGeneration
                && other.wasAlive(sinceNs: sinceNs, answers: answers)
        }
        return connections.contains(where: isAlive) || quarantineConnection.map(isAlive) == true
    }

    func connectionClosed(_ connection: Connection, _ end: ChannelEnd) {
        if connection.isQuarantine { return quarantineClosed(connection, end) }
        connections.removeAll { $0 === connection }
        let failures = plan.failures
        tell(.closed(connection.id))
        guard !isClosing else { return }
        var reason = plan.failures > failures && !connection.wasReady ? end.text : nil
        if connection.credentialGeneration == credentialGeneration {
            if connection.wasReady {
                reachability.ended(connection.end)
                if reachability.isOnProbation {
                    reason =
                        "\(Reachability.endsLimit) connections in a row ended without an answer, the last one: "
                        + (connection.lastWords ?? end.text)
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

    private func quarantineClosed(_ connection: Connection, _ end: ChannelEnd) {
        askForTurnEnd()
        quarantineConnection = nil
        suspects.died(under: connection.diedUnder)
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

    private func sayConnections() {
        var counts = plan.counts
        quarantine.count(in: &counts)
        counts.streams = allowedStreams
        guard counts != saidConnections else { return }
        saidConnections = counts
        events.append(.connections(app: app, counts))
    }

    private var isAnyReady: Bool { connections.contains { $0.phase == .ready } }

    private func sayReachable() {
        let allowedNone = reachability.allowsNoStream
        if isAnyReady {
            reachability.allow(streams: connections.contains { $0.allowedStreams > 0 })
        }
        if reachability.allowsNoStream, !allowedNone { note(.noStreams(host: configuration.host)) }
        guard let isReachable = reachability.isReachable, self.isReachable != isReachable else { return }
        self.isReachable = isReachable
        askForTurnEnd()
        events.append(.reachable(app: app, isReachable))
    }

    /// At the end of a turn, when what came in it is known.
    private func sayUnanswered() {
        answers.look(isAsked: isAsked, nowNs: loop.now.monotonicNs)
        // The deadline mostly moves away: the alarm that is set finds out when it rings.
        if answers.deadlineNs < answersAlarmNs {
            answersAlarmNs = answers.deadlineNs
            answersAlarm?.set(atNs: answersAlarmNs)
        }
        guard answers.isUnanswering || saidUnanswered != nil else { return }
        let unanswered =
            answers.isUnanswering
            ? Unanswered(host: configuration.host, endedBy: answers.endCode?.description) : nil
        guard unanswered != saidUnanswered else { return }
        saidUnanswered = unanswered
        events.append(.unanswered(app: app, unanswered))
    }

    /// Whether something was handed over that a host could have answered by now.
    private var isAsked: Bool {
        // What waits for its first connection is not asked yet.
        if !queue.isEmpty, !isReplacing, isAnyReady { return true }
        func isAsked(_ connection: Connection) -> Bool {
            connection.credentialGeneration == credentialGeneration && connection.unanswered > 0
        }
        return connections.contains(where: isAsked) || quarantineConnection.map(isAsked) == true
    }

    func note(_ note: TransportNote) {
        askForTurnEnd()
        events.append(.note(app: app, note))
    }

    // MARK: The turn's end

    func connectionIsDirty(_ connection: Connection) {
        askForTurnEnd()
        dirty.append(connection)
    }

    private func askForTurnEnd() {
        guard !asksForTurnEnd else { return }
        asksForTurnEnd = true
        loop.atTurnEnd(self)
    }

    /// Fills streams that came free, writes, and says what happened.
    package func turnEnded() {
        asksForTurnEnd = false
        if hasErring { replaceErring() }
        dispatch()
        flush()
        // Writing made room again.
        dispatch()
        flush()
        let capacity = capacity
        if capacity == 0, !isReplacing {
            giveBackQueue()
            sayReachable()
            // The quarantine connection is of the same host.
            if reachability.allowsNoStream { giveBack(suspects.removeAll { _ in true }) }
        }
        noticeSaturation()
        sayUnanswered()
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

    private var allowedStreams: Int { connections.reduce(0) { $0 + $1.allowedStreams } }

    /// How many requests may be unanswered at once.
    private var capacity: Int {
        if isClosing { return 0 }
        let streams = allowedStreams
        // What a connection that leaves has still to answer counts as outstanding, and takes no stream of the others.
        let leaving = connections.reduce(0) { $1.phase == .draining ? $0 + $1.unanswered : $0 }
        if streams == 0, plan.isOnDemand, !isAnyReady {
            return leaving + Self.slackLimit
        }
        // Between two credentials there is no more to hand over, and no less: the next connection is being made.
        if streams == 0, isReplacing { return reportedCapacity }
        if streams == 0 { return 0 }
        if reachability.isOnProbation { return leaving + 1 }
        return leaving + streams + min(streams / 8, Self.slackLimit)
    }

    private func report(_ capacity: Int) {
        if !batch.completions.isEmpty {
            let count = batch.completions.count
            events.insert(.completions(batch), at: 0)
            batch = CompletionBatch(app: app)
            batch.completions.reserveCapacity(count)
        }
        if !refusals.isEmpty {
            // Before the completions: nothing is to be sent again with a credential that was refused.
            events.insert(contentsOf: refusals.map { .credentialRefused(app: app, reason: $0) }, at: 0)
            refusals = []
        }
        if capacity != reportedCapacity {
            reportedCapacity = capacity
            events.append(.capacity(app: app, requests: capacity))
            sayConnections()
        }
        if isFinished, quarantineConnection == nil {
            isFinished = false
            quarantineAlarm = nil
            answersAlarm = nil
            events.append(.closed(app: app))
        }
        guard !events.isEmpty else { return }
        let said = events
        events = []
        emit(said)
    }

    /// Grows the pool when every stream stays taken while this thread has time to spare.
    private func noticeSaturation() {
        let isFull = reportedCapacity > 0 && !connections.isEmpty && connections.allSatisfy { $0.isFull }
        let endNs = loop.readClock().monotonicNs
        if saturation.turned(isFull: isFull, beganNs: loop.now.monotonicNs, endedNs: endNs) { tell(.saturated) }
    }
}
