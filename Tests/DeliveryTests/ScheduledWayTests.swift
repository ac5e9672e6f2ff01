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
        let tiers = RetryTiers([30_000, 900_000, 7_200_000].map { .init(delayMs: $0) })
        for (number, inMs) in dueMs.enumerated() {
            let late = world.late("d\(number)") ?? -1
            #expect(late >= 0 && late <= 30_000, "due in \(inMs) ms, late by \(late) ms")
            let written = world.written["d\(number)"] ?? 0
            // Behind others it may take fewer.
            let most = Self.stays(inMs, tiers) + 1
            #expect(written >= 1 && written <= most, "due in \(inMs) ms, written \(written) times, \(most) at most")
        }
        // What people write: a tier's delay takes one record, however long it takes to be read.
        #expect([14, 29, 89].map { world.written["d\($0)"] } == [1, 2, 6])
        expect(world.rig.isEmpty, is: true)
    }

    @Test(arguments: [[1_000], [30_000, 900_000, 7_200_000], [1_000, 2_000, 60_000], [5_000, 30_000, 120_000]])
    func `Behind others that wait for a whole delay it is late by the shortest delay at most, and nobody else is late`(
        delays: [Int64]
    ) {
        let world = TieredWorld(delays)
        // Every tier has something of each moment, which waits for all of its delay.
        world.traffic = delays
        // Within the longest of which it is to be seen that it is passed.
        let longest: Int64 = delays[0] > 10_000 ? 30 : 5
        for number in 0..<60 { world.request("d\(number)", inMs: Int64(number) * longest * 1_117) }
        world.run(untilMs: 67_000 * longest + 2 * delays[0])
        for number in 0..<60 {
            let late = world.late("d\(number)") ?? -1
            #expect(late >= 0 && late <= delays[0] + world.trafficStepMs, "\(number) is late by \(late) ms")
        }
        #expect(world.worstTrafficMs <= world.trafficStepMs)
        #expect(world.trafficCount > 300)
    }

    @Test
    func
        `A tier that a reload takes away is read until it is empty: what comes from it goes on in those that there are`()
    {
        let world = TieredWorld([1_000, 60_000])
        world.request("a", inMs: 600_000)
        world.run(untilMs: 1_000)
        let next = TieredWorld([1_000], left: [60_000: world.logs[1]], from: world)
        next.run()
        let late = next.late("a") ?? -1
        #expect(late >= 0 && late <= 1_000, "late by \(late) ms")
        #expect(next.written["a"] ?? 0 > 500)
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

    /// In how many tiers one waits that is due in so long, each of which takes a tenth of a second more.
    private static func stays(_ inMs: Int64, _ tiers: RetryTiers) -> Int {
        var (count, leftMs) = (0, inMs)
        while leftMs > 0 {
            count += 1
            leftMs -= min(tiers.delayMs(of: tiers.tier(dueInMs: leftMs)), leftMs) + 100
        }
        return count
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
    /// By tier, those of the configuration first.
    private(set) var logs: [[Entry]]
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
    /// Delays of tiers in which an ordinary retry is written in each step.
    var traffic: [Int64] = []
    /// What passes from one to the next.
    var trafficStepMs: Int64 { (traffic.first ?? 0) / 10 + Self.stepMs }
    private(set) var trafficCount = 0
    private(set) var worstTrafficMs: Int64 = 0
    private(set) var mostOpen = 0
    private(set) var mostBytes = 0

    init(
        _ delays: [Int64] = [30_000, 900_000, 7_200_000], left: [Int64: [Entry]] = [:],
        from other: TieredWorld? = nil, _ change: (inout MachineSettings) -> Void = { _ in }
    ) {
        rig = Rig {
            $0.tiers = delays.map { .init(delayMs: $0) }
            $0.maxAttempts = 100
            change(&$0)
        }
        if let other {
            rig.now = other.rig.now
            dueMs = other.dueMs
        }
        startMs = rig.now.wallMs
        requests = rig.assignReady()
        let all = delays + left.keys.sorted()
        tiers = all.map { [rig] in rig.assignReady(0, topic: "retry.\($0)", role: .retry(delayMs: $0)) }
        logs = delays.map { _ in [] } + left.keys.sorted().map { left[$0] ?? [] }
        next = all.map { _ in 0 }
        waitsUntilMs = all.map { _ in 0 }
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

    /// Until nothing is left, or so long.
    func run(untilMs lengthMs: Int64 = .max) {
        let endMs = lengthMs == .max ? Int64.max : rig.now.wallMs + lengthMs
        while rig.now.wallMs < endMs {
            var isBusy = step()
            while step() { isBusy = true }
            guard let nextMs = waiting.min() ?? (isBusy ? rig.now.wallMs : nil) else { return }
            if traffic.isEmpty {
                rig.wait(ms: max(Self.stepMs, nextMs - rig.now.wallMs))
            } else {
                writeTraffic()
                rig.wait(ms: trafficStepMs)
            }
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
        while next[tier] < logs[tier].count, room(tier) > 0 {
            let entry = logs[tier][next[tier]]
            let receipt = rig.receive(
                tiers[tier], Int64(next[tier]), key: entry.key, value: entry.value, headers: entry.headers,
                timestampMs: entry.timestampMs)
            if case .notDue(let untilMs) = receipt {
                waitsUntilMs[tier] = untilMs
                return
            }
            if Rig.name(of: entry.key) == "traffic" {
                trafficCount += 1
                worstTrafficMs = max(worstTrafficMs, rig.now.wallMs - entry.timestampMs - traffic[tier])
            }
            next[tier] += 1
        }
    }

    private func room(_ tier: Int) -> Int { rig.machine.room(for: tiers[tier]) }

    private func publish() {
        while let id = rig.machine.nextProduction(for: .results) {
            rig.machine.produced(id, to: .results)
            rig.machine.acknowledged(id, now: rig.now)
        }
        for tier in rig.machine.settlement.settings.tiers.indices {
            while let id = rig.machine.nextProduction(for: .retry(tier: tier)) {
                let entry = rig.machine.withRetry(id) { [rig] content, order in
                    let record = writer.write(content, order)
                    return Entry(
                        timestampMs: rig.now.wallMs, key: Rig.text(record.key), value: Rig.text(record.value),
                        headers: record.headers.map { (Rig.text($0.name), Rig.text($0.value)) })
                }
                written[Rig.name(of: entry.key), default: 0] += 1
                logs[tier].append(entry)
                rig.machine.produced(id, to: .retry(tier: tier))
                rig.machine.acknowledged(id, now: rig.now)
            }
        }
    }

    /// What was to be tried again after a tier's delay.
    private func writeTraffic() {
        for (tier, delayMs) in traffic.enumerated() {
            var headers = rig.retryHeaders(dueMs: rig.now.wallMs + delayMs, firstMs: rig.now.wallMs)
            headers["push-device-token"] = Rig.token("traffic")
            logs[tier].append(
                Entry(
                    timestampMs: rig.now.wallMs, key: Rig.token("traffic"), value: #"{"aps":{}}"#,
                    headers: headers.map { ($0, $1) }))
        }
    }
}
