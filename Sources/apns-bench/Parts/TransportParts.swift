import APNs
import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import TLS

/// The base class of the benchmarks that measure a transport. It provides a loop with a clock that the benchmark
/// advances, a channel in memory, and a batch of requests that the benchmark sends repeatedly.
class TransportPart {
    /// The number of completions that the transport has reported.
    private(set) var count = 0
    private var capacity = 0
    /// The completions that the transport reported in the last turn.
    private var completions: [Completion] = []
    let loop: Loop
    let wire = PipeDialer()
    /// A batch of requests for distinct devices with one payload, in flight together on one connection.
    var requests: [OutgoingRequest] = {
        let topic = PartInputs.lasting(Traffic.bundleID)
        let payload = PartInputs.lasting(Traffic.payload(7))
        return PartInputs.tokens(256).enumerated().map { index, token in
            OutgoingRequest(
                id: NotificationID(slot: NotificationSlot(UInt32(index)), generation: 0), token: token,
                payload: payload, headers: ParsedRequest.Headers(topic: topic, priority: 10))
        }
    }()

    init() throws { loop = try Loop { [wire] in wire.now } }

    final func take(_ events: [TransportEvent]) {
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

    func checkRoom() throws {
        guard capacity >= requests.count else { throw BenchFailure("the transport has no room for a batch") }
    }

    /// Checks that the last batch was accepted, and starts the next batch.
    func startBatch(isPresumed: Bool) throws {
        let isAccepted = completions.allSatisfy {
            $0.kind == .answered && $0.status == 200 && $0.isPresumed == isPresumed
        }
        guard isAccepted, wire.channel.isOpen else { throw BenchFailure("a request was not accepted") }
        completions = []
        for index in requests.indices { requests[index].id.generation &+= 1 }
    }
}

/// The benchmark `encode`, which sends batches through the worker's transport and connection (`APNsTransport`,
/// `HTTP2Connection`) and receives the answers as completions. The byte channel and the clock are fakes. The server
/// that answers 200 is not measured.
final class EncodePart: TransportPart, PartRun {
    var sentBytes: Int64 { wire.channel.sentBytes }
    private var transport: APNsTransport!
    private let server: ServerSession
    private var answer = HeaderList()
    private var made: Int64 = 0
    private let topicHash: UInt64

    override init() throws {
        // Use a flow-control window that never limits a batch, so that all turns are alike.
        var options = ServerSession.Options()
        options.connectionWindow = 1 << 20
        server = try ServerSession(options: options)
        topicHash = DerivedID.topicHash(PartInputs.lasting("apns.requests"))
        try super.init()
        answer.append(":status", "200")
        answer.append(
            "apns-id", PartInputs.lasting("0a1b2c3d-4e5f-8a6b-9c7d-8e9fa0b1c2d3"), .nameOnly(slot: 0))
        let target = DialTarget(host: "api.push.apple.com", port: 443)
        var configuration = APNsConfiguration(ConnectionSettings(target, tls: try ClientContext(trust: .anyone)))
        configuration.connections.maximum = 1
        let token = ProviderToken(
            keyID: "BENCHKEY01", teamID: "BENCHTEAM1", key: try SigningKey(pem: SelfSigned.privateKey()))
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop, dialer: wire
        ) { [unowned self] in take($0) }
        wire.channel.open()
        loop.runOnce()
        try serve()
        wire.channel.deliver()
        loop.runOnce()
        try checkRoom()
    }

    func prepare() throws {
        try startBatch(isPresumed: false)
        wire.now.monotonicNs += 10_000_000
        wire.now.wallMs += 10
        try serve()
        for index in requests.indices {
            requests[index].headers.apnsID = DerivedID.make(topicHash: topicHash, partition: 3, offset: made, index: 0)
            made += 1
        }
    }

    private func serve() throws {
        try wire.channel.sent.withUnsafeBytes { try server.receive($0) }
        wire.channel.sent.removeAll(keepingCapacity: true)
        while let event = server.nextEvent() {
            guard case .request(let stream) = event else { continue }
            try server.respond(stream: stream, answer, body: .nothing)
        }
        let output = server.output
        wire.channel.coming += output
        server.consumeOutput(output.count)
    }

    func turn() throws {
        wire.channel.deliver()
        transport.handle(.send(requests))
        loop.runOnce()
    }
}

/// The benchmark `frames`, which sends batches through the worker's transport of the binary protocol
/// (`BinaryTransport`, `BinaryConnection`). A batch counts as accepted if no error arrives within the duration of the
/// resend window. The byte channel and the clock are fakes.
final class FramesPart: TransportPart, PartRun {
    private var transport: BinaryTransport!
    private static let windowNs: Int64 = 1_000_000_000

    override init() throws {
        try super.init()
        let target = DialTarget(host: "gateway.example.com", port: 2_195)
        let context = try ClientContext(trust: .anyone, alpn: [])
        var configuration = BinaryConfiguration(ConnectionSettings(target, tls: context))
        configuration.connections.maximum = 1
        configuration.window.durationNs = Self.windowNs
        configuration.window.longestNs = Self.windowNs
        transport = BinaryTransport(app: AppIndex(0), configuration: configuration, loop: loop, dialer: wire) {
            [unowned self] in take($0)
        }
        wire.channel.open()
        loop.runOnce()
        try checkRoom()
    }

    func prepare() throws {
        try startBatch(isPresumed: true)
        wire.channel.sent.removeAll(keepingCapacity: true)
    }

    func turn() throws {
        transport.handle(.send(requests))
        loop.runOnce()
        // First the transport registers the written bytes, then the resend window passes, then a check finds no error.
        for stepNs in [100_000_000, Self.windowNs, 100_000_000] {
            wire.now.monotonicNs += stepNs
            wire.now.wallMs += stepNs / 1_000_000
            loop.runOnce()
        }
    }
}

/// A byte channel in memory.
final class PipeChannel: ByteChannel {
    /// The bytes sent on the channel. `coming` contains the bytes that the next `deliver` passes to the delegate.
    var sent: [UInt8] = []
    var coming: [UInt8] = []
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

    func deliver() {
        coming.withUnsafeBytes { delegate.channelReceived($0) }
        coming.removeAll(keepingCapacity: true)
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        sent += bytes
        sentBytes += Int64(bytes.count)
        return bytes.count
    }

    func flush() { writtenBytes = sentBytes }
    func close() { isOpen = false }
    func abort() { isOpen = false }
}

/// A dialer that opens one channel for one connection, and the clock, which only the benchmark advances.
final class PipeDialer: ChannelDialer {
    private(set) var channel: PipeChannel!
    var now = LoopTime(monotonicNs: 1_000_000_000_000, wallMs: 1_790_000_000_000)

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        channel = PipeChannel(delegate)
        return channel
    }
}
