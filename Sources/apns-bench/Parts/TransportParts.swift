import APNs
import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import TLS

/// What a transport has told a part of the bench.
struct TransportTelling {
    /// Notifications that went all the way through.
    private(set) var count = 0
    private(set) var capacity = 0
    /// Of the last turn.
    var completions: [Completion] = []

    mutating func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .completions(let batch):
                completions = batch.completions
                count += completions.count
            case .capacity(_, let requests): capacity = requests
            default: break
            }
        }
    }
}

extension PartInputs {
    /// A batch for a transport: as many devices, one payload.
    static func requests(_ count: Int) -> [OutgoingRequest] {
        let topic = lasting(Traffic.bundleID)
        let payload = lasting(Traffic.payload(7))
        return tokens(count).enumerated().map { index, token in
            OutgoingRequest(
                id: NotificationID(slot: NotificationSlot(UInt32(index)), generation: 0), token: token,
                payload: payload,
                headers: NotificationHeaders(topic: topic, priority: 10))
        }
    }
}

/// `encode`: requests from the batch that the machine hands over through the transport and its connection into memory,
/// and the answers back, until the batch of completions. The code is the product's (`APNsTransport`, `HTTP2Connection`); the
/// byte channel and the clock are not, and the server that answers 200 is not counted.
final class EncodePart: PartRun {
    private var told = TransportTelling()
    var count: Int { told.count }
    var sentBytes: Int64 { wire.channel.sentBytes }
    private let clock = SteppedClock()
    private let loop: Loop
    private let wire = PipeDialer()
    private var transport: APNsTransport!
    private let server: ServerSession
    private var answer = HeaderList()
    private var requests: [OutgoingRequest] = []
    private var made: Int64 = 0
    private let topicHash: UInt64

    /// On one connection at once.
    private static let batch = 256

    init() throws {
        loop = try Loop { [clock] in clock.now }
        // Its window never holds a batch back, so that all turns are alike.
        var options = ServerSessionOptions()
        options.connectionWindow = 1 << 20
        server = try ServerSession(options: options)
        topicHash = DerivedID.topicHash(PartInputs.lasting("apns.requests"))
        answer.append(":status", "200")
        answer.append(
            "apns-id", PartInputs.lasting("0a1b2c3d-4e5f-8a6b-9c7d-8e9fa0b1c2d3"), .nameOnly(slot: 0))
        requests = PartInputs.requests(Self.batch)
        try connect()
    }

    private func connect() throws {
        var configuration = APNsConfiguration(
            host: "api.push.apple.com", tls: try ClientContext(ClientOptions(trust: .anyone)))
        configuration.maximumConnections = 1
        let token = ProviderToken(
            keyID: "BENCHKEY01", teamID: "BENCHTEAM1", key: try SigningKey(pem: SelfSigned.privateKey()))
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop, dialer: wire
        ) { [unowned self] in told.take($0) }
        wire.channel.open()
        loop.runOnce()
        try serve()
        wire.channel.deliver()
        loop.runOnce()
        guard told.capacity >= Self.batch else { throw BenchFailure("the transport has no room for a batch") }
    }

    func prepare() throws {
        guard told.completions.allSatisfy({ $0.kind == .answered && $0.status == 200 }) else {
            throw BenchFailure("a request of encode was not answered")
        }
        told.completions = []
        clock.now.monotonicNs += 10_000_000
        clock.now.wallMs += 10
        try serve()
        for index in requests.indices {
            requests[index].id.generation &+= 1
            requests[index].headers.apnsID = DerivedID.make(topicHash: topicHash, partition: 3, offset: made, index: 0)
            made += 1
        }
    }

    private func serve() throws {
        try wire.channel.sent.take { try server.receive($0) }
        while let event = server.nextEvent() {
            guard case .request(let stream) = event else { continue }
            try server.respond(stream: stream, answer, body: PartInputs.nothing)
        }
        let output = server.output
        wire.channel.coming.add(output)
        server.consumeOutput(output.count)
    }

    func turn() throws {
        wire.channel.deliver()
        transport.handle(.send(requests))
        loop.runOnce()
        guard wire.channel.isOpen else { throw BenchFailure("the connection of encode ended") }
    }
}

