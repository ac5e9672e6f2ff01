import APNs
import Delivery
import EventLoop
import Network
import PushRecords
import TLS

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
