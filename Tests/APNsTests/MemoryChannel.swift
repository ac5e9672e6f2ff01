import EventLoop
import Network
import TLS

@testable import APNs

/// A clock that stands still unless a test moves it.
final class TestClock {
    private(set) var now = TestClock.start

    static let start = LoopTime(monotonicNs: 1_000_000_000_000, wallMs: 1_790_000_000_000)

    /// To that monotonic time, unless it is past already.
    func move(toNs: Int64) {
        guard toNs > now.monotonicNs else { return }
        now.monotonicNs = toNs
        now.wallMs = Self.start.wallMs + (toNs - Self.start.monotonicNs) / 1_000_000
    }
}

/// A loop in which time passes as its timers want it: no test waits for any of it.
final class TestTime {
    let loop: Loop
    private let clock = TestClock()
    private var quietTurns = 0

    /// What a turn takes.
    private static let turnNs: Int64 = 100_000

    init() throws { loop = try Loop { [clock] in clock.now } }

    var nowNs: Int64 { clock.now.monotonicNs }

    /// One turn. Where nothing went on in two of them, it is as late as the next timer wants it, or as `limitNs`, which
    /// is asked for after it.
    func turn(limitNs: @autoclosure () -> Int64) {
        clock.move(toNs: clock.now.monotonicNs + Self.turnNs)
        loop.runOnce()
        let nextNs = loop.nextDeadlineNs ?? .max
        quietTurns = nextNs > clock.now.monotonicNs + Self.turnNs ? quietTurns + 1 : 0
        if quietTurns > 1 { clock.move(toNs: min(nextNs, limitNs())) }
    }

    /// The process stands still: nothing turns meanwhile.
    func standStill(forNs: Int64) { clock.move(toNs: clock.now.monotonicNs + forNs) }
}

/// What a scripted server does to a client, beyond HTTP/2.
protocol ServerChannel: ByteChannel {
    /// Ends the stream after what was sent, but without close_notify, as a peer that dies.
    func cut()
    /// The same at once, with a TCP reset.
    func reset()
}

extension SecureChannel: ServerChannel {}

/// The server's end of a connection in memory hears of it, and is given its channel first.
protocol MemoryPeer: ByteChannelDelegate {
    func take(_ channel: MemoryChannel)
}

/// One end of two byte channels in memory. What one end writes comes to the other in the loop's next turn, in one
/// piece; ends and calls are in the order in which a `SecureChannel` has them.
final class MemoryChannel: ServerChannel, TurnEnder {
    private enum State { case opening, open, closing, closed }

    /// How many more bytes the kernel takes; the others wait here.
    var kernelRoom = Int.max {
        didSet { askToTurn() }
    }
    private(set) var sentBytes: Int64 = 0
    private(set) var writtenBytes: Int64 = 0
    /// What the peer's kernel is said not to have acknowledged.
    var unacknowledgedBytes = 0
    private let loop: Loop
    private var state = State.opening
    private var delegate: (any ByteChannelDelegate)?
    private weak var other: MemoryChannel?
    private var unwritten: [UInt8] = []
    private var wantsWritable = false
    private var isAskedToTurn = false
    /// What came and was not delivered yet, and then the end.
    private var unread: [UInt8] = []
    private var unreadEnd: ChannelEnd?
    private var isToDeliver = false
    private var end: ChannelEnd?

    private static let outputLimit = ChannelOptions().outputLimit

    private init(_ loop: Loop, _ delegate: any ByteChannelDelegate) {
        self.loop = loop
        self.delegate = delegate
    }

    /// A client's end; in the next turn it is connected to the peer that `accept` returns, or ends where that throws.
    ///
    /// - Parameter afterNs: the connection takes so long.
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
        other.arrived(unwritten[..<count])
        unwritten.removeFirst(count)
        writtenBytes += Int64(count)
        if kernelRoom != .max { kernelRoom -= count }
    }

    // MARK: Receiving

    private func arrived(_ bytes: ArraySlice<UInt8>) {
        unread += bytes
        deliverSoon()
    }

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
        // It answers close_notify by its own, after what was sent.
        if unreadEnd.kind == .closedByPeer { flush() }
        finish(state == .closing ? Self.closedHere : unreadEnd)
    }

    // MARK: Closing

    private static let closedHere = ChannelEnd(.closedHere, "memory: closed")
    private static let lost = ChannelEnd(.lost, "memory: connection lost")

    func close() { closeWriting(ChannelEnd(.closedByPeer, "memory: closed by the peer")) }
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
    /// The clients' ends, in the order of the server's peers.
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
                throw ChannelEnd(.unreachable, "\(target.host):\(target.port): Connection refused")
            }
            return peer
        }
        channels.append(channel)
        return channel
    }
}
