internal import CLinux
internal import EventLoop
internal import HTTP2
package import Network
internal import PushRecords
internal import PushTransport

/// One HTTP/2 connection to APNs with its channel, session and window. Used on the loop's thread only.
///
/// The object exists from the dial until `channelClosed`. Every request gets one completion before the connection
/// reports its end to the transport.
package final class HTTP2Connection: PooledConnection, ByteChannelDelegate {
    private let transport: APNsTransport
    private let configuration: APNsConfiguration
    private let token: ProviderToken?
    private var session: ClientSession?
    /// Accesses are not checked at run time, because the check (`swift_beginAccess`) costs about 120 instructions a
    /// notification. Accesses cannot overlap, because each is one method call and `fill` must not use `self.window`.
    @exclusivity(unchecked) private var window: Window
    private var keepalive: Keepalive
    private var tracesFrames = false
    /// The answers on this connection. Accesses are not checked at run time, because the check costs about 120
    /// instructions, and accesses cannot overlap.
    @exclusivity(unchecked) private(set) var answers = AnswerRecord()
    private var lastToken: UInt32 = 0
    private var closedEntries: [Window.Closed] = []
    /// A limit on concurrent requests in addition to the peer's limit. On a quarantine connection it starts with 1 and
    /// doubles with each answer.
    private var limit = Int.max
    /// The size of the last body that did not fit into the peer's flow-control window.
    private var unfitBody = 1
    /// Whether the connection was given up because nothing arrived on any connection of the app. The network is then
    /// the assumed cause.
    private var isSilent = false
    /// When to reset the streams that were answered and did not end.
    private var resetNs = Int64.max
    /// Whether the worker closed the connection while no request was open on it.
    private var isExpected = false

    /// The maximum number of concurrent suspects on a quarantine connection.
    private static let quarantineLimit = 1 << 20
    /// The interval of checks for progress while the kernel has not accepted all output.
    private static let blockedCheckNs: Int64 = 100_000_000
    /// The interval of `ClientSession.resetUnended`.
    private static let resetIntervalNs: Int64 = 1_000_000_000

    init(
        _ order: DialOrder, configuration: APNsConfiguration, token: ProviderToken?, transport: APNsTransport
    ) {
        limit = order.isQuarantine ? 1 : .max
        self.configuration = configuration
        self.token = token
        self.transport = transport
        window = Window(timeoutNs: configuration.responseTimeoutNs)
        keepalive = Keepalive(limits: configuration.keepalive, nowNs: transport.loop.now.monotonicNs)
        let settings = configuration.connections
        super.init(order, settings, loop: transport.loop, outbox: transport.outbox)
        channel = transport.dialer.open(target, context: settings.tls, options: settings.channel, delegate: self)
    }

    override var unanswered: Int { window.count }

    /// The number of streams that the peer allows, or 0 if the connection accepts no requests.
    var allowedStreams: Int { phase == .ready ? session?.allowedStreams ?? 0 : 0 }

    override func judge(_ reachability: inout Reachability) {
        reachability.ended(
            wasAnswered: answers.isAnswered, wasAsked: (session?.nextStreamID ?? 1) > 1, lifeNs: lifeNs)
    }

    private var tokenGeneration: UInt32 { token?.generation ?? 0 }

    // MARK: Requests

    /// Whether the connection is not ready, all its streams are in use, or its flow-control window is too small for the
    /// last body that did not fit.
    var isFull: Bool {
        guard phase == .ready, let session else { return true }
        return session.freeStreams == 0 || !session.hasWindow(for: unfitBody)
    }

    /// Takes requests from the front of the queue until the connection has `most` requests or accepts no more.
    /// Callbacks during this call must not make the transport use `queue` or `headers`.
    func fill(from queue: inout RequestQueue, headers: inout RequestHeaders, most: Int = .max) {
        // A request sent on a connection that may be dead would be in doubt.
        guard phase == .ready, !keepalive.isInQuestion, let session, session.freeStreams > 0 else { return }
        let waiting = queue.count
        attempt { () throws(HTTP2Error) in
            try fill(session, &window, from: &queue, headers: &headers, most: min(most, limit))
        }
        // Without a new request there is nothing to send. Requesting the turn's end again would repeat the turn
        // forever.
        guard queue.count < waiting else { return }
        markDirty()
        if session.nextStreamID >= configuration.retirementStreamID { transport.retired(self, isFault: false) }
    }

    /// Fills the connection with one exclusive access to `window` for the whole batch. This method must not use
    /// `self.window`.
    private func fill(
        _ session: ClientSession, _ window: inout Window, from queue: inout RequestQueue,
        headers: inout RequestHeaders, most: Int
    ) throws(HTTP2Error) {
        let now = loop.now
        let token = tokenGeneration
        lastToken = token
        defer { crash_nowhere() }
        while !queue.isEmpty, window.count < most, session.freeStreams > 0,
            session.nextStreamID < configuration.retirementStreamID
        {
            guard session.hasWindow(for: queue.first.payload.count) || window.isEmpty else {
                unfitBody = queue.first.payload.count
                return
            }
            crash_at(queue.first.place)
            headers.write(queue.first)
            let ticket = window.open(queue.first.id, token: token, nowNs: now.monotonicNs, nowMs: now.wallMs)
            let submission: ClientSession.Submission
            do throws(HTTP2Error) {
                submission = try session.submit(
                    headers.list, body: queue.first.payload, user: ticket, keep: RequestHeaders.keep(for: queue.first))
            } catch {
                window.withdraw(ticket)
                throw error
            }
            switch submission {
            case .written(let stream, let end): window.handed(ticket, stream: stream, end: end)
            case .waiting(let stream): window.handed(ticket, stream: stream, end: nil)
            case .refused:
                window.withdraw(ticket)
                return
            }
            queue.removeFirst()
            lastUsedNs = now.monotonicNs
            if session.output.count >= Self.eagerBytes { pass(wholeRecords: true) }
        }
    }

    // MARK: The turn's end

    override func flush() {
        isDirty = false
        guard let channel, channel.isOpen, let session else { return }
        pass(wholeRecords: false)
        channel.flush()
        if tracesFrames { noteFrames(session) }
        let nowNs = loop.now.monotonicNs
        window.didWrite(upTo: channel.writtenBytes, nowNs: nowNs)
        keepalive.waits(for: session.isReady ? window.count : 1, nowNs: nowNs)
        // The session ends when all streams are answered after a GOAWAY, or when the peer violates the protocol.
        let isFinished = session.isFinished
        if isFinished, !window.isEmpty || session.errorText != nil {
            giveUp(session.errorText ?? "the HTTP/2 session ended with unanswered requests")
        } else if window.isEmpty, isFinished || phase == .draining {
            isExpected = true
            try? session.goAway()
            pass(wholeRecords: false)
            channel.close()
        } else {
            setAlarm()
        }
    }

    /// Moves output into the channel until the channel is full.
    private func pass(wholeRecords: Bool) {
        guard let channel, let session else { return }
        attempt { () throws(HTTP2Error) in
            while true {
                let output = session.output
                let offered = wholeRecords ? output.count & ~(SecureChannel.recordLimit - 1) : output.count
                guard offered > 0 else { return }
                let taken = channel.send(UnsafeRawBufferPointer(rebasing: output[0..<offered]))
                try session.consumeOutput(taken)
                if taken < offered { return }
            }
        }
    }

    /// Runs `body`, and gives the connection up if the session fails.
    @inline(__always)
    private func attempt(_ body: () throws(HTTP2Error) -> Void) {
        do throws(HTTP2Error) {
            try body()
        } catch {
            giveUp(error.text)
        }
    }

    /// Gives the connection up because nothing arrived after `sinceNs`. If no other connection with the same credential
    /// received bytes (or, with `answers`, responses) either, the network counts as the cause, and not a request on
    /// this connection.
    private func giveUpSilent(_ reason: String, sinceNs: Int64, answers: Bool) {
        let othersLived = transport.allConnections.contains { other in
            other !== self && other.order.replacements == order.replacements
                && other.wasAlive(sinceNs: sinceNs, answers: answers)
        }
        isSilent = !othersLived
        giveUp(othersLived ? "\(reason), while other connections received data" : reason)
    }

    /// Returns whether bytes (or, with `answers`, responses) arrived on this connection after `sinceNs`.
    func wasAlive(sinceNs: Int64, answers: Bool) -> Bool {
        (phase == .ready || phase == .draining) && (answers ? self.answers.respondedNs : keepalive.receivedNs) > sinceNs
    }

    /// Sends a PING, whose answer shows other connections that the network works.
    func askForSign() {
        guard phase == .ready, !keepalive.isInQuestion, let session else { return }
        attempt(session.ping)
        markDirty()
    }

    // MARK: Channel

    package func channelOpened(applicationProtocol: String?) {
        guard phase == .dialing else { return }
        guard applicationProtocol == "h2" else {
            return giveUp("\(address): the server did not select HTTP/2 in the TLS handshake (ALPN h2)")
        }
        var options = ClientSession.Options()
        options.wantedHeaders = RequestHeaders.wantedHeaders
        options.bodilessStatus = 200
        options.indexAuthorization = configuration.indexAuthorization
        tracesFrames = configuration.tracesFrames()
        options.tracesFrames = tracesFrames
        attempt { () throws(HTTP2Error) in session = try ClientSession(options: options) }
        phase = .opening
        opened(nowNs: loop.now.monotonicNs)
        keepalive.received(nowNs: lastUsedNs)
        markDirty()
    }

    package func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard let session, let channel else { return }
        let nowNs = loop.now.monotonicNs
        window.didWrite(upTo: channel.writtenBytes, nowNs: nowNs)
        keepalive.received(nowNs: nowNs)
        markDirty()
        attempt { () throws(HTTP2Error) in try session.receive(bytes) }
        drainEvents(session)
        if let errors = session.takePeerErrors() {
            outbox.note(.peerErrors(goAways: errors.goAways, resets: errors.resets))
        }
    }

    package func channelWritable() { markDirty() }

    package func channelClosed(_ end: ChannelEnd) {
        if let session {
            drainEvents(session)
            if tracesFrames { noteFrames(session) }
        }
        // Include the bytes that the kernel accepted last: a request whose END_STREAM was written is in doubt.
        window.lost(written: channel?.writtenBytes ?? 0, isSilent: isSilent, into: &closedEntries)
        if isQuarantine, !isSilent {
            transport.suspects.died(under: closedEntries.filter(\.connectionDied).map(\.id))
        }
        let unanswered = closedEntries.count
        completeClosedEntries()
        let text = isExpected && unanswered == 0 ? "closed after all requests were answered" : fault
        let reason = text.map { "\(address): \($0)" } ?? end.text
        close(end, reason: reason, unanswered: unanswered)
        transport.closed(self, why: wasReady ? peerSaid ?? reason : reason)
    }

    private func noteFrames(_ session: ClientSession) {
        for head in session.takeFrameHeads() {
            outbox.note(
                .frame(
                    address: address, isSent: head.isSent, type: head.typeName, flags: head.flagNames,
                    stream: Int(head.stream), length: head.length))
        }
    }

    // MARK: Events

    private func drainEvents(_ session: ClientSession) {
        var hasResponses = false
        while let event = session.nextEvent() {
            switch event {
            case .ended(let ticket, let code, 0):
                answers.respondedNs = loop.now.monotonicNs
                guard let closed = window.ended(ticket, isRefused: code == .refusedStream) else { continue }
                if !isSuperseded { transport.answers.ended(code, nowNs: loop.now.monotonicNs) }
                complete(closed)
                if closed.unprocessed == .refusedByPeer { refused() }
            case .response(let ticket, let status), .ended(let ticket, _, let status):
                // If the stream ended after the status, the received part of the body is used.
                hasResponses = true
                responded(ticket, status, session)
            case .bodySent(let ticket, let end): window.bodySent(ticket, end: end)
            case .goAway(let last, let code): goneAway(last: last, code: code, session)
            case .settings: settingsCame(session)
            case .pong: break
            }
        }
        guard hasResponses else { return }
        answers.respondedNs = loop.now.monotonicNs
        // Any status shows that the host answers.
        if !isSuperseded { transport.answers.answered() }
        if answers.isAnswered, answers.errors == 0 { transport.wentOn(self) }
    }

    private func responded(_ ticket: UInt32, _ status: UInt16, _ session: ClientSession) {
        if isQuarantine, limit < Self.quarantineLimit { limit *= 2 }
        guard let closed = window.responded(ticket) else { return }
        var completion = Completion(id: closed.id, kind: .answered, status: status, sentAtMs: closed.sentAtMs)
        var sentID = session.responseHeader(0)
        if sentID.isEmpty { sentID = session.responseHeader(2) }
        completion.apnsID = NotificationUUID(text: sentID) ?? .none
        let uniqueID = session.responseHeader(1)
        if !uniqueID.isEmpty {
            completion.uniqueIDText = outbox.text(String(decoding: uniqueID.prefix(100), as: UTF8.self))
        }
        if status == 200 {
            answers.succeeded()
            answered()
        } else {
            let body = ErrorBody(parsing: session.responseBody)
            if AnswerOrigin.isHostFailure(status, body.reason) { failed() } else { answers.succeeded() }
            completion.reason = body.reason
            if status == 410 {
                // If the timestamp cannot be read, the time of the request is used, because the token was already dead
                // then. A timestamp in the future becomes the current time, because consumers would otherwise delete
                // tokens that devices register before that timestamp.
                completion.unregisteredAtMs =
                    body.isTimestampUnusable ? closed.sentAtMs : min(body.timestampMs, transport.loop.now.wallMs)
            }
            if let text = body.text { completion.reasonText = outbox.text(text) }
            if body.reason == .topicDisallowed, !isSuperseded { transport.topicDisallowed(lifeNs: lifeNs) }
            handle(body.reason, isCurrentToken: !carriedOlder(closed.token))
            // Compare after `handle`: it may have renewed the token because of this answer.
            completion.carriedOlderToken = carriedOlder(closed.token)
        }
        outbox.complete(completion)
    }

    private func answered() {
        if answers.answered() { transport.answered(self) }
    }

    private func failed() {
        answers.failed(nowNs: loop.now.monotonicNs)
        if answers.isErring, !isQuarantine { transport.hasErring = true }
    }

    /// Retires the connection if its peer has refused too many streams before its first answer.
    private func refused() {
        guard !isQuarantine, let count = answers.refused(),
            count >= (transport.reachability.isOnProbation ? 1 : Reachability.refusalsLimit)
        else { return }
        if peerSaid == nil { peerSaid = "\(address): the peer refused every stream" }
        transport.retired(self, isFault: true)
    }

    /// Retires the connection or renews the provider token, if the reason of an answer requires it.
    private func handle(_ reason: ReasonCode, isCurrentToken: Bool) {
        switch reason {
        case .unrelatedKeyIdInToken, .tooManyProviderTokenUpdates:
            peerSaid = reason.text.map { "\(address): answered \($0)" }
            transport.retired(self, isFault: true)
        case .shutdown, .idleTimeout:
            // The answer shows neither a fault nor that the host works. If other requests on this connection were
            // answered, the next connection is dialed immediately.
            peerSaid = reason.text.map { "\(address): answered \($0)" }
            transport.retired(self, isFault: !answers.isAnswered)
        case .expiredProviderToken:
            answered()
            if isCurrentToken { token?.renewIfAllowed(now: loop.now) }
        default: answered()
        }
    }

    private func complete(_ closed: Window.Closed) {
        outbox.complete(
            Completion(
                id: closed.id, kind: closed.kind, unprocessed: closed.unprocessed, sentAtMs: closed.sentAtMs,
                connectionDied: closed.connectionDied, connectionWasSilent: closed.wasSilent,
                carriedOlderToken: carriedOlder(closed.token)))
    }

    /// Returns whether a resend would use a newer provider token than this one, or a connection that replaced this one.
    private func carriedOlder(_ token: UInt32) -> Bool {
        token != tokenGeneration || isSuperseded
    }

    private func completeClosedEntries() {
        for closed in closedEntries { complete(closed) }
        closedEntries.removeAll(keepingCapacity: true)
    }

    private func goneAway(last: Int32, code: ErrorCode, _ session: ClientSession) {
        let body = session.goAwayData.withUnsafeBytes { ErrorBody(parsing: $0) }
        let isGraceful = answers.isAnswered && body.reason.isOrderlyEnd(code)
        window.goneAway(last: last, isGraceful: isGraceful, into: &closedEntries)
        let unprocessed = closedEntries.count
        completeClosedEntries()
        let said =
            body.text ?? body.reason.text?.description
            ?? String(decoding: session.goAwayData.prefix(200), as: UTF8.self)
        let reason = said.isEmpty ? "\(code)" : "\(code) \(said)"
        peerSaid = "\(address): GOAWAY \(reason)"
        outbox.note(.peerCloses(address: address, reason: "GOAWAY \(reason)", unprocessed: unprocessed))
        if body.reason.refusesConnections, !isSuperseded { credentialRefused(body.reason) }
        transport.retired(self, isFault: !isGraceful)
    }

    /// Reports that the credential was refused. Does nothing if there is a newer token than that of the last requests,
    /// or if such a token can be created after ExpiredProviderToken.
    private func credentialRefused(_ reason: ReasonCode) {
        if lastToken != 0, lastToken != tokenGeneration { return }
        if reason == .expiredProviderToken {
            token?.renewIfAllowed(now: loop.now)
            if lastToken != tokenGeneration { return }
        }
        transport.credentialRefused(reason)
    }

    private func settingsCame(_ session: ClientSession) {
        if phase == .opening {
            phase = .ready
            wasReady = true
            outbox.note(.connected(address: address, streams: session.allowedStreams))
        }
        transport.opened(self)
    }

    // MARK: Time

    private var idleNs: Int64 { isQuarantine ? configuration.quarantineIdleNs : configuration.connections.idleNs }

    private func setAlarm() {
        if resetNs == .max, session?.hasUnended == true { resetNs = loop.now.monotonicNs + Self.resetIntervalNs }
        var next = min(keepalive.nextDeadlineNs, retirementNs, window.nextDeadlineNs, resetNs)
        if phase == .ready && window.isEmpty { next = min(next, lastUsedNs + idleNs) }
        if let channel, channel.writtenBytes < channel.sentBytes {
            next = min(next, loop.now.monotonicNs + Self.blockedCheckNs)
        }
        setAlarm(atNs: next)
    }

    override func alarmRang() {
        guard phase != .closed, let session, let channel else { return }
        let nowNs = loop.now.monotonicNs
        drainEvents(session)
        window.didWrite(upTo: channel.writtenBytes, nowNs: nowNs)
        do throws(HTTP2Error) {
            while let expiry = window.expire(nowNs: nowNs) {
                switch expiry {
                case .entry(let stream, let closed):
                    complete(closed)
                    try session.cancel(stream: stream)
                case .connection:
                    let reason = "no answer for \(configuration.responseTimeoutNs / 1_000_000) ms"
                    let sinceNs = nowNs - configuration.responseTimeoutNs / 2
                    // The peer is alive but leaves a request unanswered. Count a connection loss for each request, so
                    // that none is resent forever.
                    if keepalive.receivedNs > sinceNs { return giveUp("\(reason), although the peer answers PINGs") }
                    return giveUpSilent(reason, sinceNs: sinceNs, answers: true)
                }
            }
            if nowNs >= resetNs {
                resetNs = .max
                try session.resetUnended()
            }
            switch keepalive.check(nowNs: nowNs) {
            case .nothing: break
            case .ping:
                try session.ping()
                // Answers on other connections show whether the network is the cause of the silence.
                if !window.isEmpty { for other in transport.connections where other !== self { other.askForSign() } }
            case .dead(let pingedNs):
                return giveUpSilent("no answer to a PING", sinceNs: pingedNs, answers: false)
            }
        } catch {
            return giveUp(error.text)
        }
        transport.checkTimes(of: self, isEmpty: window.isEmpty, idleNs: idleNs)
        markDirty()
    }
}
