@testable import Configuration
import EventLoop
import Foundation
import Kafka
import Network
import Observability
import PushRecords
import TLS
import TestSupport
import Testing

@testable import APNsSimulator
@testable import Worker

/// The simulator's feedback service and in-process brokers, with a reader between them.
@Suite(.serialized, .timeLimit(.minutes(5))) struct FeedbackReaderTests {
    private final class Lateness { var ns: Int64 = 0 }

    private final class World {
        let simulator: Simulator
        let cluster: MockCluster
        let loop: Loop
        let reader: FeedbackReader
        let log = MemorySink()
        let topic = KafkaBroker.uniqueName("unregistered")
        /// Added to the loop's clock.
        let lateness = Lateness()
        private(set) var outcomes: [FeedbackOutcome] = []

        init() throws {
            var options = SimulatorOptions()
            options.controlPort = nil
            options.gatewayPort = 0
            options.feedbackPort = 0
            simulator = try Simulator(options)
            cluster = try MockCluster()
            try cluster.create(topic, partitions: 1)
            loop = try Loop(clock: { [lateness] in
                var time = LoopTime.read()
                time.monotonicNs += lateness.ns
                return time
            })
            reader = FeedbackReader(
                ClusterSettings(bootstrapServers: cluster.bootstrapServers), topic: topic, loop: loop,
                logger: Logger(sink: log.write))
            reader.onEnd = { [unowned self] in outcomes.append($1) }
        }

        deinit {
            reader.onEnd = { _, _ in }
            reader.close(because: "it was cut off")
            loop.runOnce()
            simulator.stop()
        }

        func app(port: UInt16? = nil, index: Int = 0) throws -> FeedbackApp {
            let issued = try simulator.credentials.authority.issueClient(bundleID: SimulatorCredentials.bundleID)
            var app = AppSettings.withCertificate(
                .pem(certificate: .text(issued.certificatePEM), key: .text(issued.keyPEM)), name: "old")
            app.bundleIDs = [SimulatorCredentials.bundleID]
            app.host = simulator.host
            app.authorities = .text(simulator.credentials.caPEM)
            app.binary = BinarySettings()
            var feedback = BinarySettings.Feedback(host: simulator.host)
            feedback.port = Int(port ?? simulator.feedbackPort ?? 0)
            app.binary?.feedback = feedback
            return try #require(FeedbackApp(try LoadedApp(app), index: index))
        }

        func tell(_ count: Int) throws {
            for number in 0..<count {
                let digits = String(number, radix: 16)
                let token = String(repeating: "0", count: 64 - digits.count) + digits
                simulator.feedback.add(try .init(token: token, seconds: UInt32(number)))
            }
        }

        func run(seconds: Double = ChildProcess.patience, until condition: () throws -> Bool) throws {
            let deadline = Date(timeIntervalSinceNow: seconds)
            while try !condition() {
                guard Date() < deadline else {
                    throw ChildProcess.Failure.timedOut(waitingFor: "feedback", output: "\(log.lines)")
                }
                loop.runOnce(timeoutNs: 20_000_000)
            }
        }

        /// Reads once and expects a complete list of this many tokens.
        func read(_ tokens: Int) throws {
            try reader.begin(try app())
            try run { !outcomes.isEmpty }
            #expect(outcomes == [.init(app: "old", tokens: tokens)])
        }

        var written: Int {
            get throws { Int(try logRange(of: TopicPartition(topic, 0), cluster.bootstrapServers).upperBound) }
        }
    }

    @Test func `Each token is produced once, and a second read finds an empty list`() throws {
        let world = try World()
        try world.tell(25_000)
        try world.read(25_000)
        #expect(try world.written == 25_000 && world.reader.count == 0)
        // A complete read empties the list.
        try world.reader.begin(try world.app())
        try world.run { world.outcomes.count == 2 }
        #expect(world.outcomes.last == .init(app: "old", tokens: 0))
    }

    @Test func `Tokens wait while the broker is unreachable, and no other read begins`() throws {
        let world = try World()
        try world.cluster.setRoundTrip(milliseconds: 200)
        try world.tell(60_000)
        try world.reader.begin(try world.app())
        try world.run { world.reader.waiting(of: 0).tokens > 1_000 }
        try world.cluster.setReachable(false)
        let end = Date(timeIntervalSinceNow: 2)
        try world.run { Date() > end }
        #expect(world.outcomes.isEmpty && world.reader.waiting(of: 0).tokens > 0)
        #expect(throws: KafkaError.self, "no second read begins while tokens wait") {
            try world.reader.begin(try world.app(index: 1))
        }
        try world.cluster.setReachable(true)
        try world.cluster.setRoundTrip(milliseconds: 0)
        try world.run { !world.outcomes.isEmpty }
        #expect(world.outcomes == [.init(app: "old", tokens: 60_000)])
        // Tokens that were in flight may be produced twice.
        #expect(try world.written >= 60_000)
    }

    /// The list has more tokens than the worker has room for.
    @Test func `The worker pauses reading while it has no room for more tokens`() throws {
        let world = try World()
        try world.tell(120_000)
        try world.reader.begin(try world.app())
        try world.cluster.setRoundTrip(milliseconds: 2_000)
        try world.run { world.log.lines.contains { $0.contains("feedback reads paused") } }
        // One turn may exceed the limit by the tokens that it reads.
        #expect(world.reader.waiting(of: 0).tokens <= FeedbackReader.waitingLimit + 10_000)
        try world.cluster.setRoundTrip(milliseconds: 0)
        try world.run { !world.outcomes.isEmpty }
        #expect(world.outcomes == [.init(app: "old", tokens: 120_000)])
        #expect(try world.written >= 120_000)
    }

    /// The service still has the tokens that were not read, so a read that is cut off must not count as complete.
    @Test func `Tokens that are lost at shutdown are counted in the log but not shown, and the read fails`() throws {
        let world = try World()
        try world.tell(1_000)
        try world.reader.begin(try world.app())
        #expect(world.reader.close(because: "it was cut off") == 0)
        #expect(world.outcomes == [.init(app: "old", tokens: 0, failure: "it was cut off")])
        #expect(!world.log.lines.contains { $0.contains("tokens lost") })

        let other = try World()
        try other.cluster.setRoundTrip(milliseconds: 200)
        try other.tell(1_000)
        try other.reader.begin(try other.app())
        try other.run { other.reader.waiting(of: 0).tokens == 1_000 }
        try other.cluster.setReachable(false)
        #expect(other.reader.close(because: "it was cut off") == 1_000)
        let line = try #require(other.log.lines.last { $0.contains("dead tokens lost") })
        #expect(line.contains("app=old lost=1000"))
        #expect(!other.log.lines.contains { $0.contains("00000000000") }, "the log must not contain tokens")
    }

    @Test func `Tokens that the broker rejects are produced again`() throws {
        let world = try World()
        try world.tell(100)
        // The broker rejects the first two produce requests.
        world.cluster.fail(0, with: [.topicAuthorizationFailed, .topicAuthorizationFailed])
        try world.read(100)
        #expect(try world.written == 100)
    }

    @Test func `A read fails when the service refuses connections`() throws {
        let world = try World()
        let port = UInt16(Ports.claim())
        try world.reader.begin(try world.app(port: port))
        try world.run { !world.outcomes.isEmpty }
        let outcome = try #require(world.outcomes.first)
        #expect(outcome.kind == .failed && outcome.tokens == 0)
        #expect(outcome.failure?.contains("Connection refused") == true, "\(outcome)")
    }

    /// A list of two items. A test drops the last byte to cut the second item short.
    private static let list: [UInt8] = (1...2).flatMap { number in [0, 0, 0, number, 0, 4] + [9, 9, 9, number] }

    /// Runs one read of a service that sends `bytes` and then ends in this way.
    private func read(
        _ bytes: [UInt8], then ending: ScriptedFeedback.Ending, _ world: World
    ) throws -> FeedbackOutcome {
        let service = try ScriptedFeedback(bytes, then: ending, world.simulator.credentials, loop: world.loop)
        defer { service.stop() }
        try world.reader.begin(try world.app(port: service.port))
        if ending == .staysSilent {
            try world.run { world.reader.waiting(of: 0).tokens + (try world.written) >= bytes.count / 10 }
            let end = Date(timeIntervalSinceNow: 0.3)
            try world.run { Date() > end }
            #expect(world.outcomes.isEmpty)
            world.lateness.ns += 30_000_000_000
        }
        try world.run { !world.outcomes.isEmpty }
        return try #require(world.outcomes.first)
    }

    @Test(arguments: [ScriptedFeedback.Ending.closes, .cuts])
    func `The end of the stream completes the list of tokens`(ending: ScriptedFeedback.Ending) throws {
        let world = try World()
        #expect(try read(Self.list, then: ending, world) == .init(app: "old", tokens: 2))
        #expect(try world.written == 2)
    }

    @Test(arguments: [ScriptedFeedback.Ending.closes, .cuts, .staysSilent])
    func `Tokens before an incomplete item are produced, and the read counts as incomplete`(
        ending: ScriptedFeedback.Ending
    ) throws {
        let world = try World()
        let outcome = try read(Self.list.dropLast(), then: ending, world)
        #expect(outcome.kind == .incomplete && outcome.tokens == 1)
        let words = ending == .staysSilent ? "sent nothing for 30 s" : "closed before an item was complete"
        #expect(outcome.failure?.contains(words) == true, "\(outcome)")
        #expect(try world.written == 1)
    }

    @Test func `The time of a dead token is never later than the read`() throws {
        let world = try World()
        let beforeMs = Timestamp.now().wallMs
        // The item's time is in 2106.
        _ = try read([255, 255, 255, 255, 0, 4, 9, 9, 9, 9], then: .closes, world)
        let cluster = ClusterSettings(bootstrapServers: world.cluster.bootstrapServers)
        let wait = BrokerWait(cluster, limitMs: 60_000, leftMs: { 60_000 }, report: { _ in })
        let reader = try TopicReader(cluster, topic: world.topic, wait)
        try reader.start(at: .beginning)
        var timesMs: [Int64?] = []
        while timesMs.isEmpty {
            try reader.read(timeoutMs: 1_000) { _, message in
                timesMs.append(try? UnregisteredToken(json: Array(message.value)).unregisteredAtMs)
                return false
            }
        }
        let timeMs = try #require(timesMs[0])
        #expect(timeMs >= beforeMs && timeMs <= Timestamp.now().wallMs)
    }

    @Test func `Tokens of impossible lengths are counted and skipped`() throws {
        let world = try World()
        let long: [UInt8] = [0, 0, 0, 1, 0, 101] + [UInt8](repeating: 7, count: 101)
        #expect(
            try read(long + Self.list + [0, 0, 0, 1, 0, 0], then: .closes, world)
                == .init(app: "old", tokens: 2, skipped: 2))
        #expect(world.log.lines.contains { $0.contains("impossible token length") && $0.contains("tokens=2") })
    }

    /// A server that resets the connection may have had more tokens to send.
    @Test func `A lost connection fails the read`() throws {
        let world = try World()
        let outcome = try read([], then: .resets, world)
        #expect(outcome.kind == .failed && outcome.failure?.contains("connection lost") == true, "\(outcome)")
    }
}

