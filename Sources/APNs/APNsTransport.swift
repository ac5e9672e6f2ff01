package import EventLoop
internal import HTTP2
package import Network
internal import PushRecords
package import PushTransport

/// Sends one app's notifications to APNs over HTTP/2: a pool of connections on one loop. Loop's thread.
///
/// Every request of `TransportCommand.send` is answered by exactly one completion, gathered with those of the same
/// turn. It keeps itself and its connections alive until `close` was answered by `TransportEvent.closed`.
package final class APNsTransport: Transport, ConnectionOwner, ConnectionPoolOwner {
    private let app: AppIndex
    private var configuration: APNsConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private var token: ProviderToken?
    private let pool: ConnectionPool<APNsTransport>

    private var headers: RequestHeaders
    /// The token that `headers` carry, by its generation; 0: none yet.
    private var seenToken: UInt32 = 0
    /// The one that `TransportNote.providerTokenRenewed` was said of.
    private var announcedToken: UInt32 = 0
    private var queue = RequestQueue()
    private var suspects = SuspectQueue()
    /// When connections were made anew for a topic; `nil`: never.
    private var topicRenewalNs: Int64?
    /// Some connections answer nothing but server errors (5xx, or without a reason); looked at until they are gone, or
    /// well.
    private var hasErring = false
    private var errorRetirement: ErrorRetirement
    private var answers: AnswerWatch
    private var answersAlarm: Alarm?
    private var answersAlarmNs = Int64.max
    private var saidUnanswered: Unanswered?
    /// Why APNs refused the credential by a GOAWAY, in this turn.
    private var refusals: [ReasonCode] = []

    /// Requests that may wait here beyond the streams there are: the next ones while a completion travels.
    private static let slackLimit = 128

    /// Dials the first connections at once; with a minimum of 0, when something is to be sent.
    ///
    /// - Parameters:
    ///   - token: shared by the apps of one key on this loop; `nil`: the TLS context's client certificate says who
    ///     sends.
    ///   - dialer: opens the channels of its connections, on the loop.
    ///   - random: decides how long it is waited after a failure, within limits.
    ///   - emit: called at the end of a turn, on the loop's thread, with that turn's events: refusals of the
    ///     credential, then completions, then the others.
    package init(
        app: AppIndex, configuration: APNsConfiguration, token: ProviderToken?, loop: Loop,
        dialer: any ChannelDialer, random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.app = app
        self.configuration = configuration
        self.token = token
        self.loop = loop
        self.dialer = dialer
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        pool = ConnectionPool(
            app: app, host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, backOff: configuration.backOff, loop: loop,
            random: random, emit: emit)
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        errorRetirement = ErrorRetirement(spanNs: configuration.errorSpanNs)
        answersAlarm = Alarm(loop: loop) { [unowned self] in
            answersAlarmNs = .max
            pool.askForTurnEnd()
        }
        pool.start(for: self)
    }

    // MARK: Commands

    package func handle(_ command: TransportCommand) {
        pool.askForTurnEnd()
        switch command {
        case .send(let batch):
            if batch.contains(where: \.isSuspect) {
                queue.append(contentsOf: batch.filter { !$0.isSuspect })
                for request in batch where request.isSuspect { suspects.append(request) }
            } else {
                queue.append(contentsOf: batch)
            }
            if pool.isClosing { giveBackQueue() } else { dispatch() }
        case .recall(let ids):
            let wanted = Set(ids)
            pool.giveBack(queue.removeAll { wanted.contains($0) } + suspects.removeAll { wanted.contains($0) })
        case .close:
            giveBackQueue()
            pool.close()
        }
    }

    /// Makes all connections anew, with this configuration and token from now on: another credential, host or proxy.
    /// The old ones take no more requests and finish what is on them; what waits here waits for the first new
    /// connection, or until that cannot be made. Loop's thread.
    ///
    /// The back-off's limits stay those of the first configuration.
    package func replace(configuration: APNsConfiguration, token: ProviderToken?) {
        loop.assertOnThread()
        guard !pool.isClosing else { return }
        pool.askForTurnEnd()
        self.configuration = configuration
        pool.host = configuration.host
        if token !== self.token { announcedToken = 0 }
        self.token = token
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        seenToken = 0
        topicRenewalNs = nil
        errorRetirement.replaced()
        pool.reachability.replaced()
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        replaceConnections()
    }

    private func replaceConnections() {
        pool.replaceConnections(minimum: configuration.minimumConnections, maximum: configuration.maximumConnections)
    }

    /// Apple knows a bundle id that is new on new connections only. Where they do not help, others would not either.
    func topicDisallowed(lifeNs: Int64) {
        let nowNs = loop.now.monotonicNs
        guard !pool.isClosing, lifeNs >= configuration.topicAgeNs,
            topicRenewalNs.map({ nowNs - $0 >= configuration.topicPauseNs }) ?? true
        else { return }
        topicRenewalNs = nowNs
        note(.replacing("Apple refuses one of the app's topics on connections that are open; they are made anew"))
        replaceConnections()
    }

    /// Hands waiting requests to connections, the first one that can take each: so few connections carry full writes.
    private func dispatch() {
        dispatchSuspects()
        guard !queue.isEmpty else { return }
        if pool.plan.isAsleep { pool.tell(.wanted) }
        refreshToken()
        let connections = pool.connections
        var index = 0
        while index < connections.count, !queue.isEmpty {
            connections[index].fill(from: &queue, headers: &headers)
            index += 1
        }
    }

    /// Suspects go over their own connection, which is dialled for them.
    private func dispatchSuspects() {
        guard !suspects.isEmpty else { return }
        if pool.isClosing { return giveBackSuspects() }
        pool.tellQuarantine(.wanted)
        guard let connection = pool.quarantineConnection, connection.phase == .ready else { return }
        refreshToken()
        suspects.fill(connection, headers: &headers)
    }

    private func giveBackQueue() { pool.giveBack(queue.removeAll { _ in true }) }

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
        pool.askForTurnEnd()
        if !refusals.contains(reason) { refusals.append(reason) }
    }

    // MARK: The pool

    func dial(_ id: PoolPlan.ConnectionID, firstAddress: Int, isQuarantine: Bool) -> Connection {
        Connection(
            id: id, firstAddress: firstAddress, isQuarantine: isQuarantine, configuration: configuration,
            dialer: dialer,
            loop: loop, owner: self)
    }

    func giveBackSuspects() { pool.giveBack(suspects.removeAll { _ in true }) }

    func forgetSuspects() { suspects.forget() }

    var credentialGeneration: Int { pool.credentialGeneration }

    func settingsReceived(_ connection: Connection) { pool.opened(connection) }

    func connectionAnswered(_ connection: Connection) { pool.answered(connection) }

    func connectionWentOn(_ connection: Connection) { pool.wentOn(connection) }

    func connectionRetires(_ connection: Connection, isFault: Bool) { pool.retired(connection, isFault: isFault) }

    func connectionIdle(_ connection: Connection) { pool.idle(connection) }

    func connectionIsDirty(_ connection: Connection) { pool.becameDirty(connection) }

    func connectionClosed(_ connection: Connection, _ end: ChannelEnd) {
        if connection.isQuarantine { suspects.died(under: connection.diedUnder) }
        let why = connection.wasReady ? connection.farewell.lastWords ?? end.text : end.text
        pool.closed(connection, why: why) { pool.reachability.ended(connection.end) }
    }

    func completed(_ completion: Completion) { pool.completed(completion) }

    func text(_ text: String) -> Int32 { pool.text(text) }

    func note(_ note: TransportNote) { pool.note(note) }

    func requestsAnswered(_ connection: Connection) {
        if pool.isCurrent(connection) { answers.answered() }
    }

    func streamEnded(_ connection: Connection, _ code: ErrorCode) {
        if pool.isCurrent(connection) { answers.ended(code, nowNs: loop.now.monotonicNs) }
    }

    var refusalsLimit: Int { pool.reachability.isOnProbation ? 1 : Reachability.refusalsLimit }

    func connectionErrs(_ connection: Connection) { if !connection.isQuarantine { hasErring = true } }

    /// What others can take goes to them: so they show whether it is the connection. Then that is replaced.
    private func replaceErring() {
        let erring = pool.connections.filter { $0.phase == .ready && $0.answers.errorStreak.isLong }
        hasErring = !erring.isEmpty
        guard hasErring else { return }
        pool.putLast(erring)
        for connection in erring {
            let streak = connection.answers.errorStreak
            let isAnotherGood = pool.connections.contains { pool.isCurrent($0) && $0.answers.goodNs > streak.beganNs }
            guard errorRetirement.retires(streak, isAnotherGood: isAnotherGood, nowNs: loop.now.monotonicNs) else {
                continue
            }
            let others = isAnotherGood ? ", while other connections answer well" : ""
            note(
                .replacing(
                    "\(connection.address): the last \(streak.count) answers were server errors (5xx, or without a "
                        + "reason)\(others); the "
                        + "connection is replaced"))
            return pool.retired(connection, isFault: false)
        }
    }

    func connectionFellSilent(_ connection: Connection) {
        for other in pool.connections where other !== connection { other.askForSign() }
    }

    func isAnotherAlive(than connection: Connection, sinceNs: Int64, answers: Bool) -> Bool {
        func isAlive(_ other: Connection) -> Bool {
            other !== connection && other.credentialGeneration == connection.credentialGeneration
                && other.wasAlive(sinceNs: sinceNs, answers: answers)
        }
        return pool.connections.contains(where: isAlive) || pool.quarantineConnection.map(isAlive) == true
    }

    // MARK: What is told

    func reachMayHaveChanged() {
        let allowedNone = pool.reachability.allowsNoStream
        if pool.isAnyReady {
            pool.reachability.allow(streams: pool.connections.contains { $0.allowedStreams > 0 })
        }
        if pool.reachability.allowsNoStream, !allowedNone { note(.noStreams(host: configuration.host)) }
        pool.sayReach()
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
        pool.say(.unanswered(app: app, unanswered))
    }

    /// Whether something was handed over that a host could have answered by now.
    private var isAsked: Bool {
        // What waits for its first connection is not asked yet.
        if !queue.isEmpty, !pool.isReplacing, pool.isAnyReady { return true }
        func isAsked(_ connection: Connection) -> Bool { pool.isCurrent(connection) && connection.unanswered > 0 }
        return pool.connections.contains(where: isAsked) || pool.quarantineConnection.map(isAsked) == true
    }

    // MARK: The turn's end

    /// Fills streams that came free, writes, and says what happened.
    package func turnEnded() {
        pool.turnEnded()
        if hasErring { replaceErring() }
        dispatch()
        pool.flush()
        // Writing made room again.
        dispatch()
        pool.flush()
        let capacity = capacity
        if capacity == 0, !pool.isReplacing {
            giveBackQueue()
            reachMayHaveChanged()
            // The quarantine connection is of the same host.
            if pool.reachability.allowsNoStream { giveBackSuspects() }
        }
        noticeSaturation()
        sayUnanswered()
        // Before the completions: nothing is to be sent again with a credential that was refused.
        let refused = refusals.map { TransportEvent.credentialRefused(app: app, reason: $0) }
        refusals = []
        if pool.report(capacity: capacity, first: refused) { answersAlarm = nil }
    }

    var takenAtOnce: Int { pool.connections.reduce(0) { $0 + $1.allowedStreams } }

    /// How many requests may be unanswered at once.
    private var capacity: Int {
        if pool.isClosing { return 0 }
        let streams = takenAtOnce
        // What a connection that leaves has still to answer counts as outstanding, and takes no stream of the others.
        let leaving = pool.connections.reduce(0) { $1.phase == .draining ? $0 + $1.unanswered : $0 }
        if streams == 0, pool.plan.isOnDemand, !pool.isAnyReady {
            return leaving + Self.slackLimit
        }
        // Between two credentials there is no more to hand over, and no less: the next connection is being made.
        if streams == 0, pool.isReplacing { return pool.reportedCapacity }
        if streams == 0 { return 0 }
        if pool.reachability.isOnProbation { return leaving + 1 }
        return leaving + streams + min(streams / 8, Self.slackLimit)
    }

    /// Grows the pool when every stream stays taken while this thread has time to spare.
    private func noticeSaturation() {
        pool.noticeSaturation(
            isFull: pool.reportedCapacity > 0 && !pool.connections.isEmpty && pool.connections.allSatisfy(\.isFull))
    }
}
