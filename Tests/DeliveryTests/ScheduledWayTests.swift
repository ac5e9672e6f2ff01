import PushRecords
import Testing

@testable import Delivery

/// Notifications on their whole way through tiers, by a clock that jumps to whatever comes next: hours of it take no
/// time.
struct ScheduledWayTests {
    @Test func `Due in 1 to 90 minutes: none is early, and none late by more than the shortest delay`() {
        let world = TieredWorld()
        let dueMs =
            (1...90).map { Int64($0) * 60_000 } + [1_000, 29_000, 30_000, 31_000, 61_000, 7_201_000, 36_000_000]
        for (number, inMs) in dueMs.enumerated() { world.request("d\(number)", inMs: inMs) }
        world.run()
        for (number, inMs) in dueMs.enumerated() {
            let late = world.late("d\(number)") ?? -1
            #expect(late >= 0 && late <= 30_000, "due in \(inMs) ms, late by \(late) ms")
        }
        // What people write: a tier's delay takes one record, however long it takes to be read.
        #expect([14, 29, 89].map { world.written["d\($0)"] } == [1, 2, 6])
        expect(world.rig.isEmpty, is: true)
    }

    @Test func `An envelope of 10,000 becomes as many retry records, within the limits, and all are sent in time`() {
        let inMs: Int64 = 45_000
        let world = TieredWorld {
            $0.maxOpen = 1_000
            $0.maxOpenBytes = 1 << 20
        }
        world.request((0..<10_000).map { "d\($0)" }, inMs: inMs)
        world.run()
        #expect(world.sentMs.count == 10_000)
        #expect(world.sentMs.values.allSatisfy { $0 >= world.startMs + inMs })
        #expect(world.written.values.reduce(0, +) == 20_000)
        #expect(world.mostOpen <= 1_000)
        // The envelope itself is taken whatever is open.
        #expect(world.mostBytes <= 1 << 20 + 1 << 20)
        expect(world.rig.isEmpty, is: true)
    }
}

/// A machine whose retry records come back from tiers that are logs, each read in order, up to its head that is not
/// due.
final class TieredWorld {
    /// What passes from one step to the next, at least.
    static let stepMs: Int64 = 7

    struct Entry {
        var timestampMs: Int64
        var key: String
        var value: String
        var headers: [(String, String)]
    }

    let rig: Rig
    let startMs: Int64
    /// By tier.
    private var logs: [[Entry]]
    private let tiers: [PartitionID]
    private var next: [Int]
    private var waitsUntilMs: [Int64]
    private var requests: PartitionID
    private var requestCount: Int64 = 0
    private var writer = RetryWriter(apps: [RecordApp(name: "shop", environment: .production)])
    private var dueMs: [String: Int64] = [:]
    private(set) var sentMs: [String: Int64] = [:]
    private var sentCount = 0
    /// What APNs takes to answer.
    var answerMs: Int64 = 0
    private var flights: [(dueMs: Int64, device: String)] = []
    /// Retry records, by device.
    private(set) var written: [String: Int] = [:]
    private(set) var mostOpen = 0
    private(set) var mostBytes = 0

    init(
        _ delays: [Int64] = [30_000, 900_000, 7_200_000], _ change: (inout MachineSettings) -> Void = { _ in }
    ) {
        rig = Rig {
            $0.tiers = delays.map { .init(delayMs: $0) }
            $0.maxAttempts = 100
            change(&$0)
        }
        startMs = rig.now.wallMs
        requests = rig.assignReady()
        tiers = delays.map { [rig] in rig.assignTier($0) }
        logs = delays.map { _ in [] }
        next = delays.map { _ in 0 }
        waitsUntilMs = delays.map { _ in 0 }
    }

    /// Asks for a notification to a device, to be sent in so long.
    func request(_ device: String, inMs: Int64) {
        let seconds = (rig.now.wallMs + inMs) / 1_000
        dueMs[device] = seconds * 1_000
        rig.receive(requests, requestCount, device, headers: ["push-not-before": "\(seconds)"])
        requestCount += 1
    }

    /// Asks for one to each of these devices, in one record.
    func request(_ devices: [String], inMs: Int64) {
        for device in devices { dueMs[device] = rig.now.wallMs + inMs }
        rig.receive(
            requests, requestCount, envelope: devices, more: #","not_before":\#((rig.now.wallMs + inMs) / 1_000)"#)
        requestCount += 1
    }

    /// How long after its time it was sent; `nil`: it was not.
    func late(_ device: String) -> Int64? {
        guard let sent = sentMs[device], let due = dueMs[device] else { return nil }
        return sent - due
    }

    /// Until nothing is left.
    func run() {
        while true {
            var isBusy = step()
            while step() { isBusy = true }
            guard let nextMs = waiting.min() ?? (isBusy ? rig.now.wallMs : nil) else { return }
            rig.wait(ms: max(Self.stepMs, nextMs - rig.now.wallMs))
        }
    }

    /// When the heads of logs are due, and the next answer.
    private var waiting: [Int64] {
        logs.indices.filter { next[$0] < logs[$0].count }.map { waitsUntilMs[$0] } + flights.prefix(1).map(\.dueMs)
    }

    /// One turn; whether there was something to do.
    private func step() -> Bool {
        let before = (sentCount, logs.reduce(0) { $0 + $1.count }, next)
        for tier in logs.indices { read(tier) }
        while let first = flights.first, first.dueMs <= rig.now.wallMs {
            rig.answer(first.device)
            flights.removeFirst()
        }
        for device in rig.send() {
            sentCount += 1
            if let due = dueMs[device] {
                #expect(rig.now.wallMs >= due, "\(device) is early by \(due - rig.now.wallMs) ms")
                sentMs[device] = rig.now.wallMs
            }
            if answerMs == 0 { rig.answer(device) } else { flights.append((rig.now.wallMs + answerMs, device)) }
        }
        let gauges = rig.machine.gauges
        mostOpen = max(mostOpen, gauges.openNotifications)
        mostBytes = max(mostBytes, gauges.openBytes)
        publish()
        rig.commit()
        return before != (sentCount, logs.reduce(0) { $0 + $1.count }, next)
    }

    private func read(_ tier: Int) {
        guard waitsUntilMs[tier] <= rig.now.wallMs else { return }
        while next[tier] < logs[tier].count, rig.machine.room(for: tiers[tier]) > 0 {
            let entry = logs[tier][next[tier]]
            let receipt = rig.receive(
                tiers[tier], Int64(next[tier]), key: entry.key, value: entry.value, headers: entry.headers,
                timestampMs: entry.timestampMs)
            if case .notDue(let untilMs) = receipt {
                waitsUntilMs[tier] = untilMs
                return
            }
            next[tier] += 1
        }
    }

    private func publish() {
        while let production = rig.machine.nextProduction(for: .results) {
            rig.machine.produced(production)
            rig.machine.acknowledged(production.id, now: rig.now)
        }
        for tier in rig.machine.settlement.settings.tiers.indices {
            while let production = rig.machine.nextProduction(for: .retry(tier: tier)) {
                let entry = rig.machine.withRetry(production.id) { [rig] content, order in
                    let record = writer.write(content, order)
                    return Entry(
                        timestampMs: rig.now.wallMs, key: Rig.text(record.key), value: Rig.text(record.value),
                        headers: record.headers.map { (Rig.text($0.name), Rig.text($0.value)) })
                }
                written[Rig.name(of: entry.key), default: 0] += 1
                logs[tier].append(entry)
                rig.machine.produced(production)
                rig.machine.acknowledged(production.id, now: rig.now)
            }
        }
    }
}
