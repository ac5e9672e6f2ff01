internal import EventLoop
internal import Network
internal import PushTransport

/// The base class of HTTP/2 and binary connections. Used on the loop's thread only.
///
/// A subclass writes completions and notes to the `Outbox`, and reports changes of its state to its transport.
package class PooledConnection {
    enum Phase { case dialing, opening, ready, draining, closed }

    /// The pool's settings for a connection that is about to be dialed.
    struct DialOrder {
        var id: PoolPlan.ConnectionID
        /// Whether the connection is used for suspects only.
        var isQuarantine: Bool
        /// The number of times that all connections had been replaced before this dial.
        var replacements: Int
        /// How long the connection may be open before another one takes its place, or `Int64.max` for no limit.
        var lifetimeNs: Int64
    }

    let order: DialOrder
    let outbox: Outbox
    let loop: Loop
    let target: DialTarget
    final var channel: (any ByteChannel)?
    final var phase = Phase.dialing
    final var wasReady = false
    /// Whether all connections were replaced after this one was dialed.
    final var isSuperseded = false
    /// Whether the connection is closed because it is unused, which is not the host's fault.
    final var isUnused = false
    /// The peer's message or action that ended the connection, which explains more than the close itself.
    final var peerSaid: String?
    /// The worker's reason for giving the connection up.
    private(set) final var fault: String?
    /// Whether the server refused the client certificate.
    private(set) final var isCertificateRefused = false
    private final var openedNs: Int64 = 0
    /// The time of the last request or, before the first one, of the end of the handshake.
    final var lastUsedNs: Int64 = 0
    /// The time at which the connection reaches its age limit, and its replacement is dialed.
    final var retirementNs = Int64.max
    final var isDirty = false
    private final var alarm: Alarm?

    /// The size of unencrypted output at which whole TLS records are written before the turn ends, while the data is in
    /// the CPU's cache.
    static let eagerBytes = 32 << 10

    init(_ order: DialOrder, _ settings: ConnectionSettings, loop: Loop, outbox: Outbox) {
        self.order = order
        var target = settings.target
        target.firstAddress = order.id
        self.target = target
        self.loop = loop
        self.outbox = outbox
        alarm = Alarm(loop: loop) { [unowned self] in alarmRang() }
    }

    /// The address for log lines: the peer's address, or `host:port` before a connection exists. With a proxy,
    /// `host:port` and the proxy's address.
    final var address: String {
        guard let address = channel?.peerAddress else { return target.text }
        return target.proxy == nil ? "\(address)" : "\(target.text) through the proxy \(address)"
    }

    final var id: PoolPlan.ConnectionID { order.id }
    final var isQuarantine: Bool { order.isQuarantine }

    final var isReady: Bool { phase == .ready }

    final var lifeNs: Int64 { openedNs == 0 ? 0 : loop.now.monotonicNs - openedNs }

    /// The number of requests on the connection that have no completion.
    var unanswered: Int { preconditionFailure("A subclass must override unanswered") }

    final func opened(nowNs: Int64) {
        openedNs = nowNs
        lastUsedNs = nowNs
        retirementNs = order.lifetimeNs == .max ? .max : nowNs + order.lifetimeNs
    }

    /// Stops taking requests, and closes the connection after its last answer.
    final func drain() {
        switch phase {
        case .dialing, .opening:
            fault = fault ?? "the worker closed the connection before it was ready"
            phase = .draining
            channel?.abort()
        case .ready:
            phase = .draining
            markDirty()
        case .draining, .closed: break
        }
    }

    final func giveUp(_ reason: String) {
        fault = fault ?? reason
        channel?.flush()
        channel?.abort()
    }

    final func markDirty() {
        guard !isDirty else { return }
        isDirty = true
        outbox.askForTurnEnd()
    }

    /// Writes the turn's output in a few large blocks.
    func flush() { preconditionFailure("A subclass must override flush()") }

    /// Records in the host's reachability how the connection ended.
    func judge(_ reachability: inout Reachability) { preconditionFailure("A subclass must override judge(_:)") }

    /// Handles the end of the channel. `unanswered` is the number of requests that had no answer.
    final func close(_ end: ChannelEnd, reason: String, unanswered: Int) {
        phase = .closed
        isCertificateRefused = end.kind == .certificateRefused
        alarm = nil
        if wasReady { outbox.note(.disconnected(address: address, reason: reason, unanswered: unanswered)) }
        channel = nil
    }

    // MARK: Time

    /// Sets the alarm, so that `alarmRang` is called at this time or earlier.
    final func setAlarm(atNs: Int64) { alarm?.set(noLaterThanNs: atNs) }

    func alarmRang() { preconditionFailure("A subclass must override alarmRang()") }
}
