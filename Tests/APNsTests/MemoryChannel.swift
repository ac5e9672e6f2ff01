import Network
import TLS

@testable import APNs
@testable import EventLoop

/// A clock that only tests advance.
final class TestClock {
    private(set) var now = TestClock.start

    static let start = LoopTime(monotonicNs: 1_000_000_000_000, wallMs: 1_790_000_000_000)

    /// Advances to this monotonic time, unless it has passed already.
    func move(toNs: Int64) {
        guard toNs > now.monotonicNs else { return }
        now.monotonicNs = toNs
        now.wallMs = Self.start.wallMs + (toNs - Self.start.monotonicNs) / 1_000_000
    }
}

/// A loop with simulated time, which advances to the next timer without waiting.
final class TestTime {
    let loop: Loop
    private let clock = TestClock()
    private var quietTurns = 0

    /// The simulated duration of a turn.
    private static let turnNs: Int64 = 100_000

    init() throws { loop = try Loop { [clock] in clock.now } }

    var nowNs: Int64 { clock.now.monotonicNs }

    /// Runs one turn. If nothing happened in two turns, advances to the next timer or to `limitNs`, which is evaluated
    /// after the turn.
    func turn(limitNs: @autoclosure () -> Int64) {
        clock.move(toNs: clock.now.monotonicNs + Self.turnNs)
        loop.runOnce()
        let nextNs = loop.timers.nextDeadlineNs ?? .max
        quietTurns = nextNs > clock.now.monotonicNs + Self.turnNs ? quietTurns + 1 : 0
        if quietTurns > 1 { clock.move(toNs: min(nextNs, limitNs())) }
    }

    /// Advances the time as if the process were stopped, without running turns.
    func standStill(forNs: Int64) { clock.move(toNs: clock.now.monotonicNs + forNs) }
}

/// The actions of a scripted server beyond HTTP/2.
protocol ServerChannel: ByteChannel {
    /// Ends the stream after the sent bytes without close_notify, like a crashed peer.
    func cut()
    /// Ends the connection at once with a TCP reset.
    func reset()
}

extension SecureChannel: ServerChannel {}

/// The server's side of a connection in memory. It receives its channel before any other call.
protocol MemoryPeer: ByteChannelDelegate {
    func take(_ channel: MemoryChannel)
}

/// One end of a pair of byte channels in memory. Written bytes arrive at the other end in the loop's next turn as one
/// piece. Calls to the delegate have the same order as those of a `SecureChannel`.
final class MemoryChannel: ServerChannel, TurnEnder {
    private enum State { case opening, open, closing, closed }

    /// The number of further bytes that the kernel accepts. Other bytes wait in this channel.
    var kernelRoom = Int.max {
        didSet { askToTurn() }
    }
    private(set) var sentBytes: Int64 = 0
    private(set) var writtenBytes: Int64 = 0
    /// The number of bytes reported as not acknowledged by the peer's kernel.
    var unacknowledgedBytes = 0
    private let loop: Loop
    private var state = State.opening
    private var delegate: (any ByteChannelDelegate)?
    private weak var other: MemoryChannel?
    private var unwritten: [UInt8] = []
    private var wantsWritable = false
    private var isAskedToTurn = false
    /// The received bytes that were not delivered yet. The end follows them.
    private var unread: [UInt8] = []
    private var unreadEnd: ChannelEnd?
    private var isToDeliver = false
    private var end: ChannelEnd?

    private static let outputLimit = ChannelOptions().outputLimit

    private init(_ loop: Loop, _ delegate: any ByteChannelDelegate) {
        self.loop = loop
        self.delegate = delegate
    }

    /// Creates a client's channel. In the next turn it is connected to the peer that `accept` returns, or closed if
    /// that throws.
    ///
    /// - Parameter afterNs: the time until the connection is open.
    static func dial(
        _ loop: Loop, _ delegate: any ByteChannelDelegate, afterNs: Int64 = 0,
        accept: @escaping () throws(ChannelEnd) -> any MemoryPeer
    ) -> MemoryChannel {
        let client = MemoryChannel(loop, delegate)
        loop.schedule(afterNs: afterNs) {
            guard client.end == nil else { return }
            do throws(ChannelEnd) {
                let peer = try accept()
                let server = MemoryChannel(loop, peer)
                peer.take(server)
                client.other = server
                server.other = client
                server.open()
                client.open()
            } catch {
                client.finish(error)
            }
        }
        return client
    }

