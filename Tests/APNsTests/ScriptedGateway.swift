import Delivery
import EventLoop
import Network
import PushRecords
import TLS
import Testing

@testable import APNs

/// A frame as the gateway parsed it.
struct ReadFrame: Equatable {
    var identifier: UInt32
    var expiry: UInt32 = 0
    var priority: UInt8 = 0
    var token: [UInt8]
    var payload: [UInt8]

    /// The number at the end of a test's token.
    var number: UInt32 { token.suffix(4).reduce(0) { $0 << 8 | UInt32($1) } &- GatewayWorld.firstToken }
    var isFence: Bool { token == [UInt8](repeating: 0, count: 32) }

    /// Removes and returns the complete frames at the front of these bytes.
    static func read(_ bytes: inout [UInt8]) -> [ReadFrame] {
        var frames: [ReadFrame] = []
        while let (frame, count) = first(bytes) {
            frames.append(frame)
            bytes.removeFirst(count)
        }
        return frames
    }

    /// Returns the first frame and its size, or `nil` if it is incomplete.
    static func first(_ bytes: [UInt8]) -> (ReadFrame, Int)? {
        var at = 0
        func number(_ count: Int) -> Int? {
            guard at + count <= bytes.count else { return nil }
            defer { at += count }
            return bytes[at..<(at + count)].reduce(0) { $0 << 8 | Int($1) }
        }
        func text() -> [UInt8]? {
            guard let count = number(2), at + count <= bytes.count else { return nil }
            defer { at += count }
            return Array(bytes[at..<(at + count)])
        }
        switch number(1) {
        case let command? where command < 2:
            guard let identifier = command == 0 ? 0 : number(4), let expiry = command == 0 ? 0 : number(4),
                let token = text(), let payload = text()
            else { return nil }
            return (
                ReadFrame(identifier: UInt32(identifier), expiry: UInt32(expiry), token: token, payload: payload), at
            )
        case 2:
            guard let length = number(4), at + length <= bytes.count else { return nil }
            var frame = ReadFrame(identifier: 0, token: [], payload: [])
            let end = at + length
            while at < end, let item = number(1), let data = text() {
                let value = data.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
                switch item {
                case 1: frame.token = data
                case 2: frame.payload = data
                case 3: frame.identifier = value
                case 4: frame.expiry = value
                case 5: frame.priority = data[0]
                default: Issue.record("item \(item)")
                }
            }
            return (frame, at)
        default: return nil
        }
    }
}

/// One accepted connection of a scripted gateway.
final class GatewayPeer: MemoryPeer {
    fileprivate(set) var channel: MemoryChannel!
    private(set) var frames: [ReadFrame] = []
    private(set) var isClosed = false
    private var unread: [UInt8] = []
    private unowned let gateway: ScriptedGateway

    fileprivate init(_ gateway: ScriptedGateway) { self.gateway = gateway }

    func take(_ channel: MemoryChannel) {
        self.channel = channel
        gateway.peers.append(self)
    }

    func channelOpened(applicationProtocol: String?) {}

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        unread += bytes
        for frame in ReadFrame.read(&unread) {
            frames.append(frame)
            if frame.isFence, gateway.answersFences {
                answer(8, frame.identifier)
            } else {
                gateway.onFrame(self, frame)
            }
        }
    }

    func channelClosed(_ end: ChannelEnd) { isClosed = true }

    /// Sends an error answer, and closes the connection unless `closes` is false.
    func answer(_ status: UInt8, _ identifier: UInt32, closes: Bool = true) {
        let bytes: [UInt8] = [8, status] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> (24 - 8 * $0)) }
        say(bytes)
        if closes { channel.close() }
    }

    func say(_ bytes: [UInt8]) { bytes.withUnsafeBytes { _ = channel.send($0) } }
}

