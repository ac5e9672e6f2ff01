import PushRecords
import Testing

@testable import Delivery

/// Notifications on their way through several tiers, with a clock that jumps to the next event. Hours of simulated time
/// therefore take no real time.
struct ScheduledWayTests {
    @Test func `Notifications due in 1 to 90 minutes are never early, and late by at most the shortest delay`() {
        let world = TieredWorld()
        let dueMs =
            (1...90).map { Int64($0) * 60_000 } + [1_000, 29_000, 30_000, 31_000, 61_000, 7_201_000, 36_000_000]
        for (number, inMs) in dueMs.enumerated() { world.request("d\(number)", inMs: inMs) }
        world.run()
        for (number, inMs) in dueMs.enumerated() {
            let late = world.late("d\(number)") ?? -1
            #expect(late >= 0 && late <= 30_000, "due in \(inMs) ms, late by \(late) ms")
        }
        // A notification scheduled by exactly a tier's delay needs one retry record, even if it is read a little later.
        #expect([14, 29, 89].map { world.written["d\($0)"] } == [1, 2, 6])
        expect(world.rig.isEmpty, is: true)
    }
}

/// A machine whose retry records return from simulated tiers. Each tier is read in order, up to its first record that
/// is not due.
final class TieredWorld {
    let rig: Rig
    private let startMs: Int64
    private let requests: PartitionID
    private let tiers: [PartitionID]
    /// The retry records of each tier and the time when each was written.
    private var logs: [[(record: Rig.Written, writtenMs: Int64)]]
    private var next: [Int]
    private var waitsUntilMs: [Int64]
    private var requestCount: Int64 = 0
    private var dueMs: [String: Int64] = [:]
    private var sentMs: [String: Int64] = [:]
    /// The time after which APNs answers.
    var answerMs: Int64 = 0
    private var flights: [(dueMs: Int64, device: String)] = []
    /// The number of retry records by device.
    private(set) var written: [String: Int] = [:]

    init(_ delays: [Int64] = [30_000, 900_000, 7_200_000], _ change: (inout MachineSettings) -> Void = { _ in }) {
        rig = Rig {
            $0.tierDelaysMs = delays
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

    /// Requests a notification to a device, scheduled after this time.
    func request(_ device: String, inMs: Int64) {
        let seconds = (rig.now.wallMs + inMs) / 1_000
        dueMs[device] = seconds * 1_000
        rig.receive(requests, requestCount, device, headers: ["push-not-before": "\(seconds)"])
        requestCount += 1
    }

    /// Requests a notification to each of these devices now, in one record.
    func request(_ devices: [String]) {
        rig.receive(requests, requestCount, envelope: devices)
        requestCount += 1
    }

    /// Returns how long after its time the notification was sent, or `nil` if it was not sent.
    func late(_ device: String) -> Int64? {
        guard let sent = sentMs[device], let due = dueMs[device] else { return nil }
        return sent - due
    }

    /// Runs until the machine and all tiers are empty.
    func run() {
        while true {
            var isBusy = step()
            while step() { isBusy = true }
            let heads = logs.indices.filter { next[$0] < logs[$0].count }.map { waitsUntilMs[$0] }
            let events = heads + flights.prefix(1).map(\.dueMs)
            guard let nextMs = events.min() ?? (isBusy ? rig.now.wallMs : nil) else { return }
            rig.wait(ms: max(7, nextMs - rig.now.wallMs))
        }
    }

    /// Runs one turn. Returns whether there was something to do.
    private func step() -> Bool {
        var isBusy = false
        for tier in logs.indices where read(tier) { isBusy = true }
        while let first = flights.first, first.dueMs <= rig.now.wallMs {
            rig.answer(first.device)
            flights.removeFirst()
        }
        for device in rig.send() {
            isBusy = true
            sentMs[device] = rig.now.wallMs
            if answerMs == 0 { rig.answer(device) } else { flights.append((rig.now.wallMs + answerMs, device)) }
        }
        for record in rig.settle() {
            guard let tier = record.tier else { continue }
            isBusy = true
            logs[tier].append((record, rig.now.wallMs))
            written[record.token, default: 0] += 1
        }
        rig.commit()
        return isBusy
    }

    /// Reads the records that are due, as far as the machine accepts them. Returns whether there were any.
    private func read(_ tier: Int) -> Bool {
        let first = next[tier]
        while waitsUntilMs[tier] <= rig.now.wallMs, next[tier] < logs[tier].count,
            rig.machine.room(for: tiers[tier]) > 0
        {
            let (record, writtenMs) = logs[tier][next[tier]]
            var headers = rig.retryHeaders(
                attempt: record.attempt, dueMs: record.dueMs, firstMs: startMs, sends: record.attempts, inDoubt: 0)
            headers["push-device-token"] = Rig.token(record.token)
            if record.notBefore > 0 { headers["push-not-before"] = "\(record.notBefore)" }
            let receipt = rig.receive(
                tiers[tier], Int64(next[tier]), record.token, headers: headers, timestampMs: writtenMs)
            if case .notDue(let untilMs) = receipt {
                waitsUntilMs[tier] = untilMs
            } else {
                next[tier] += 1
            }
        }
        return next[tier] > first
    }
}
