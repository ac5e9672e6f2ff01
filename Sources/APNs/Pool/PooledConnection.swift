internal import EventLoop
internal import Network
internal import PushTransport

/// The common base of HTTP/2 and binary connections. Used on the loop's thread only.
///
/// Completions and notes go to the `Outbox`; what the transport has to decide is a call of the subclass to its own.
package class PooledConnection {
    enum Phase { case dialing, opening, ready, draining, closed }

    /// The pool's decisions about a connection before it is dialled.
    struct DialOrder {
        var id: PoolPlan.ConnectionID
        /// Carries suspects only.
        var isQuarantine: Bool
        /// How often all connections were replaced before.
        var replacements: Int
        /// How long the connection may be open before another one takes its place, or `Int64.max`.
        var lifetimeNs: Int64
    }

    let order: DialOrder
    let outbox: Outbox
    let loop: Loop
    let target: DialTarget
    final var channel: (any ByteChannel)?
    final var phase = Phase.dialing
    final var wasReady = false
    /// All connections were replaced since it was made: it carries an older credential.
    final var isSuperseded = false
    /// It is closed because it is unused, which says nothing about the host.
    final var isUnused = false
    final var disconnectReason = DisconnectReason()
    /// The server refused the client certificate.
    private(set) final var isCertificateRefused = false
    private final var openedNs: Int64 = 0
    /// When another connection is to take its place.
    private(set) final var retirementNs = Int64.max
    final var isDirty = false
    private final var alarm: Alarm?

    /// Output beyond this is encrypted before the turn ends: whole TLS records, while it is warm.
    static let eagerBytes = 32 << 10

    init(
        _ order: DialOrder, host: String, port: UInt16, proxy: DialTarget.Proxy?, loop: Loop, outbox: Outbox
    ) {
        self.order = order
        target = DialTarget(host: host, port: port, proxy: proxy, firstAddress: order.id)
        self.loop = loop
        self.outbox = outbox
        alarm = Alarm(loop: loop) { [unowned self] in alarmRang() }
    }

    /// The address for log lines: the peer's, or the host while there is none or where it is that of a proxy.
    final var address: String { target.text(reachedAt: channel?.peerAddress) }

    final var id: PoolPlan.ConnectionID { order.id }
    final var isQuarantine: Bool { order.isQuarantine }

    final var isReady: Bool { phase == .ready }

    final var lifeNs: Int64 { openedNs == 0 ? 0 : loop.now.monotonicNs - openedNs }

    /// Requests on the connection that have no completion yet.
    var unanswered: Int { preconditionFailure("overridden") }

    final func opened(nowNs: Int64) {
        openedNs = nowNs
        retirementNs = order.lifetimeNs == .max ? .max : nowNs + order.lifetimeNs
    }

    /// Returns, once, whether the connection is old enough for another one to take its place.
    final func takesRetirement(nowNs: Int64) -> Bool {
        guard phase == .ready, nowNs >= retirementNs else { return false }
        retirementNs = .max
        return true
    }

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
    func flush() { preconditionFailure("overridden") }

    /// Tells what its end says about the host.
    func judge(_ reachability: inout Reachability) { preconditionFailure("overridden") }

    /// Ends the connection. `unanswered` requests were on it.
    final func close(_ end: ChannelEnd, reason: String, unanswered: Int) {
        phase = .closed
        isCertificateRefused = end.kind == .certificateRefused
        alarm = nil
        if wasReady { outbox.note(.disconnected(address: address, reason: reason, unanswered: unanswered)) }
        channel = nil
    }

    // MARK: Time

    /// Has `alarmRang` called at that time, or before.
    final func setAlarm(atNs: Int64) { alarm?.set(noLaterThanNs: atNs) }

    func alarmRang() { preconditionFailure("overridden") }
}

/// Why a connection ends, for people: what the peer said, and what made this side give it up.
struct DisconnectReason {
    /// What the peer said or did that ended it, which tells more than that it is closed.
    var peerSaid: String?
    private(set) var fault: String?
    /// This side closed it, with nothing on it.
    var isExpected = false

    mutating func gaveUp(_ reason: String) { fault = fault ?? reason }
}
