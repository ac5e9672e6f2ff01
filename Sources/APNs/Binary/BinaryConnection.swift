internal import CLinux
internal import Delivery
internal import EventLoop
internal import Network
internal import PushRecords

/// What a connection to a gateway asks of, and tells, the transport that owns it.
protocol BinaryConnectionOwner: AnyObject {
    /// Counts what connections are made with: a connection with another number is of a credential that was replaced.
    var credentialGeneration: Int { get }
    /// From when a notification has left until the gateway's silence is its acceptance.
    var windowNs: Int64 { get }
    func connectionOpened(_ connection: BinaryConnection)
    /// So many notifications were decided by the gateway's silence.
    func connectionSettled(_ connection: BinaryConnection, _ count: Int)
    /// The gateway answered: it decided `settled` of them, and discarded others.
    func connectionAnswered(_ connection: BinaryConnection, settled: Int, discarded: Int)
    /// An error named a notification that had closed as accepted, `ageNs` after it left, as far as that is known.
    func windowWasTooShort(ageNs: Int64?)
    func connectionIdle(_ connection: BinaryConnection)
    /// `open`: how many were in doubt at its end.
    func connectionClosed(_ connection: BinaryConnection, _ end: ChannelEnd, inDoubt: Int)
    /// It has something to send at the end of the turn.
    func connectionIsDirty(_ connection: BinaryConnection)
    func completed(_ completion: Completion)
    /// Stores a rare text beside the completions of this turn.
    func text(_ text: String) -> Int32
    func note(_ note: TransportNote)
}

/// One connection to a gateway of the binary protocol: channel and window. Loop's thread.
///
/// Every request handed to it is answered by one completion before `connectionClosed` is said: by the gateway's error answer,
/// which decides everything before the one it names as well, by its silence, or as in doubt when the connection ends without
/// a word. After an answer the gateway discards whatever comes, so a connection has one at most.
final class BinaryConnection: ByteChannelDelegate {
    enum Phase { case dialing, ready, draining, closed }

    let id: PoolPlan.ConnectionID
    /// The owner's when it was made.
    let credentialGeneration: Int
    /// It carries suspects only, one at a time.
    let isQuarantine: Bool
    private(set) var phase = Phase.dialing
    private let configuration: BinaryConfiguration
    private let loop: Loop
    private let owner: any BinaryConnectionOwner
    private var channel: (any ByteChannel)?
    private var window = BinaryWindow()
    private var frames = BinaryFrames()
    private var answers = GatewayAnswerReader()
    /// Bytes of all frames so far: where the next one begins.
    private var framedBytes: Int64 = 0
    private var alarm: Alarm?
    private var alarmNs = Int64.max
    private var isDirty = false
    private(set) var wasReady = false
    /// Something was handed to it.
    private(set) var wasAsked = false
    /// Something was settled on it.
    private(set) var wasAnswered = false
    /// The gateway answered: it reads no more.
    private var isAnswered = false
    /// The peer acknowledged nothing for too long: the network's fault.
    private var isSilent = false
    private var openedNs: Int64 = 0
    private var lastUsedNs: Int64 = 0
    /// The first bytes that the peer's kernel has acknowledged, and when that grew last.
    private var acknowledgedBytes: Int64 = 0
    private var acknowledgedNs: Int64 = 0
    private var hasFence = false
    /// Why it ended, better than that it is closed.
    private var lastWords: String?

    /// Frames beyond this are passed on before the turn ends: whole TLS records, while they are warm.
    private static let eagerBytes = 32 << 10
    /// Without an expiry a notification is stored for so long; 0 would say that it is not to be stored.
    private static let storedSeconds: Int64 = 30 * 86_400
    private static let nobody = NotificationID(slot: .max, generation: 0)

    init(
        id: PoolPlan.ConnectionID, firstAddress: Int, isQuarantine: Bool = false, configuration: BinaryConfiguration,
        dialer: any ChannelDialer, loop: Loop, owner: any BinaryConnectionOwner
    ) {
        self.id = id
        self.isQuarantine = isQuarantine
        credentialGeneration = owner.credentialGeneration
        self.configuration = configuration
        self.loop = loop
        self.owner = owner
        alarm = Alarm(loop: loop) { [unowned self] in alarmRang() }
        let target = DialTarget(
            host: configuration.host, port: configuration.port, proxy: configuration.proxy, firstAddress: firstAddress)
        channel = dialer.open(target, context: configuration.tls, options: configuration.channel, delegate: self)
    }

