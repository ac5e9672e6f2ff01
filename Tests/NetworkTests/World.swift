import EventLoop
import Network
import TLS
import TestSupport

/// A loop that runs on the test's thread, a listener on this loop, and both ends of every connection.
final class World {
    static let authority = try! CertificateAuthority()
    static let identity = try! authority.issueServer(names: ["push.example"]).identity()

    let loop: Loop
    let dialer: Dialer
    private(set) var listener: Listener!
    /// The recorders of the servers' side, one for each accepted connection.
    private(set) var servers: [Recorder] = []
    var serverOptions = ChannelOptions()
    /// Called for each accepted connection's recorder before its channel starts.
    var onAccept: (Recorder) -> Void = { _ in }
    private let serverContext: ServerContext

    init(server: ServerContext? = nil, host: String = "127.0.0.1") throws {
        loop = try Loop()
        dialer = Dialer(loop: loop)
        serverContext = try server ?? ServerContext(identity: World.identity)
        listener = try Listener(host: host, port: 0, loop: loop) { [unowned self] accepted in
            let recorder = Recorder()
            servers.append(recorder)
            onAccept(recorder)
            recorder.channel = SecureChannel(
                accepted: accepted, context: serverContext, loop: loop, options: serverOptions, delegate: recorder)
        }
    }

    deinit { listener.close() }

    static func clientContext(identity: Identity? = nil) throws -> ClientContext {
        try ClientContext(trust: .pem(authority.certificatePEM), identity: identity)
    }

    /// Dials `target`, or the listener if there is none.
    func connect(
        _ target: DialTarget? = nil, client: ClientContext? = nil,
        options: ChannelOptions = ChannelOptions()
    ) throws -> Recorder {
        let recorder = Recorder()
        recorder.channel = SecureChannel(
            dialing: target ?? DialTarget(host: "127.0.0.1", port: listener.port),
            context: try client ?? World.clientContext(), dialer: dialer, loop: loop, options: options,
            delegate: recorder)
        return recorder
    }

    /// Both ends of an open connection.
    func connectedPair(options: ChannelOptions = ChannelOptions()) throws -> (client: Recorder, server: Recorder) {
        let client = try connect(options: options)
        let index = servers.count
        try run { client.isOpen && self.servers.count > index && self.servers[index].isOpen }
        return (client, servers[index])
    }

    /// Runs the loop until the condition is true, or throws after `seconds`.
    func run(seconds: Double = ChildProcess.patience, until isDone: () -> Bool) throws {
        let deadlineNs = LoopTime.read().monotonicNs + Int64(seconds * 1e9)
        while !isDone() {
            guard LoopTime.read().monotonicNs < deadlineNs else { throw TimedOut() }
            loop.runOnce(timeoutNs: 50_000_000)
        }
    }

    /// Runs the loop a few times, for events that must not happen.
    func settle(turns: Int = 20) {
        for _ in 0..<turns { loop.runOnce(timeoutNs: 1_000_000) }
    }

    struct TimedOut: Error {}
}

/// Records the callbacks of a channel and checks their order.
final class Recorder: ByteChannelDelegate {
    var channel: SecureChannel!
    private(set) var isOpen = false
    private(set) var applicationProtocol: String?
    private(set) var received: [UInt8] = []
    private(set) var reads = 0
    private(set) var writables = 0
    private(set) var end: ChannelEnd?
    private(set) var violations: [String] = []
    var keepsBytes = true
    private(set) var receivedCount = 0
    var onOpened: (SecureChannel) -> Void = { _ in }
    var onReceived: (SecureChannel, UnsafeRawBufferPointer) -> Void = { _, _ in }
    var onWritable: (SecureChannel) -> Void = { _ in }
    var onClosed: (SecureChannel) -> Void = { _ in }

    func channelOpened(applicationProtocol: String?) {
        if isOpen { violations.append("opened twice") }
        check()
        isOpen = true
        self.applicationProtocol = applicationProtocol
        onOpened(channel)
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        if !isOpen { violations.append("bytes before opened") }
        if bytes.isEmpty { violations.append("no bytes") }
        check()
        reads += 1
        receivedCount += bytes.count
        if keepsBytes { received += bytes }
        onReceived(channel, bytes)
    }

    func channelWritable() {
        check()
        if channel.room < channel.lowRoom { violations.append("writable without room") }
        writables += 1
        onWritable(channel)
    }

    func channelClosed(_ end: ChannelEnd) {
        check()
        if channel.state != .closed { violations.append("closed in state \(channel.state)") }
        self.end = end
        onClosed(channel)
    }

    private func check() {
        if end != nil { violations.append("called after closed") }
        // The initializer must return before the first callback.
        if channel == nil { violations.append("called from inside the initializer") }
    }
}

/// Bytes of a pattern, which depend on their position.
func bytes(_ count: Int, from start: Int = 0) -> [UInt8] { Array(pattern[start..<start + count]) }

private let pattern: [UInt8] = {
    var pattern = [UInt8](repeating: 0, count: 1 << 20)
    for index in pattern.indices { pattern[index] = UInt8(truncatingIfNeeded: index &* 31 &+ index >> 8) }
    return pattern
}()

extension SecureChannel {
    @discardableResult
    func send(_ bytes: [UInt8]) -> Int { bytes.withUnsafeBytes { send($0) } }
}
