internal import CLinux
internal import EventLoop
internal import HTTP2
package import Network
internal import PushRecords
internal import PushTransport

/// One HTTP/2 connection to APNs: channel, session and window. Loop's thread.
///
/// It lives from its dial until `channelClosed`. Every request gets one completion before the transport is told that
/// the connection is closed.
package final class HTTP2Connection: PooledConnection, ByteChannelDelegate {
    private let transport: APNsTransport
    private let configuration: APNsConfiguration
    private let token: ProviderToken?
    private var session: ClientSession?
    /// Unchecked: the run-time check (`swift_beginAccess`) costs some 120 instructions a notification. No two accesses
    /// overlap: each is one method call, and `fill` must not touch `self.window`.
    @exclusivity(unchecked) private var window: Window
    private var keepalive: Keepalive
    private var tracesFrames = false
    /// Unchecked, as the window is.
    @exclusivity(unchecked) private(set) var answers = AnswerRecord()
    private var lastToken: UInt32 = 0
    private var lastUsedNs: Int64 = 0
    private var closedEntries: [Window.Closed] = []
    /// Requests on it at once, whatever the peer allows; in quarantine one, doubled with each answer.
    private var limit = Int.max
    /// Bytes of the last body that the peer's window had no room for.
    private var unfitBody = 1
    /// Given up because nothing came any more, here or elsewhere: the network's fault.
    private var isSilent = false

    /// Suspects at once, however many answers came.
    private static let quarantineLimit = 1 << 20
    /// While the kernel takes nothing, how often to look whether it did.
    private static let blockedCheckNs: Int64 = 100_000_000

    init(
        _ order: DialOrder, configuration: APNsConfiguration, token: ProviderToken?, transport: APNsTransport
    ) {
        limit = order.isQuarantine ? 1 : .max
        self.configuration = configuration
        self.token = token
        self.transport = transport
        window = Window(timeoutNs: configuration.responseTimeoutNs)
        keepalive = Keepalive(limits: configuration.keepalive, nowNs: transport.loop.now.monotonicNs)
        super.init(
            order, host: configuration.host, port: configuration.port, proxy: configuration.proxy,
            loop: transport.loop, outbox: transport.outbox)
        channel = transport.dialer.open(
            target, context: configuration.tls, options: configuration.channel, delegate: self)
    }

    override var unanswered: Int { window.count }

    /// Streams that the peer allows; 0 unless it takes requests.
    var allowedStreams: Int { phase == .ready ? session?.allowedStreams ?? 0 : 0 }

    override func judge(_ reachability: inout Reachability) {
        reachability.ended(
            wasAnswered: answers.isAnswered, wasAsked: (session?.nextStreamID ?? 1) > 1, lifeNs: lifeNs)
    }

    private var tokenGeneration: UInt32 { token?.generation ?? 0 }

    // MARK: Requests

    /// Whether every stream is taken, or the window of the whole connection too small for what came last.
    var isFull: Bool {
        guard phase == .ready, let session else { return true }
        return session.freeStreams == 0 || !session.hasWindow(for: unfitBody)
    }

    /// Takes requests from the queue's front until `most` are on the connection. Events meanwhile must not make the
    /// transport touch `queue` or `headers`.
    func fill(from queue: inout RequestQueue, headers: inout RequestHeaders, most: Int = .max) {
        // Whatever went out now on a dead connection would be in doubt.
        guard phase == .ready, !keepalive.isInQuestion, let session, session.freeStreams > 0 else { return }
        let waiting = queue.count
        attempt { () throws(HTTP2Error) in
            try fill(session, &window, from: &queue, headers: &headers, most: min(most, limit))
        }
        // Nothing taken is nothing to send: asking for the turn's end again and again would never end the turn.
        guard queue.count < waiting else { return }
        markDirty()
        if session.nextStreamID >= configuration.retirementStreamID { transport.retired(self, isFault: false) }
    }

    /// One access to the window for the whole batch; nothing in here may touch `self.window`.
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
            let submission: Submission
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
        // After a GOAWAY whose streams are all answered, or after the peer broke the protocol.
        let isFinished = session.isFinished
        if isFinished, !window.isEmpty || session.errorText != nil {
            giveUp(session.errorText ?? "the HTTP/2 session ended")
        } else if window.isEmpty, isFinished || phase == .draining {
            disconnectReason.isExpected = true
            try? session.goAway()
            pass(wholeRecords: false)
            channel.close()
        } else {
            setAlarm()
        }
    }

    /// Moves output into the channel, as far as it takes it.
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

    /// Gives the connection up where the session breaks.
    @inline(__always)
    private func attempt(_ body: () throws(HTTP2Error) -> Void) {
        do throws(HTTP2Error) {
            try body()
        } catch {
            giveUp(error.text)
        }
    }

    /// Gives it up because it was silent since then. Where no other connection lived meanwhile, by bytes or by
    /// `answers`, no request on it is at fault.
    private func giveUpSilent(_ reason: String, sinceNs: Int64, answers: Bool) {
        let othersLived = transport.othersLived(than: self, sinceNs: sinceNs, answers: answers)
        isSilent = !othersLived
        giveUp(othersLived ? "\(reason), while other connections lived" : reason)
    }

    /// Whether bytes came after that time, or (`answers`) responses.
    func wasAlive(sinceNs: Int64, answers: Bool) -> Bool {
        (phase == .ready || phase == .draining) && (answers ? self.answers.respondedNs : keepalive.receivedNs) > sinceNs
    }

    /// Asks the peer for a sign of life that others may need.
    func askForSign() {
        guard phase == .ready, !keepalive.isInQuestion, let session else { return }
        attempt(session.ping)
        markDirty()
    }

    // MARK: Channel

    package func channelOpened(applicationProtocol: String?) {
        guard phase == .dialing else { return }
        guard applicationProtocol == "h2" else {
            return giveUp("\(address): the server did not agree on HTTP/2 (ALPN h2)")
        }
        var options = ClientSessionOptions()
        options.wantedHeaders = RequestHeaders.wantedHeaders
        options.indexAuthorization = configuration.indexAuthorization
        tracesFrames = configuration.tracesFrames()
        options.tracesFrames = tracesFrames
        attempt { () throws(HTTP2Error) in session = try ClientSession(options: options) }
        phase = .opening
        lastUsedNs = loop.now.monotonicNs
        opened(nowNs: lastUsedNs)
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
        if answers.readEnded(answers: window.answers, nowNs: nowNs) { transport.wentOn(self) }
    }

    package func channelWritable() { markDirty() }

    package func channelClosed(_ end: ChannelEnd) {
        // Whether a body's end was written meanwhile decides what is in doubt.
        if let session {
            drainEvents(session)
            if tracesFrames { noteFrames(session) }
        }
        window.lost(written: channel?.writtenBytes ?? 0, isSilent: isSilent, into: &closedEntries)
        if isQuarantine, !isSilent {
            transport.suspects.died(under: closedEntries.filter(\.connectionDied).map(\.id))
        }
        let unanswered = closedEntries.count
        completeClosedEntries()
        let text =
            disconnectReason.isExpected && unanswered == 0
            ? "closed, with nothing left to answer" : disconnectReason.fault
        let reason = text.map { "\(address): \($0)" } ?? end.text
        close(end, reason: reason, unanswered: unanswered)
        transport.closed(self, why: wasReady ? disconnectReason.peerSaid ?? reason : reason)
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
            case .response(let ticket, let status):
                hasResponses = true
                responded(ticket, status, session)
            case .ended(let ticket, let code, let status):
                guard let closed = window.ended(ticket, isRefused: code == .refusedStream, status: status) else {
                    continue
                }
                if status != 0 {
                    hasResponses = true
                } else if !isSuperseded {
                    transport.hostEnded(code)
                }
                complete(closed, status: status)
                if closed.unprocessed == .refusedByPeer { refused() }
            case .bodySent(let ticket, let end): window.bodySent(ticket, end: end)
            case .goAway(let last, let code): goneAway(last: last, code: code, session)
            case .settings: settingsCame(session)
            case .pong: break
            }
        }
        if hasResponses, !isSuperseded { transport.hostAnswered() }
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
            answers.wasGood()
            answered()
        } else {
            let body = ErrorBody(parsing: session.responseBody)
            if AnswerOrigin.isHostFailure(status, body.reason) { failed() } else { answers.wasGood() }
            completion.reason = body.reason
            if status == 410 {
                // A token that is dead was dead when this was sent, whatever the time is that cannot be read.
                completion.unregisteredAtMs = body.isTimestampUnusable ? closed.sentAtMs : body.timestampMs
            }
            if let text = body.text { completion.reasonText = outbox.text(text) }
            if body.reason == .topicDisallowed, !isSuperseded { transport.topicDisallowed(lifeNs: lifeNs) }
            handle(body.reason, isCurrentToken: !carriedOlder(closed.token))
            // After that: a token that was renewed for this answer is newer than the request's.
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

    /// A peer that refuses stream after stream and never answers is of no use.
    private func refused() {
        guard !isQuarantine, let count = answers.refused(),
            count >= (transport.reachability.isOnProbation ? 1 : Reachability.refusalsLimit)
        else { return }
        if disconnectReason.peerSaid == nil { disconnectReason.peerSaid = "\(address): refused every stream" }
        transport.retired(self, isFault: true)
    }

    /// What an answer says about the connection or the token, beyond its own notification.
    private func handle(_ reason: ReasonCode, isCurrentToken: Bool) {
        switch reason {
        case .unrelatedKeyIdInToken, .tooManyProviderTokenUpdates:
            disconnectReason.peerSaid = reason.text.map { "\(address): answered \($0)" }
            transport.retired(self, isFault: true)
        case .shutdown, .idleTimeout:
            // No fault, and no answer that speaks for the host: its successor is dialled at once after other answers.
            disconnectReason.peerSaid = reason.text.map { "\(address): answered \($0)" }
            transport.retired(self, isFault: !answers.isAnswered)
        case .expiredProviderToken:
            answered()
            if isCurrentToken { _ = token?.renewIfAllowed(now: loop.now) }
        default: answered()
        }
    }

    private func complete(_ closed: Window.Closed, status: UInt16 = 0) {
        outbox.complete(
            Completion(
                id: closed.id, kind: closed.kind, unprocessed: closed.unprocessed, status: status,
                sentAtMs: closed.sentAtMs,
                connectionDied: closed.connectionDied, connectionWasSilent: closed.wasSilent,
                carriedOlderToken: carriedOlder(closed.token)))
    }

    /// Whether the transport would send another token, or another credential, by now.
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
        disconnectReason.peerSaid = "\(address): GOAWAY \(reason)"
        outbox.note(.peerCloses(address: address, reason: "GOAWAY \(reason)", unprocessed: unprocessed))
        if body.reason.refusesConnections, !isSuperseded { credentialRefused(body.reason) }
        transport.retired(self, isFault: !isGraceful)
    }

    /// Unless a newer token than its last requests carried is there, or can be made.
    private func credentialRefused(_ reason: ReasonCode) {
        if lastToken != 0, lastToken != tokenGeneration { return }
        if reason == .expiredProviderToken {
            _ = token?.renewIfAllowed(now: loop.now)
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

    private var idleNs: Int64 { isQuarantine ? configuration.quarantineIdleNs : configuration.idleConnectionNs }

    private func setAlarm() {
        var next = min(keepalive.nextDeadlineNs, retirementNs)
        if let deadlineNs = window.nextDeadlineNs { next = min(next, deadlineNs) }
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
                case .connection where keepalive.receivedNs > nowNs - configuration.responseTimeoutNs / 2:
                    // The peer lives, and leaves something unanswered: the try counts, so that retries end.
                    return giveUp(
                        "nothing was answered for \(configuration.responseTimeoutNs / 1_000_000) ms by a peer that lives"
                    )
                case .connection:
                    return giveUpSilent(
                        "nothing was answered for \(configuration.responseTimeoutNs / 1_000_000) ms",
                        sinceNs: nowNs - configuration.responseTimeoutNs / 2, answers: true)
                }
            }
            switch keepalive.check(nowNs: nowNs) {
            case .nothing: break
            case .ping:
                try session.ping()
                // The other connections show whether it is the network.
                if !window.isEmpty { transport.askOthersForSign(than: self) }
            case .dead(let pingedNs):
                return giveUpSilent("nothing came after a PING", sinceNs: pingedNs, answers: false)
            }
        } catch {
            return giveUp(error.text)
        }
        if phase == .ready, window.isEmpty, nowNs - lastUsedNs >= idleNs {
            // Asked again after another such time.
            lastUsedNs = nowNs
            transport.idle(self)
        }
        if takesRetirement(nowNs: nowNs) { transport.aged(self) }
        markDirty()
    }
}