    /// For log lines: the peer's address, or the host while there is none, or behind a proxy, where the address is not its own.
    var address: String {
        let host = DialTarget.text(configuration.host, configuration.port)
        guard let address = channel?.peerAddress else { return host }
        return configuration.proxy == nil ? "\(address)" : "\(host) through the proxy \(address)"
    }

    /// Notifications of which nothing is known yet; a fence is none.
    var open: Int { window.count - (hasFence ? 1 : 0) }
    var lifeNs: Int64 { openedNs == 0 ? 0 : loop.now.monotonicNs - openedNs }

    /// The channel did not take all there is: handing over more would only have it wait in another place.
    private(set) var isBlocked = false

    func holds(anyOf ids: Set<NotificationID>) -> Bool { window.holds(anyOf: ids) }

    // MARK: Requests

    /// Takes requests from the queue's front until `most` notifications, or `bytes` of frames, are open on it, or as long as the
    /// channel takes them.
    func fill(from queue: inout RequestQueue, most: Int, bytes: Int) {
        guard phase == .ready else { return }
        let now = loop.now
        let waiting = queue.count
        defer { crash_nowhere() }
        while !queue.isEmpty, open < most, window.bytes < bytes, !isBlocked {
            crash_at(queue.first.place)
            if let refusal = Self.refusal(of: queue.first, configuration) {
                owner.completed(refused(queue.first.id, refusal))
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
                token: request.token, payload: request.payload, identifier: window.nextIdentifier,
                expiry: request.headers.expiration ?? UInt32(clamping: now.wallMs / 1_000 + Self.storedSeconds),
                priority: request.headers.priority == 10 || request.headers.priority == 0 ? 10 : 5),
            configuration.format)
        open(request.id, bytes: bytes, now: now, isFence: false)
    }

    private func open(_ id: NotificationID, bytes: Int, now: LoopTime, isFence: Bool) {
        framedBytes += Int64(bytes)
        if window.isEmpty { acknowledgedNs = now.monotonicNs }
        window.open(
            BinaryWindow.Entry(
                id: id, end: framedBytes, openedMs: now.wallMs, bytes: Int32(clamping: bytes), isFence: isFence))
    }

    /// What a gateway would refuse, or has no field for.
    private static func refusal(of request: OutgoingRequest, _ configuration: BinaryConfiguration) -> GatewayAnswer? {
        if request.isBroadcast { return GatewayAnswer(status: 2, identifier: 0) }
        if request.payload.count > min(configuration.payloadLimit, Int(UInt16.max)) {
            return GatewayAnswer(status: 7, identifier: 0)
        }
        return nil
    }

    private func refused(_ id: NotificationID, _ answer: GatewayAnswer, sentAtMs: Int64 = 0) -> Completion {
        Completion(
            id: id, kind: .answered, status: answer.resultStatus, reason: answer.reason,
            reasonText: answer.text.map { owner.text($0) } ?? -1, sentAtMs: sentAtMs,
            carriedOlderToken: isOfOlderCredential)
    }

    private var isOfOlderCredential: Bool { credentialGeneration != owner.credentialGeneration }

    /// Takes no more requests; closes once nothing is open on it.
    func drain() {
        switch phase {
        case .dialing:
            lastWords = lastWords ?? "\(address): closed before it was ready"
            phase = .draining
            channel?.abort()
        case .ready:
            phase = .draining
            markDirty()
        case .draining, .closed: break
        }
    }

    /// Takes no more requests, and has the gateway decide what is open by its answer instead of its silence: the last frame has
    /// a device token that it must refuse, and the error that names it says that all before it were accepted.
    func fence() {
        guard phase == .ready || phase == .draining, wasReady, configuration.format != .simple, !hasFence, !isAnswered,
            !window.isEmpty
        else { return drain() }
        hasFence = true
        let now = loop.now
        let bytes = frames.append(.fence(identifier: window.nextIdentifier), configuration.format)
        open(Self.nobody, bytes: bytes, now: now, isFence: true)
        phase = .draining
        markDirty()
    }

