internal import EventLoop
internal import Network
internal import PushTransport

/// The common base of HTTP/2 and binary connections. Used on the loop's thread only.
///
/// A connection knows nothing of the pool and the transport that it belongs to: completions and notes go to the
/// `Outbox`, and what the transport has to decide is an event of the subclass, which names its own.
class PooledConnection {
    enum Phase { case dialing, opening, ready, draining, closed }

    /// The pool's decisions about a connection before it is dialled.
    struct DialOrder {
        var id: PoolPlan.ConnectionID
        /// The address of the host to begin with.
        var firstAddress: Int
        /// Carries suspects only.
        var isQuarantine: Bool
        /// How often all connections were replaced before.
        var replacements: Int
    }

    let order: DialOrder
    let outbox: Outbox
    let loop: Loop
    private let target: DialTarget
    final var channel: (any ByteChannel)?
    final var phase = Phase.dialing
    /// Took requests once.
    final var wasReady = false
    /// All connections were replaced since it was made: it carries an older credential.
    final var isSuperseded = false
    final var disconnectReason = DisconnectReason()
    final var openedNs: Int64 = 0
    /// Has something to send at the end of the turn.
    final var isDirty = false
    private var alarm: Alarm?
    private var alarmNs = Int64.max

    init(_ order: DialOrder, target: DialTarget, loop: Loop, outbox: Outbox) {
        self.order = order
        self.target = target
        self.loop = loop
        self.outbox = outbox
        alarm = Alarm(loop: loop) { [unowned self] in
            alarmNs = .max
            alarmRang()
        }
    }

    /// The address for log lines: the peer's, or the host while there is none or where it is that of a proxy.
    final var address: String { target.text(reachedAt: channel?.peerAddress) }

    final var id: PoolPlan.ConnectionID { order.id }
    final var isQuarantine: Bool { order.isQuarantine }

    /// Takes requests.
    final var isReady: Bool { phase == .ready }

    final var lifeNs: Int64 { openedNs == 0 ? 0 : loop.now.monotonicNs - openedNs }

    /// Takes no more requests; closes once nothing is open on it.
    final func drain() {
        switch phase {
        case .dialing, .opening:
            disconnectReason.gaveUp("closed before it was ready")
            phase = .draining
            channel?.abort()
        case .ready:
            phase = .draining
            markDirty()
        case .draining, .closed: break
        }
    }

    final func giveUp(_ reason: String) {
        disconnectReason.gaveUp(reason)
        channel?.flush()
        channel?.abort()
    }

    final func markDirty() {
        guard !isDirty else { return }
        isDirty = true
        outbox.askForTurnEnd()
    }

    /// Sends what the turn gathered, in few large writes.
    func flush() { preconditionFailure("each protocol has its own") }

    // MARK: Time

    /// Has `alarmRang` called at that time. Deadlines mostly move away, so an alarm that is set earlier stays, and what
    /// it calls finds out.
    final func setAlarm(atNs: Int64) {
        guard atNs < alarmNs else { return }
        alarmNs = atNs
        alarm?.set(atNs: atNs)
    }

    final func clearAlarm() { alarm = nil }

    func alarmRang() { preconditionFailure("each protocol has its own") }
}

/// Why a connection ends, for people: what the peer said, and what made this side give it up.
struct DisconnectReason {
    /// What the peer said or did that ended it, which tells more than that it is closed.
    var peerSaid: String?
    /// Why this side gave it up first.
    private(set) var fault: String?
    /// This side closed it, with nothing on it.
    var isExpected = false

    mutating func gaveUp(_ reason: String) { fault = fault ?? reason }
}

/// What one turn of a transport has to tell its owner: completions, their texts, and events. Loop's thread.
///
/// Connections, pool and transport all write to it; the transport empties it at the end of the turn (`send`).
final class Outbox {
    let app: AppIndex
    private let loop: Loop
    private let emit: ([TransportEvent]) -> Void
    private unowned var transport: (any TurnEnder)?
    /// Unchecked: it is appended to and taken, nothing else, and the run-time check costs each completion.
    @exclusivity(unchecked) private var batch: CompletionBatch
    private var events: [TransportEvent] = []
    /// Unchecked for the same reason.
    @exclusivity(unchecked) private var asksForTurnEnd = false

    init(app: AppIndex, loop: Loop, emit: @escaping ([TransportEvent]) -> Void) {
        self.app = app
        self.loop = loop
        self.emit = emit
        batch = CompletionBatch(app: app)
    }

    /// Names whose turn ends where something was written.
    func start(for transport: any TurnEnder) { self.transport = transport }

    func complete(_ completion: Completion) {
        askForTurnEnd()
        batch.completions.append(completion)
    }

    /// Requests that were on no connection come back unprocessed.
    func giveBack(_ ids: [NotificationID]) {
        for id in ids { complete(Completion(id: id, kind: .notProcessed)) }
    }

    /// Stores a rare text beside the completions of this turn.
    func text(_ text: String) -> Int32 {
        batch.texts.append(text)
        return Int32(batch.texts.count - 1)
    }

    func note(_ note: TransportNote) { append(.note(app: app, note)) }

    func append(_ event: TransportEvent) {
        askForTurnEnd()
        events.append(event)
    }

    func askForTurnEnd() {
        guard !asksForTurnEnd, let transport else { return }
        asksForTurnEnd = true
        loop.atTurnEnd(transport)
    }

    /// The turn ends: what is written from now on asks for another one.
    func turnEnds() { asksForTurnEnd = false }

    /// Hands over what the turn brought: `first`, then completions, then the other events, then `last`.
    func send(first: [TransportEvent] = [], last: [TransportEvent]) {
        var all = first
        if !batch.completions.isEmpty {
            let count = batch.completions.count
            all.append(.completions(batch))
            batch = CompletionBatch(app: app)
            batch.completions.reserveCapacity(count)
        }
        all += events
        all += last
        events.removeAll(keepingCapacity: true)
        if !all.isEmpty { emit(all) }
    }
}