@Suite struct FeedbackPlanTests {
    private static let second: Int64 = 1_000_000_000

    private func plan(_ intervals: [Int: Int64]) -> FeedbackPlan {
        var plan = FeedbackPlan()
        plan.set(intervals.mapValues { $0 * Self.second }, nowNs: 0)
        return plan
    }

    @Test func `The first read begins soon after the start, and the next one an interval later`() {
        var plan = plan([3: 100])
        #expect(plan.nextNs == FeedbackPlan.firstNs && plan.due(nowNs: FeedbackPlan.firstNs - 1) == nil)
        #expect(plan.due(nowNs: FeedbackPlan.firstNs) == 3)
        plan.began(3, nowNs: FeedbackPlan.firstNs)
        #expect(plan.nextNs == .max, "only one read runs at a time")
        plan.ended(3, isComplete: true, nowNs: 40 * Self.second)
        #expect(plan.nextNs == FeedbackPlan.firstNs + 100 * Self.second)
    }

    @Test func `A failed read is repeated after a minute, or after the interval if that is shorter`() {
        var plan = plan([0: 3_600, 1: 1])
        for app in [0, 1] {
            plan.began(app, nowNs: 10 * Self.second)
            plan.ended(app, isComplete: false, nowNs: 20 * Self.second)
        }
        #expect(plan.due(nowNs: 21 * Self.second) == 1)
        plan.began(1, nowNs: 21 * Self.second)
        #expect(plan.nextNs == 80 * Self.second)
    }

