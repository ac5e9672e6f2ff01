import APNs
import Delivery
import EventLoop
import Network
import PushRecords
import TLS

/// `frames`: requests from the batch that the machine hands over through the transport of the binary protocol into memory, and,
/// as the gateway is silent for the window, their acceptance. The code is the product's (`BinaryTransport`,
/// `BinaryConnection`); the byte channel and the clock are not.
final class FramesPart: PartRun {
    private(set) var count = 0
    private let clock = SteppedClock()
    private let loop: Loop
    private let wire = PipeDialer()
    private var transport: BinaryTransport!
    private var requests: [OutgoingRequest] = []
    private var capacity = 0
    /// Of the last turn.
    private var completions: [Completion] = []

    /// Open at once.
    private static let batch = 256
    private static let windowNs: Int64 = 1_000_000_000

    init() throws {
        loop = try Loop { [clock] in clock.now }
        let topic = PartInputs.lasting(Traffic.bundleID)
        let payload = PartInputs.lasting(Traffic.payload(7))
        requests = PartInputs.tokens(Self.batch).enumerated().map { index, token in
            OutgoingRequest(
                id: NotificationID(slot: UInt32(index), generation: 0), token: token, payload: payload,
                headers: NotificationHeaders(topic: topic, priority: 10))
        }
        var configuration = BinaryConfiguration(
            host: "gateway.example.com", tls: try ClientContext(TLS.ClientOptions(trust: .anyone, alpn: [])))
        configuration.maximumConnections = 1
        configuration.window.durationNs = Self.windowNs
        configuration.window.longestNs = Self.windowNs
        transport = BinaryTransport(app: AppIndex(0), configuration: configuration, loop: loop, dialer: wire) {
            [unowned self] in take($0)
        }
        wire.channel.open()
        loop.runOnce()
        guard capacity >= Self.batch else { throw BenchFailure("the transport has no room for a batch") }
    }

    private func take(_ events: [TransportEvent]) {
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

    func prepare() throws {
        guard completions.allSatisfy({ $0.kind == .answered && $0.status == 200 && $0.isPresumed }) else {
            throw BenchFailure("a request of frames was not accepted")
        }
        completions = []
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