    // MARK: The turn's end

    private func markDirty() {
        guard !isDirty else { return }
        isDirty = true
        owner.connectionIsDirty(self)
    }

    /// Sends what the turn gathered, in few large writes.
    func flush() {
        isDirty = false
        guard let channel, channel.isOpen else { return }
        pass()
        channel.flush()
        if phase == .draining, window.isEmpty {
            channel.close()
        } else {
            setAlarm()
        }
    }

    /// Moves frames into the channel, as far as it takes them.
    private func pass() {
        guard let channel, !frames.output.isEmpty else { return }
        let offered = frames.output.count
        let taken = channel.send(frames.output)
        frames.consume(taken)
        isBlocked = taken < offered
    }

    // MARK: Channel

    func channelOpened(applicationProtocol: String?) {
        guard phase == .dialing else { return }
        phase = .ready
        wasReady = true
        openedNs = loop.now.monotonicNs
        lastUsedNs = openedNs
        markDirty()
        owner.connectionOpened(self)
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard !isAnswered, let found = answers.read(bytes) else { return }
        isAnswered = true
        phase = .draining
        markDirty()
        switch found {
        case .answer(let answer): heed(answer)
        case .garbage(let byte):
            giveUp("sent a byte \(byte), with which no answer of the binary protocol begins")
        }
    }

    func channelWritable() { markDirty() }

    func channelClosed(_ end: ChannelEnd) {
        let written = channel?.writtenBytes ?? 0
        let isAlone = open == 1
        var inDoubt = 0
        while !window.isEmpty {
            let entry = removeFirst()
            guard !entry.isFence else { continue }
            let mayHaveCome = entry.end - Int64(entry.bytes) < written
            if mayHaveCome { inDoubt += 1 }
            owner.completed(
                Completion(
                    id: entry.id, kind: mayHaveCome ? .inDoubt : .notProcessed, sentAtMs: entry.openedMs,
                    connectionDied: mayHaveCome && isAlone, connectionWasSilent: mayHaveCome && isSilent,
                    carriedOlderToken: isOfOlderCredential))
        }
        phase = .closed
        alarm = nil
        var end = end
        if let lastWords { end.text = lastWords }
        if wasReady { owner.note(.disconnected(address: address, reason: end.text, unanswered: inDoubt)) }
        owner.connectionClosed(self, end, inDoubt: isSilent ? 0 : inDoubt)
        channel = nil
    }

    private func giveUp(_ reason: String) {
        lastWords = lastWords ?? "\(address): \(reason)"
        channel?.flush()
        channel?.abort()
    }

    // MARK: Answers

    private func heed(_ answer: GatewayAnswer) {
        lastWords = "\(address): status \(answer.status)"
        switch window.place(of: answer.identifier) {
        case .open(let before):
            for _ in 0..<before { accept(removeFirst(), isPresumed: false) }
            let named = removeFirst()
            if named.isFence {
                lastWords = "\(address): closed, after it had answered for everything"
            } else if answer.isOfTheLastProcessed {
                accept(named, isPresumed: false)
            } else {
                owner.completed(refused(named.id, answer, sentAtMs: named.openedMs))
            }
            wasAnswered = true
            discard(settled: before + (named.isFence ? 0 : 1), answer)
        case .closed(let after):
            if after > 0 || !answer.isOfTheLastProcessed { tooShort(answer, lostAtMost: after) }
            discard(settled: 0, answer)
        case .unknown where answer.isOfTheLastProcessed && !wasAnswered && answer.identifier == 0:
            // It has processed nothing.
            discard(settled: 0, answer)
        case .unknown:
            // It names nobody: what it processed is not known. What is open ends in doubt.
            giveUp("status \(answer.status) for a notification that was not sent over it")
        }
    }

    /// It named one that silence had accepted: what had closed since was discarded as well, and is lost.
    private func tooShort(_ answer: GatewayAnswer, lostAtMost: Int) {
        owner.note(
            .windowTooShort(
                address: address, status: UInt16(answer.status), lostAtMost: lostAtMost,
                windowMs: owner.windowNs / 1_000_000))
        owner.windowWasTooShort(
            ageNs: window.leftNs(ofClosed: answer.identifier).map { loop.now.monotonicNs - $0 })
    }

