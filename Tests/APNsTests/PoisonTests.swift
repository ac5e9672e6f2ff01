import APNsSimulator
import Delivery
import EventLoop
import Network
import PushRecords
import TLS
import Testing

@testable import APNs

/// A machine, a transport and the simulator: one notification kills every connection it goes over.
@Suite(.serialized, .timeLimit(.minutes(5))) struct PoisonTests {
    private static let others = 5_000

    @Test(
        arguments: [(latency: "0", maxAttempts: 5), ("0", 0), ("5ms", 5)])
    func `One poisonous of 5,000 ends in the tier, the others are accepted`(latency: String, maxAttempts: Int) throws {
        var options = SimulatorOptions()
        options.controlPort = nil
        options.latency = try #require(Latency(text: latency))
        var settings = MachineSettings()
        settings.maxAttempts = maxAttempts
        let simulator = try Simulator(options)
        let courier = try Courier(simulator, settings)
        defer {
            courier.stop()
            simulator.stop()
        }
        // Its request always cuts the connection (`simulate --help`).
        let poison = "fa17f0200" + String(repeating: "0", count: 55)
        for number in 0..<Self.others {
            if number == 700 { courier.receive(poison) }
            courier.receive(World.token(UInt32(number)))
        }
        courier.run("all ended") { courier.endings.count == Self.others + 1 }
        courier.run("all committed") { courier.committed == Int64(Self.others + 1) }

        let end = try #require(courier.endings[poison])
        #expect(end.outcome == (maxAttempts > 0 ? nil : .abandoned), "a retry record, or abandoned")
        #expect(end.inDoubt == 6 && end.attempts == 6, "five resends")
        #expect(end.tier == (maxAttempts > 0 ? 1 : nil))
        let rest = courier.endings.filter { $0.key != poison }.values
        #expect(rest.allSatisfy { $0.outcome == .accepted })
        let mostInDoubt = rest.map(\.inDoubt).max() ?? 0
        let doubted = rest.count { $0.inDoubt > 0 }
        print("poison, latency \(latency): \(doubted) others in doubt, \(mostInDoubt) times at most")
        #expect(mostInDoubt <= 4)
        #expect(simulator.books.totals.cuts == 6)
    }
}

/// A worker in small, in the worker's own turns: Kafka acknowledges at once whatever it is given.
final class Courier: RequestSource, Transports, RecordSink, OffsetSink {
    typealias Failure = Never

    struct End {
        /// `nil`: a retry record.
        var outcome: Outcome?
        var tier: Int?
        var inDoubt: Int
        var attempts: Int
    }

    /// `nil`: of the machine.
    private let time: TestTime?
    private let loop: Loop
    private var machine: DeliveryMachine
    private var turns = DeliveryTurn()
    private var transport: APNsTransport!
    private var partition: PartitionID
    private var events: [TransportEvent] = []
    private var unread: [Lent] = []
    private var read = 0
    private(set) var endings: [String: End] = [:]
    private(set) var committed: Int64 = 0

    /// Over TLS.
    convenience init(_ simulator: Simulator, _ settings: MachineSettings) throws {
        let loop = try Loop()
        let configuration = APNsConfiguration(
            host: "127.0.0.1", port: simulator.port,
            tls: try ClientContext(ClientOptions(trust: .pem(simulator.credentials.caPEM))))
        let token = ProviderToken(
            keyID: SimulatorCredentials.keyID, teamID: SimulatorCredentials.teamID,
            key: try SigningKey(pem: simulator.credentials.providerKeyPEM))
        self.init(settings, loop, nil, configuration, token, Dialer(loop: loop))
    }

    /// In memory.
    convenience init(_ server: ScriptedServer, _ settings: MachineSettings) throws {
        let time = try TestTime()
        let configuration = APNsConfiguration(
            host: "127.0.0.1", port: server.port, tls: try ClientContext(ClientOptions(trust: .anyone)))
        self.init(
            settings, time.loop, time, configuration, try World.providerToken(),
            MemoryDialer(loop: time.loop, server: server))
    }

    private init(
        _ settings: MachineSettings, _ loop: Loop, _ time: TestTime?, _ configuration: APNsConfiguration,
        _ token: ProviderToken, _ dialer: any ChannelDialer
    ) {
        self.loop = loop
        self.time = time
        machine = DeliveryMachine(
            settings: settings,
            apps: [
                AppRoute(name: "shop", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
            ])
        partition = machine.assign(
            topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: 0,
            metadata: UnsafeRawBufferPointer(start: nil, count: 0))
        var configuration = configuration
        configuration.backOff.firstNs = 20_000_000
        configuration.backOff.lastNs = 100_000_000
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop, dialer: dialer
        ) { [unowned self] in events += $0 }
    }