    @Test func `A read that cannot begin because of Kafka is retried after five seconds`() {
        var plan = plan([0: 3_600])
        #expect(plan.postpone(nowNs: 2 * Self.second) == [0])
        #expect(plan.nextNs == 7 * Self.second)
    }

    @Test func `An app's feedback is read soon after its interval changes, and never without an interval`() {
        var plan = plan([0: 3_600, 1: 0])
        #expect(plan.due(nowNs: .max - 1) == 0, "only the feedback command reads app 1")
        plan.began(0, nowNs: Self.second)
        plan.set([0: 60 * Self.second], nowNs: 2 * Self.second)
        #expect(plan.nextNs == .max, "app 0 is being read")
        plan.ended(0, isComplete: true, nowNs: 3 * Self.second)
        #expect(plan.nextNs == 61 * Self.second)
        plan.set([0: 50 * Self.second], nowNs: 30 * Self.second)
        #expect(plan.nextNs == 31 * Self.second)
        plan.set([0: 0], nowNs: 31 * Self.second)
        plan.ended(0, isComplete: true, nowNs: 32 * Self.second)
        #expect(plan.nextNs == .max)
    }
}

/// A feedback service that sends scripted bytes and then ends in a scripted way.
final class ScriptedFeedback: ByteChannelDelegate {
    enum Ending: CaseIterable {
        /// `closes` sends a TLS close alert, `cuts` only closes the socket.
        case closes, cuts
        case resets
        /// Keeps the connection open.
        case staysSilent
    }

    private let bytes: [UInt8]
    private let ending: Ending
    private var listener: Listener?
    private var channel: SecureChannel?

    init(_ bytes: [UInt8], then ending: Ending, _ credentials: SimulatorCredentials, loop: Loop) throws {
        self.bytes = bytes
        self.ending = ending
        let context = try ServerContext(identity: credentials.authority.issueServer().identity(), alpn: [])
        listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { [unowned self] accepted in
            channel = SecureChannel(accepted: accepted, context: context, loop: loop, delegate: self)
        }
    }

    var port: UInt16 { listener?.port ?? 0 }

    func stop() {
        listener?.close()
        channel?.abort()
    }

    func channelOpened(applicationProtocol: String?) {
        guard let channel else { return }
        _ = bytes.withUnsafeBytes { channel.send($0) }
        channel.flush()
        switch ending {
        case .closes: channel.close()
        case .cuts: channel.cut()
        case .resets: channel.reset()
        case .staysSilent: break
        }
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {}
    func channelClosed(_ end: ChannelEnd) { self.channel = nil }
}