    private func open() {
        state = .open
        delegate?.channelOpened(applicationProtocol: "h2")
    }

    var isOpen: Bool { state == .open }
    var peerAddress: SocketAddress? { nil }

    // MARK: Sending

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard state == .open else { return 0 }
        let taken = min(bytes.count, Self.outputLimit - unwritten.count)
        if taken < bytes.count { wantsWritable = true }
        unwritten += bytes[..<taken]
        sentBytes += Int64(taken)
        askToTurn()
        return taken
    }

    func flush() {
        let count = min(unwritten.count, kernelRoom)
        guard count > 0, let other else { return }
        other.unread += unwritten[..<count]
        other.deliverSoon()
        unwritten.removeFirst(count)
        writtenBytes += Int64(count)
        if kernelRoom != .max { kernelRoom -= count }
    }

    // MARK: Receiving

    private func peerEnded(_ end: ChannelEnd) {
        guard unreadEnd == nil else { return }
        unreadEnd = end
        deliverSoon()
    }

    private func deliverSoon() {
        guard !isToDeliver else { return }
        isToDeliver = true
        loop.schedule(afterNs: 0) { [self] in deliver() }
    }

    private func deliver() {
        isToDeliver = false
        let bytes = unread
        unread = []
        if state == .open, !bytes.isEmpty { bytes.withUnsafeBytes { delegate?.channelReceived($0) } }
        guard let unreadEnd else { return }
        // The peer answers close_notify with its own after the sent bytes.
        if unreadEnd.kind == .closedByPeer { flush() }
        finish(state == .closing ? Self.closedHere : unreadEnd)
    }

    // MARK: Closing

    private static let closedHere = ChannelEnd("memory: closed", kind: .closedHere)
    private static let lost = ChannelEnd("memory: connection lost")

    func close() { closeWriting(ChannelEnd("memory: closed by the peer", kind: .closedByPeer)) }
    func cut() { closeWriting(Self.lost) }
    func abort() { finish(Self.closedHere) }
    func reset() { finish(Self.closedHere) }

    private func closeWriting(_ said: ChannelEnd) {
        guard state == .open else { return finish(Self.closedHere) }
        flush()
        state = .closing
        other?.peerEnded(said)
    }

    private func finish(_ end: ChannelEnd) {
        guard self.end == nil else { return }
        self.end = end
        state = .closed
        unwritten = []
        other?.peerEnded(Self.lost)
        askToTurn()
    }

    // MARK: The turn's end

    private func askToTurn() {
        guard !isAskedToTurn else { return }
        isAskedToTurn = true
        loop.atTurnEnd(self)
    }

    func turnEnded() {
        isAskedToTurn = false
        if let end {
            let delegate = self.delegate
            self.delegate = nil
            delegate?.channelClosed(end)
            return
        }
        flush()
        guard wantsWritable, unwritten.count < Self.outputLimit / 2 else { return }
        wantsWritable = false
        loop.schedule(afterNs: 0) { [self] in delegate?.channelWritable() }
    }
}

/// Dials a scripted server in memory.
final class MemoryDialer: ChannelDialer {
    private let loop: Loop
    private unowned let server: ScriptedServer
    /// The clients' channels, in the order of the server's peers.
    private(set) var channels: [MemoryChannel] = []

    init(loop: Loop, server: ScriptedServer) {
        self.loop = loop
        self.server = server
    }

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        let channel = MemoryChannel.dial(loop, delegate) { [unowned server] () throws(ChannelEnd) in
            guard server.isListening, let peer = try? server.makePeer() else {
                throw ChannelEnd("\(target.host):\(target.port): Connection refused")
            }
            return peer
        }
        channels.append(channel)
        return channel
    }
}