    func stop() {
        transport.handle(.close)
        run("closed") { isClosed }
    }

    private var isClosed = false

    func receive(_ token: String) { unread.append(Lent(token)) }

    func run(_ what: String, until isSo: () -> Bool) {
        let deadlineNs = loop.readClock().monotonicNs + 60_000_000_000
        while !isSo() {
            guard loop.readClock().monotonicNs < deadlineNs else {
                Issue.record("not within 60 s: \(what); \(endings.count) ended")
                return
            }
            turn()
            if let time {
                // The machine has times of its own.
                time.turn(limitNs: time.nowNs + 10_000_000)
            } else {
                loop.runOnce(timeoutNs: 2_000_000)
            }
        }
    }

    private func turn() {
        let time = loop.readClock()
        let now = DeliveryTime(ns: time.monotonicNs, wallMs: time.wallMs)
        _ = turns.run(
            &machine, requests: self, transports: self, records: self, offsets: self,
            wokenBy: [.kafka, .transports], now: now)
    }

    // MARK: The turn

    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime) {
        for event in events {
            switch event {
            case .completions(let batch): machine.handle(batch, now: now)
            case .capacity(let app, let requests): machine.setCapacity(app, requests: requests, now: now)
            case .reachable(let app, let isReachable): machine.setReachable(app, isReachable, now: now)
            case .credentialRefused(let app, let reason): machine.credentialRefused(app, reason, now: now)
            case .closed: isClosed = true
            case .connections, .unanswered, .note: break
            }
        }
        events = []
    }

    func send(from machine: inout DeliveryMachine, now: DeliveryTime) {
        machine.sends(now: now) { transport.handle(.send($1)) }
    }

    func recall(from machine: inout DeliveryMachine) { machine.recalls { transport.handle(.recall($1)) } }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        let entries = machine.takeCommit(of: .requests, now: now)
        if let entry = entries.first { committed = entry.offset }
        if !entries.isEmpty {
            machine.commitFinished(of: .requests, entries.map { _ in .acknowledged }, now: now)
        }
    }

    func read(into machine: inout DeliveryMachine, now: DeliveryTime) -> Bool {
        let topic = (name: Lent("apns-topic"), value: Lent("com.example.shop"))
        let name = Lent("push-device-token")
        let payload = Lent(#"{"aps":{"alert":"Hi"}}"#)
        var room = machine.room(for: partition)
        while room > 0, read < unread.count {
            room -= 1
            let headers = [
                RecordHeader(name: topic.name.bytes, value: topic.value.bytes),
                RecordHeader(name: name.bytes, value: unread[read].bytes),
            ]
            let receipt = headers.withUnsafeBufferPointer {
                machine.receive(
                    partition, offset: Int64(read), timestampMs: now.wallMs,
                    key: UnsafeRawBufferPointer(start: nil, count: 0), value: payload.bytes, headers: $0, now: now)
            }
            guard case .taken = receipt else {
                Issue.record("\(receipt)")
                return false
            }
            read += 1
        }
        return read < unread.count
    }

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime { now }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? { nil }

    var isBackedUp: Bool { false }

    var nextDeadlineNs: Int64? { nil }

    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) {}

    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        var ids: [NotificationID] = []
        for target in targets { produce(to: target, into: &ids, &machine, now) }
        for id in ids { machine.acknowledged(id, now: now) }
    }

    private var targets: [ProductionTarget] { [.unregistered, .results] + (0..<3).map { .retry(tier: $0) } }

    private func produce(
        to target: ProductionTarget, into ids: inout [NotificationID], _ machine: inout DeliveryMachine,
        _ now: DeliveryTime
    ) {
        while let production = machine.nextProduction(for: target) {
            switch production.kind {
            case .unregistered: break
            case .result:
                machine.withResult(production.id, now: now) { content, ending in
                    note(
                        content,
                        End(
                            outcome: ending.outcome, inDoubt: Int(ending.inDoubt), attempts: Int(ending.attempts)))
                }
            case .retry(let tier):
                machine.withRetry(production.id) { content, order in
                    note(content, End(tier: tier, inDoubt: Int(order.inDoubt), attempts: Int(order.sends)))
                }
            }
            ids.append(production.id)
            machine.produced(production)
        }
    }

    private func note(_ content: borrowing NotificationContent, _ end: End) {
        let token = String(decoding: content.token, as: UTF8.self)
        #expect(endings[token] == nil, "\(token) ended twice")
        endings[token] = end
    }
}