    /// What is behind the one that was named was not processed.
    private func discard(settled: Int, _ answer: GatewayAnswer) {
        var discarded = 0
        let unprocessed: Completion.Unprocessed =
            !configuration.resendsDiscarded ? .discardedForGood : settled > 0 || wasAnswered ? .discarded : .neverSent
        while !window.isEmpty {
            let entry = removeFirst()
            guard !entry.isFence else { continue }
            discarded += 1
            owner.completed(
                Completion(
                    id: entry.id, kind: .notProcessed, unprocessed: unprocessed, sentAtMs: entry.openedMs,
                    carriedOlderToken: isOfOlderCredential))
        }
        if answer.isOfTheLastProcessed {
            owner.note(.peerCloses(address: address, reason: "status \(answer.status)", unprocessed: discarded))
        }
        owner.connectionAnswered(self, settled: settled, discarded: discarded)
    }

    private func removeFirst() -> BinaryWindow.Entry {
        let entry = window.removeFirst()
        if entry.isFence { hasFence = false }
        return entry
    }

    private func accept(_ entry: BinaryWindow.Entry, isPresumed: Bool) {
        guard !entry.isFence else { return }
        owner.completed(
            Completion(
                id: entry.id, kind: .answered, status: 200, sentAtMs: entry.openedMs, isPresumed: isPresumed))
    }

    // MARK: Time

    /// How often it is looked what the peer has acknowledged.
    private var lookNs: Int64 { max(5_000_000, min(100_000_000, owner.windowNs / 20)) }

    private func setAlarm() {
        guard phase != .closed else { return }
        let nowNs = loop.now.monotonicNs
        var next = Int64.max
        if window.isWaitingToLeave { next = nowNs + lookNs }
        // Many close at once, not each by itself.
        if let leftNs = window.firstLeftNs { next = min(next, max(leftNs + owner.windowNs, nowNs + 5_000_000)) }
        if phase == .ready, window.isEmpty { next = min(next, lastUsedNs + configuration.idleConnectionNs) }
        guard next < alarmNs else { return }
        alarmNs = next
        alarm?.set(atNs: next)
    }

    private func alarmRang() {
        alarmNs = .max
        guard phase != .closed, let channel, wasReady else { return }
        let nowNs = loop.now.monotonicNs
        look(channel, nowNs)
        settleSilent(nowNs)
        if !window.isEmpty, window.isWaitingToLeave, nowNs - acknowledgedNs >= configuration.silenceNs {
            isSilent = true
            return giveUp("acknowledged nothing for \(configuration.silenceNs / 1_000_000) ms")
        }
        if phase == .ready, window.isEmpty, nowNs - lastUsedNs >= configuration.idleConnectionNs {
            // Asked again after another such time.
            lastUsedNs = nowNs
            owner.connectionIdle(self)
        }
        markDirty()
    }

    /// Written bytes less those that the kernel still holds: TLS makes them more, never less, so none is counted too early.
    private func look(_ channel: any ByteChannel, _ nowNs: Int64) {
        let acknowledged = channel.writtenBytes - Int64(channel.unacknowledgedBytes)
        guard acknowledged > acknowledgedBytes else { return }
        acknowledgedBytes = acknowledged
        acknowledgedNs = nowNs
        window.left(upTo: acknowledged, nowNs: nowNs)
    }

    private func settleSilent(_ nowNs: Int64) {
        var settled = 0
        while let entry = window.removeSilent(leftBy: nowNs - owner.windowNs) {
            accept(entry, isPresumed: true)
            settled += entry.isFence ? 0 : 1
            if entry.isFence { hasFence = false }
        }
        guard settled > 0 else { return }
        wasAnswered = true
        lastUsedNs = nowNs
        owner.connectionSettled(self, settled)
    }
}

/// The same over TLS.
extension BinaryConnection: SecureChannelDelegate {
    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        channelOpened(applicationProtocol: applicationProtocol)
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) { channelReceived(bytes) }
    func channelWritable(_ channel: SecureChannel) { channelWritable() }
    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) { channelClosed(end) }
}
