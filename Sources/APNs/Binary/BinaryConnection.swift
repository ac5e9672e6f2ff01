internal import CLinux
internal import EventLoop
package import Network
internal import PushRecords
internal import PushTransport

/// One connection to a gateway of the binary protocol. Used on the loop's thread only.
///
/// Before the connection reports its end to the transport, every request gets one completion. The usual cases:
/// - An error answer names a notification: it determines the outcome of this notification and of all before it, and the
///   gateway discards all after it.
/// - No error arrives during the resend window: the notification counts as accepted.
/// - The connection closes without an answer: all open notifications that were at least partly written are in doubt.
package final class BinaryConnection: PooledConnection, ByteChannelDelegate {
    private let transport: BinaryTransport
    private let configuration: BinaryConfiguration
    /// Accesses are not checked at run time, because a check would cost hundreds of instructions a notification.
    /// Accesses cannot overlap, because every access is one method call.
    @exclusivity(unchecked) private(set) var session: BinarySession
    @exclusivity(unchecked) private var frames = BinaryFrames()
    private var answers = GatewayAnswerReader()
    /// Whether the gateway sent an answer. Later bytes are ignored.
    private var hasSpoken = false
    private var wasAsked = false
    /// Whether this connection has shown that the gateway works: the gateway answered, or notifications were presumed
    /// accepted. The transport sets this property.
    var hasAnswered = false
    /// The reason why the connection was given up: the peer acknowledged no byte for too long, or did not answer a
    /// fence.
    private enum Silence { case unread, unproven }
    private var silence: Silence?
    /// The time at which the connection next reports the number of notifications that it presumed accepted.
    private var saySettledNs: Int64 = 0

    /// How long the gateway stores a notification without `apns-expiration`. With an expiry of 0, the gateway would not
    /// store the notification.
    private static let storedSeconds: Int64 = 30 * 86_400

    init(_ order: DialOrder, configuration: BinaryConfiguration, transport: BinaryTransport) {
        self.configuration = configuration
        self.transport = transport
        session = BinarySession(hasIdentifiers: configuration.format != .simple)
        let settings = configuration.connections
        super.init(order, settings, loop: transport.loop, outbox: transport.outbox)
        channel = transport.dialer.open(target, context: settings.tls, options: settings.channel, delegate: self)
    }

    /// The number of notifications without an outcome, not counting the fence.
    override var unanswered: Int { session.open }
    var isUnread: Bool { silence == .unread && !session.mustProve }

    override func judge(_ reachability: inout Reachability) {
        if isUnread { return reachability.endedUnread() }
        reachability.ended(wasAnswered: hasAnswered, wasAsked: wasAsked, lifeNs: lifeNs)
    }

    /// Whether the channel's buffer is full, so that further frames would have to wait in `frames`.
    private(set) var isBlocked = false

    // MARK: Requests

    /// Takes requests from the front of the queue until `most` requests are open, their frames have `bytes` bytes, or
    /// the channel is full.
    func fill(from queue: inout RequestQueue, most: Int, bytes: Int) {
        let now = loop.now
        guard phase == .ready, !session.isStuck(nowNs: now.monotonicNs) else { return }
        let waiting = queue.count
        defer { crash_nowhere() }
        while !queue.isEmpty, unanswered < most, session.window.bytes < bytes, !isBlocked {
            crash_at(queue.first.place)
            if let status = refusal(of: queue.first) {
                let answer = GatewayAnswer(status: status, identifier: 0)
                complete(
                    Completion(
                        id: queue.first.id, kind: .answered, status: answer.resultStatus, reason: answer.reason))
            } else {
                append(queue.first, now: now)
            }
            queue.removeFirst()
            if frames.output.count >= Self.eagerBytes { pass() }
        }
        guard queue.count < waiting else { return }
        lastUsedNs = now.monotonicNs
        markDirty()
    }

    private func append(_ request: OutgoingRequest, now: LoopTime) {
        wasAsked = true
        let bytes = frames.append(
            BinaryFrames.Fields(
                token: request.token, payload: request.payload, identifier: session.window.nextIdentifier,
                expiry: request.headers.expiration ?? UInt32(clamping: now.wallMs / 1_000 + Self.storedSeconds),
                priority: request.headers.priority == 10 || request.headers.priority == 0 ? 10 : 5),
            configuration.format)
        session.open(request.id, bytes: bytes, openedMs: now.wallMs, nowNs: now.monotonicNs)
    }

    /// Returns the status with which a gateway would reject the request, because the request is a broadcast or its
    /// payload is too long. Returns `nil` if the request can be sent.
    private func refusal(of request: OutgoingRequest) -> UInt8? {
        if request.isBroadcast { return 2 }
        return request.payload.count > min(configuration.payloadLimit, Int(UInt16.max)) ? 7 : nil
    }

    /// - Parameter text: the reason as text, if `ReasonCode` has no name for it.
    private func complete(_ completion: Completion, text: String? = nil) {
        var completion = completion
        if completion.status != 200 {
            completion.carriedOlderToken = isSuperseded
            if completion.reason == .other, let text { completion.reasonText = outbox.text(text) }
        }
        outbox.complete(completion)
    }

    /// Stops taking requests, and sends a fence: a last frame with a device token that the gateway must reject. The
    /// gateway's error for the fence shows that the gateway accepted all frames before the fence. Drains the connection
    /// if no fence can be sent.
    func fence() {
        // No notification is open, so the connection has nothing to wait for except the answer to an earlier fence.
        if session.mustProve, unanswered == 0 { return giveUp("the worker closed the connection before an answer") }
        guard phase == .ready || phase == .draining, wasReady, configuration.answersFence, session.hasIdentifiers,
            session.canBeFenced
        else { return drain() }
        writeFence()
    }

    /// Sends a fence as `fence` does, and presumes no more notifications accepted. Only the gateway's answer then
    /// determines the outcome of open notifications, and shows that the gateway works. In a format without identifiers,
    /// a connection with open notifications is drained instead.
    func prove() {
        guard wasReady, phase == .ready || phase == .draining, session.hasIdentifiers || unanswered == 0 else {
            return drain()
        }
        wasAsked = true
        if session.demandProof() { writeFence() }
    }

    private func writeFence() {
        let now = loop.now
        let bytes = frames.append(.fence(identifier: session.window.nextIdentifier), configuration.format)
        session.open(nil, bytes: bytes, openedMs: now.wallMs, nowNs: now.monotonicNs)
        phase = .draining
        markDirty()
    }

    // MARK: The turn's end

    override func flush() {
        isDirty = false
        guard let channel, channel.isOpen else { return }
        pass()
        channel.flush()
        if phase == .draining, session.window.isEmpty {
            channel.close()
        } else {
            setAlarm()
        }
    }

    private func pass() {
        guard let channel, !frames.output.isEmpty else { return }
        let offered = frames.output.count
        let taken = channel.send(frames.output)
        frames.consume(taken)
        isBlocked = taken < offered
    }

    // MARK: Channel

    package func channelOpened(applicationProtocol: String?) {
        guard phase == .dialing else { return }
        phase = .ready
        wasReady = true
        opened(nowNs: loop.now.monotonicNs)
        markDirty()
        transport.connected(self)
    }

    package func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard !hasSpoken else { return }
        phase = .draining
        markDirty()
        guard let found = answers.read(bytes) else {
            // The gateway discards the frames after the one that the answer names, so none is presumed accepted now.
            _ = session.demandProof()
            return
        }
        hasSpoken = true
        switch found {
        case .answer(let answer): handle(answer)
        case .garbage(let byte):
            giveUp("the gateway sent a byte \(byte), which is not an answer of the binary protocol")
        }
    }

    package func channelWritable() { markDirty() }

    package func channelClosed(_ end: ChannelEnd) {
        if isProof(end) { transport.answered(self, settled: 0, discarded: 0, isProof: true) }
        let inDoubt = session.ended(written: channel?.writtenBytes ?? 0, isSilent: silence != nil) {
            complete($0)
        }
        let fault = self.fault.map { "\(address): \($0)" }
        let reason = peerSaid ?? fault ?? end.text
        close(end, reason: reason, unanswered: inDoubt)
        transport.closed(self, why: reason, inDoubt: silence == nil ? inDoubt : 0)
    }

    /// Returns whether the end of the connection shows that the gateway has read the fence. In format `simple` the
    /// gateway rejects the fence by closing the connection.
    private func isProof(_ end: ChannelEnd) -> Bool {
        guard session.mustProve, !session.hasIdentifiers, !hasAnswered, silence == nil else { return false }
        return frames.output.isEmpty && (end.kind == .closedByPeer || end.isEndOfStream)
    }

    // MARK: Answers

    private func handle(_ answer: GatewayAnswer) {
        peerSaid = "\(address): status \(answer.status)"
        let meaning = session.answered(
            answer, resendsDiscarded: configuration.resendsDiscarded, nowNs: loop.now.monotonicNs
        ) { complete($0, text: answer.text) }
        switch meaning {
        case .decided(let settled, let discarded, let byFence):
            if byFence { peerSaid = "\(address): the gateway closed after it answered the fence" }
            tellAnswered(
                answer, settled: settled, discarded: discarded, isProof: byFence || settled > 0, byFence: byFence)
        case .tooLate(let lostAtMost, let ageNs, let discarded):
            tellTooLate(answer, lostAtMost: lostAtMost, ageNs: ageNs)
            tellAnswered(answer, settled: 0, discarded: discarded, isProof: true)
        case .unmatched where session.mustProve && !session.hasIdentifiers:
            tellAnswered(answer, settled: 0, discarded: 0, isProof: true)
        case .unmatched(let lostAtMost):
            if lostAtMost > 0 { tellTooLate(answer, lostAtMost: lostAtMost, ageNs: nil) }
            // `giveUp` leaves the open notifications in doubt.
            giveUp(
                configuration.format == .simple
                    ? "the gateway sent status \(answer.status), and format simple does not name the notification"
                    : "the gateway sent status \(answer.status) for a notification that this connection did not send")
        }
    }

    private func tellTooLate(_ answer: GatewayAnswer, lostAtMost: Int, ageNs: Int64?) {
        outbox.note(
            .windowTooShort(
                address: address, status: UInt16(answer.status), lostAtMost: lostAtMost,
                windowMs: transport.windowNs / 1_000_000))
        transport.windowWasTooShort(ageNs: ageNs)
    }

    private func tellAnswered(
        _ answer: GatewayAnswer, settled: Int, discarded: Int, isProof: Bool, byFence: Bool = false
    ) {
        if answer.isOfTheLastProcessed {
            outbox.note(.peerCloses(address: address, reason: "status \(answer.status)", unprocessed: discarded))
        }
        outbox.note(
            .answered(
                address: address, status: UInt16(answer.status), isOfFence: byFence, accepted: settled,
                discarded: discarded))
        transport.answered(self, settled: settled, discarded: discarded, isProof: isProof)
    }

    // MARK: Time

    /// The interval at which the connection checks which bytes the peer has acknowledged.
    private var acknowledgementCheckNs: Int64 { max(5_000_000, min(100_000_000, transport.windowNs / 20)) }

    private func setAlarm() {
        guard phase != .closed else { return }
        let nowNs = loop.now.monotonicNs
        var next = Int64.max
        if session.window.waitingSinceNs != nil { next = nowNs + acknowledgementCheckNs }
        // The alarm fires at most once every 5 ms, so that it completes many notifications at once.
        if let silenceNs = session.nextSilenceNs(windowNs: transport.windowNs) {
            next = min(next, max(silenceNs, nowNs + 5_000_000))
        }
        if phase == .ready {
            next = min(next, retirementNs)
            if session.window.isEmpty { next = min(next, lastUsedNs + configuration.connections.idleNs) }
        }
        setAlarm(atNs: next)
    }

    override func alarmRang() {
        guard phase != .closed, let channel, wasReady else { return }
        let nowNs = loop.now.monotonicNs
        // The acknowledged bytes are the written bytes minus those in the kernel's buffer. The buffered bytes include
        // the overhead of TLS, so no byte counts as acknowledged too early.
        session.window.left(upTo: channel.writtenBytes - Int64(channel.unacknowledgedBytes), nowNs: nowNs)
        settleSilent(nowNs)
        if session.isSilent(forNs: configuration.silenceNs, nowNs: nowNs) {
            return giveUp(
                .unread,
                "the gateway acknowledged no byte for \(configuration.silenceNs / 1_000_000_000) s: it stopped reading")
        }
        if session.isProofOverdue {
            return giveUp(
                .unproven,
                answers.hasBegun
                    ? "the gateway sent only a part of its answer"
                    : "no answer to a token of zeros: the gateway reads nothing, or it accepts this token and needs "
                        + "binary.fence: false")
        }
        transport.checkTimes(of: self, isEmpty: session.window.isEmpty, idleNs: configuration.connections.idleNs)
        markDirty()
    }

    /// Gives the connection up because the gateway has stopped reading or has not answered a fence. The kernel of the
    /// gateway's host may have received notifications that were presumed accepted, although the gateway never read
    /// them.
    private func giveUp(_ silence: Silence, _ reason: String) {
        self.silence = silence
        let presumed = session.presumedInBuffers
        if presumed > 0 { outbox.note(.presumedUnread(address: address, lostAtMost: presumed)) }
        giveUp(reason)
    }

    private func settleSilent(_ nowNs: Int64) {
        let settled = session.settleSilent(windowNs: transport.windowNs, nowNs: nowNs) { complete($0) }
        guard settled > 0 else { return }
        lastUsedNs = nowNs
        if nowNs >= saySettledNs || session.window.isEmpty {
            outbox.note(.silent(address: address, accepted: session.settledCount, open: unanswered))
            saySettledNs = nowNs + 1_000_000_000
        }
        transport.settled(self, settled)
    }
}
