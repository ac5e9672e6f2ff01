package import EventLoop
internal import HTTP2
package import Network
internal import PushRecords
package import PushTransport
package import TLS

/// Sends one app's notifications to APNs over HTTP/2: a pool of connections on one loop. Loop's thread.
///
/// Every request of `TransportCommand.send` is answered by exactly one completion, gathered with those of the same
/// turn. It keeps itself and its connections alive until `close` was answered by `TransportEvent.closed`.
package final class APNsTransport: Transport, TurnEnder {
    private var configuration: APNsConfiguration
    private let loop: Loop
    private let dialer: any ChannelDialer
    private var token: ProviderToken?
    private let outbox: Outbox
    private let pool: ConnectionPool<Connection>

    private var headers: RequestHeaders
    /// The token that `headers` carry, by its generation; 0: none yet.
    private var seenToken: UInt32 = 0
    /// The one that `TransportNote.providerTokenRenewed` was said of.
    private var announcedToken: UInt32 = 0
    private var queue = RequestQueue()
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
        self.configuration = configuration
        self.token = token
        self.loop = loop
        self.dialer = dialer
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        outbox = Outbox(app: app, loop: loop, emit: emit)
        pool = ConnectionPool(
            outbox: outbox, host: configuration.host, minimum: configuration.minimumConnections,
            maximum: configuration.maximumConnections, backOff: configuration.backOff, loop: loop, random: random)
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        errorRetirement = ErrorRetirement(spanNs: configuration.errorSpanNs)
        answersAlarm = Alarm(loop: loop) { [unowned self] in
            answersAlarmNs = .max
            outbox.askForTurnEnd()
        }
        outbox.start(for: self)
        pool.start { [unowned self] order in
            Connection(
                order, configuration: self.configuration, token: self.token, dialer: dialer, loop: loop, outbox: outbox,
                report: take)
        }
    }

    // MARK: Commands

    package func handle(_ command: TransportCommand) {
        outbox.askForTurnEnd()
        switch command {
        case .send(let batch):
            if batch.contains(where: \.isSuspect) {
                queue.append(contentsOf: batch.filter { !$0.isSuspect })
                for request in batch where request.isSuspect { pool.suspects.append(request) }
            } else {
                queue.append(contentsOf: batch)
            }
            if pool.isClosing { giveBackQueue() } else { dispatch() }
        case .recall(let ids):
            let wanted = Set(ids)
            outbox.giveBack(
                queue.removeAll { wanted.contains($0) } + pool.suspects.removeAll { wanted.contains($0) })
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
        outbox.askForTurnEnd()
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
    private func topicDisallowed(lifeNs: Int64) {
        let nowNs = loop.now.monotonicNs
        guard !pool.isClosing, lifeNs >= configuration.topicAgeNs,
            topicRenewalNs.map({ nowNs - $0 >= configuration.topicPauseNs }) ?? true
        else { return }
        topicRenewalNs = nowNs
        outbox.note(
            .replacing("Apple refuses one of the app's topics on connections that are open; they are made anew"))
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
        guard !pool.suspects.isEmpty else { return }
        if pool.isClosing { return pool.giveBackSuspects() }
        pool.tellQuarantine(.wanted)
        guard let connection = pool.quarantineConnection, connection.isReady else { return }
        refreshToken()
        pool.suspects.hand(unanswered: { connection.unanswered }) { queue, most in
            connection.fill(from: &queue, headers: &headers, most: most)
        }
    }

    private func giveBackQueue() { outbox.giveBack(queue.removeAll { _ in true }) }

    // MARK: Provider token

    /// Makes requests carry the current token, which another app with the same key may have renewed.
    private func refreshToken() {
        guard let token else { return }
        _ = token.refresh(now: loop.now)
        guard token.generation != seenToken else { return }
        seenToken = token.generation
        headers.setAuthorization(token.headerValue)
        guard token.generation != announcedToken else { return }
        announcedToken = token.generation
        outbox.note(.providerTokenRenewed(keyID: token.keyID, issuedMs: token.issuedMs))
    }

    // MARK: What connections report

    private func take(_ connection: Connection, _ event: Connection.Event) {
        switch event {
        case .settingsReceived: pool.opened(connection)
        case .answered: pool.answered(connection)
        case .wentOn: pool.wentOn(connection)
        case .responded: if !connection.isSuperseded { answers.answered() }
        case .streamEnded(let code):
            if !connection.isSuperseded { answers.ended(code, nowNs: loop.now.monotonicNs) }
        case .erring: if !connection.isQuarantine { hasErring = true }
        case .refused(let count):
            // A peer that refuses stream after stream and never answers is of no use.
            guard count >= (pool.reachability.isOnProbation ? 1 : Reachability.refusalsLimit) else { return }
            connection.giveUpRefusing()
            pool.retired(connection, isFault: true)
        case .retired(let isFault): pool.retired(connection, isFault: isFault)
        case .idle: pool.idle(connection)
        case .fellSilent: for other in pool.connections where other !== connection { other.askForSign() }
        case .silent(let reason, let sinceNs, let answers):
            let othersLived = pool.allConnections.contains { other in
                other !== connection && other.order.replacements == connection.order.replacements
                    && other.wasAlive(sinceNs: sinceNs, answers: answers)
            }
            connection.giveUpSilent(reason, othersLived: othersLived)
        case .topicDisallowed(let lifeNs): topicDisallowed(lifeNs: lifeNs)
        case .credentialRefused(let reason):
            outbox.askForTurnEnd()
            if !refusals.contains(reason) { refusals.append(reason) }
        case .closed(let end):
            if connection.isQuarantine { pool.suspects.died(under: connection.diedUnder) }
            let why = connection.wasReady ? connection.disconnectReason.peerSaid ?? end.text : end.text
            pool.closed(connection, why: why) { $0.ended(connection.end) }
        }
    }

    /// What others can take goes to them: so they show whether it is the connection. Then that is replaced.
    private func replaceErring() {
        let erring = pool.connections.filter { $0.phase == .ready && $0.answers.errorStreak.isLong }
        hasErring = !erring.isEmpty
        guard hasErring else { return }
        pool.putLast(erring)
        for connection in erring {
            let streak = connection.answers.errorStreak
            let isAnotherGood = pool.connections.contains { !$0.isSuperseded && $0.answers.goodNs > streak.beganNs }
            guard errorRetirement.retires(streak, isAnotherGood: isAnotherGood, nowNs: loop.now.monotonicNs) else {
                continue
            }
            let others = isAnotherGood ? ", while other connections answer well" : ""
            outbox.note(
                .replacing(
                    "\(connection.address): the last \(streak.count) answers were server errors (5xx, or without a "
                        + "reason)\(others); the "
                        + "connection is replaced"))
            return pool.retired(connection, isFault: false)
        }
    }

    // MARK: What is told

    private func updateReach() {
        let allowedNone = pool.reachability.allowsNoStream
        if pool.isAnyReady {
            pool.reachability.allow(streams: pool.connections.contains { $0.allowedStreams > 0 })
        }
        if pool.reachability.allowsNoStream, !allowedNone { outbox.note(.noStreams(host: configuration.host)) }
        pool.updateReach()
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
        outbox.append(.unanswered(app: outbox.app, unanswered))
    }

    /// Whether something was handed over that a host could have answered by now.
    private var isAsked: Bool {
        // What waits for its first connection is not asked yet.
        if !queue.isEmpty, !pool.isReplacing, pool.isAnyReady { return true }
        func isAsked(_ connection: Connection) -> Bool { !connection.isSuperseded && connection.unanswered > 0 }
        return pool.connections.contains(where: isAsked) || pool.quarantineConnection.map(isAsked) == true
    }

    // MARK: The turn's end

    /// Fills streams that came free, writes, and says what happened.
    package func turnEnded() {
        outbox.turnEnds()
        if hasErring { replaceErring() }
        dispatch()
        pool.flush()
        // Writing made room again.
        dispatch()
        pool.flush()
        let streams = pool.connections.reduce(0) { $0 + $1.allowedStreams }
        let capacity = capacity(streams: streams)
        let isUseless = capacity == 0 && !pool.isReplacing
        if isUseless { giveBackQueue() }
        if isUseless || pool.isReachStale { updateReach() }
        // The quarantine connection is of the same host.
        if isUseless, pool.reachability.allowsNoStream { pool.giveBackSuspects() }
        noticeSaturation()
        sayUnanswered()
        // Before the completions: nothing is to be sent again with a credential that was refused.
        let refused = refusals.map { TransportEvent.credentialRefused(app: outbox.app, reason: $0) }
        refusals = []
        if pool.report(capacity: capacity, streams: streams, first: refused) { answersAlarm = nil }
    }

    /// How many requests may be unanswered at once.
    ///
    /// - Parameter streams: what the open connections allow.
    private func capacity(streams: Int) -> Int {
        if pool.isClosing { return 0 }
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

/// How one app reaches APNs. Checked before it comes here: the key is loaded, names and ids are printable ASCII.
package struct APNsConfiguration: Sendable {
    package var host: String
    /// 443 or 2197.
    package var port: UInt16
    package var proxy: DialTarget.Proxy?
    /// Trust, ALPN `h2`, and the client certificate when there is no provider token.
    package var tls: ClientContext
    package var minimumConnections = 1
    package var maximumConnections = 8
    /// A request that has no response so long after END_STREAM was sent is in doubt.
    package var responseTimeoutNs: Int64 = 30_000_000_000
    /// A host that was asked and answered nothing for so long is told of (`TransportEvent.unanswered`). Above what a
    /// slow answer takes, and below the 10 s within which what is wrong is named.
    package var unansweredNs: Int64 = 9_000_000_000
    /// See `AuthorizationIndexing`: 155 bytes less a request.
    package var indexAuthorization = true
    package var keepalive = Keepalive.Limits()
    package var backOff = BackOff.Limits()
    package var channel = ChannelOptions()
    /// Whether a connection that is made now notes the head of each frame (`TransportNote.frame`).
    package var tracesFrames: @Sendable () -> Bool = { false }
    /// A connection beyond the minimum that was unused for so long closes.
    package var idleConnectionNs: Int64 = 600_000_000_000
    /// The quarantine connection closes when it was unused for so long.
    package var quarantineIdleNs: Int64 = 60_000_000_000
    /// How long a connection may answer only server errors, while others answer well, before it is replaced
    /// (`ErrorStreak`).
    package var errorSpanNs = ErrorStreak.spanNs
    /// TopicDisallowed over a connection of at least this age makes all connections anew...
    package var topicAgeNs: Int64 = 60_000_000_000
    /// ... no more than once in so long.
    package var topicPauseNs: Int64 = 900_000_000_000
    /// A connection retires when its next stream id reaches this (they end at 2^31).
    package var retirementStreamID: UInt32 = 1 << 30

    package init(host: String, port: UInt16 = 443, tls: ClientContext) {
        self.host = host
        self.port = port
        self.tls = tls
    }

    /// `:authority`; RFC 9113, 8.3.1: without the scheme's own port.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? name : "\(name):\(port)"
    }
}
