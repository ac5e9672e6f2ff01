import APNs
import Delivery
import EventLoop
import HTTP2
import Network
import PushRecords
import TLS

/// `encode`: requests from the batch that the machine hands over through the transport and its connection into memory,
/// and the answers back, until the batch of completions. The code is the product's (`APNsTransport`, `Connection`); the
/// byte channel and the clock are not, and the server that answers 200 is not counted.
final class EncodePart: PartRun {
    private var told = TransportTelling()
    var count: Int { told.count }
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