/// `frames`: requests from the batch that the machine hands over through the transport of the binary protocol into
/// memory, and, as the gateway is silent for the window, their acceptance. The code is the product's
/// (`BinaryTransport`, `BinaryConnection`); the byte channel and the clock are not.
final class FramesPart: PartRun {
    private var told = TransportTelling()
    var count: Int { told.count }
    private let clock = SteppedClock()
    private let loop: Loop
    private let wire = PipeDialer()
    private var transport: BinaryTransport!
    private var requests: [OutgoingRequest] = []

    /// Open at once.
    private static let batch = 256
    private static let windowNs: Int64 = 1_000_000_000

    init() throws {
        loop = try Loop { [clock] in clock.now }
        requests = PartInputs.requests(Self.batch)
        var configuration = BinaryConfiguration(
            host: "gateway.example.com", tls: try ClientContext(ClientOptions(trust: .anyone, alpn: [])))
        configuration.maximumConnections = 1
        configuration.window.durationNs = Self.windowNs
        configuration.window.longestNs = Self.windowNs
        transport = BinaryTransport(app: AppIndex(0), configuration: configuration, loop: loop, dialer: wire) {
            [unowned self] in told.take($0)
        }
        wire.channel.open()
        loop.runOnce()
        guard told.capacity >= Self.batch else { throw BenchFailure("the transport has no room for a batch") }
    }

    func prepare() throws {
        guard told.completions.allSatisfy({ $0.kind == .answered && $0.status == 200 && $0.isPresumed }) else {
            throw BenchFailure("a request of frames was not accepted")
        }
        told.completions = []
        wire.channel.sent.take { _ in }
        for index in requests.indices { requests[index].id.generation &+= 1 }
    }

    func turn() throws {
        transport.handle(.send(requests))
        loop.runOnce()
        // What left is looked at, its window passes, and the next look finds that nothing was said until then.
        for stepNs in [100_000_000, Self.windowNs, 100_000_000] {
            clock.now.monotonicNs += stepNs
            clock.now.wallMs += stepNs / 1_000_000
            loop.runOnce()
        }
        guard wire.channel.isOpen else { throw BenchFailure("the connection of frames ended") }
    }
}

/// Stands still but where a part moves it.
final class SteppedClock {
    var now = LoopTime(monotonicNs: 1_000_000_000_000, wallMs: 1_790_000_000_000)
}

/// One byte channel in memory; what it sends is taken from it, and what is to come is put there.
final class PipeChannel: ByteChannel {
    var sent = Pipe(capacity: 1 << 20)
    var coming = Pipe(capacity: 1 << 20)
    private let delegate: any ByteChannelDelegate
    private(set) var isOpen = false
    private(set) var sentBytes: Int64 = 0
    private(set) var writtenBytes: Int64 = 0

    init(_ delegate: any ByteChannelDelegate) { self.delegate = delegate }

    var peerAddress: SocketAddress? { nil }
    var unacknowledgedBytes: Int { 0 }

    func open() {
        isOpen = true
        delegate.channelOpened(applicationProtocol: "h2")
    }

    func deliver() { coming.take { delegate.channelReceived($0) } }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        sent.add(bytes)
        sentBytes += Int64(bytes.count)
        return bytes.count
    }

    func flush() { writtenBytes = sentBytes }
    func close() { isOpen = false }
    func abort() { isOpen = false }
}

/// Has one channel, for one connection.
final class PipeDialer: ChannelDialer {
    private(set) var channel: PipeChannel!

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        channel = PipeChannel(delegate)
        return channel
    }
}

/// Bytes on their way from one side to the other, in memory that is kept.
struct Pipe: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private var count = 0

    init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 16) }

    deinit { bytes.deallocate() }

    mutating func add(_ more: UnsafeRawBufferPointer) {
        precondition(count + more.count <= bytes.count, "a turn makes less than the pipe holds")
        guard !more.isEmpty else { return }
        UnsafeMutableRawBufferPointer(rebasing: bytes[count...]).copyMemory(from: more)
        count += more.count
    }

    /// Lends all of it, which is then gone.
    mutating func take(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
        guard count > 0 else { return }
        let lent = UnsafeRawBufferPointer(rebasing: bytes[..<count])
        count = 0
        try body(lent)
    }
}