/// A gateway in memory whose answers a test decides.
final class ScriptedGateway: ChannelDialer {
    private let loop: Loop
    var onFrame: (GatewayPeer, ReadFrame) -> Void = { _, _ in }
    /// Whether each fence is refused. Otherwise `onFrame` receives it.
    var answersFences = false
    var isListening = true
    /// Prepares a new client channel.
    var onDial: (MemoryChannel) -> Void = { _ in }
    fileprivate(set) var peers: [GatewayPeer] = []
    /// The clients' channels.
    private(set) var channels: [MemoryChannel] = []

    init(loop: Loop) { self.loop = loop }

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        let channel = MemoryChannel.dial(loop, delegate) { [unowned self] () throws(ChannelEnd) in
            guard isListening else { throw ChannelEnd("gateway: Connection refused") }
            return GatewayPeer(self)
        }
        channels.append(channel)
        onDial(channel)
        return channel
    }

    /// The frames of all connections without fences.
    var frames: [ReadFrame] { peers.flatMap(\.frames).filter { !$0.isFence } }
}

/// One loop with a scripted gateway and a transport, in simulated time.
final class GatewayWorld: TransportScene {
    /// The token of notification 0. It is not zero, because the token of zeros is the fence's.
    static let firstToken: UInt32 = 1_000_000

    let gateway: ScriptedGateway
    var configuration: BinaryConfiguration
    private(set) var transport: BinaryTransport!
    private var waiting: [UInt32] = []
    private var outstanding = 0
    /// Whether unprocessed or in-doubt notifications are sent again at once within the capacity, as the delivery
    /// machine does.
    var sendsAgain = false

    init() throws {
        let time = try TestTime()
        gateway = ScriptedGateway(loop: time.loop)
        let target = DialTarget(host: "gateway", port: 2_195)
        configuration = BinaryConfiguration(ConnectionSettings(target, tls: try ClientContext(trust: .anyone)))
        super.init(time.loop, time)
        configuration.connections.backOff.firstNs = 20_000_000
        configuration.connections.backOff.lastNs = 40_000_000
    }

    var nowNs: Int64 { loop.clock().monotonicNs }

    func start() {
        transport = BinaryTransport(
            app: AppIndex(0), configuration: configuration, loop: loop, dialer: gateway
        ) { [unowned self] events in take(events) }
    }

    func connect() {
        start()
        run("capacity") { capacity > 0 }
    }

    /// Returns a world with an open connection. `prepare` can change the gateway and the configuration before.
    static func connected(_ prepare: (GatewayWorld) -> Void = { _ in }) throws -> GatewayWorld {
        let world = try GatewayWorld()
        prepare(world)
        world.connect()
        return world
    }

    override func isFinal(_ completion: Completion) -> Bool {
        outstanding -= 1
        guard sendsAgain, completion.kind != .answered else { return true }
        waiting.append(completion.id.slot.number)
        return false
    }

    /// Sends the waiting requests within the capacity.
    private func sendWaiting() {
        let count = min(waiting.count, max(0, capacity - outstanding))
        guard count > 0 else { return }
        let batch = waiting.prefix(count).map { request($0) }
        waiting.removeFirst(count)
        outstanding += count
        transport.handle(.send(batch))
    }

    override func turn(limitNs: Int64) {
        sendWaiting()
        // The steps are small, so that events of a turn are handled before the next timer.
        super.turn(limitNs: min(limitNs, nowNs + 20_000_000))
    }

    override func handle(_ command: TransportCommand) { transport.handle(command) }

    override func request(_ number: UInt32) -> OutgoingRequest {
        request(number, payload: #"{"aps":{"alert":"Hi"}}"#)
    }

    func request(_ number: UInt32, payload: String) -> OutgoingRequest {
        request(number, token: World.token(number + Self.firstToken), payload: payload)
    }

    func send(_ numbers: Range<UInt32>) { waiting += numbers }

    /// Sends these notifications and waits for their completions.
    func complete(_ numbers: Range<UInt32>, sourceLocation: SourceLocation = #_sourceLocation) {
        send(numbers)
        awaitCompletions(numbers, sourceLocation: sourceLocation)
    }
}
