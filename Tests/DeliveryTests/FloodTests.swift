import PushRecords
import Testing

@testable import Delivery

/// What is held comes back, and what cannot be taken then is written once more.
struct FloodTests {
    struct Case: CustomTestStringConvertible {
        var tiersMs: [Int64]
        var count = 10_000
        var testDescription: String { "\(count), tiers \(tiersMs)" }
    }

    @Test(
        arguments: [
            Case(tiersMs: [30_000, 900_000, 7_200_000]), Case(tiersMs: [1_000, 10_000, 60_000]),
            Case(tiersMs: [30_000], count: 2_000),
        ])
    func `Thousands for one device pass ten tiers each at most`(_ test: Case) {
        let flood = Flood(tiersMs: test.tiersMs)
        flood.rig.receive(flood.requests, 0, envelope: Array(repeating: "a", count: test.count))
        flood.run()
        #expect(flood.accepted == test.count)
        #expect(flood.written <= 10 * test.count, "\(Double(flood.written) / Double(test.count)) for each")
    }

    @Test func `A device queue that was empty turns away anew, the one that goes on counts on`() {
        let (rig, partition) = Rig.ready {
            $0.deviceQueueLimit = 2
            $0.tiers = [1_000, 6_000, 9_000].map { .init(delayMs: $0) }
        }
        var offset: Int64 = 0
        func tiers(_ count: Int) -> [Int] {
            for _ in 0..<count {
                rig.receive(partition, offset, "a")
                offset += 1
            }
            return rig.settle().compactMap { if case .retry(let tier) = $0.kind { tier } else { nil } }
        }
        #expect(tiers(2 + 3) == [0, 0, 1])
        rig.send()
        rig.finish("a")
        rig.send()
        #expect(tiers(1 + 3) == [1, 2, 2])
        for _ in 0..<2 {
            rig.finish("a")
            rig.send()
        }
        #expect(tiers(2 + 2) == [0, 0])
    }

    @Test func `What exceeds an app's share by far goes to longer tiers, and anew when a round is over`() {
        let (rig, partition) = Rig.ready(apps: [Rig.app, Rig.news], capacity: 0) {
            $0.maxOpen = 8
            $0.tiers = [1_000, 6_000, 9_000].map { .init(delayMs: $0) }
        }
        let shop = #", "headers": {"apns-topic": "com.example.shop"}"#
        func tiers(_ count: Int, afterMs: Int64) -> [Int: Int] {
            rig.receive(partition, offset, envelope: (0..<count).map { "a\($0)" }, more: shop)
            offset += 1
            rig.wait(ms: afterMs)
            var counts: [Int: Int] = [:]
            for _ in 0..<count {
                rig.send()
                for written in rig.settle() {
                    if case .retry(let tier) = written.kind { counts[tier, default: 0] += 1 }
                }
            }
            return counts
        }
        var offset: Int64 = 0
        #expect(tiers(4 + 20, afterMs: 5_000) == [0: 4, 1: 4, 2: 12])
        rig.wait(ms: 1_000)
        #expect(tiers(6, afterMs: 0) == [0: 4, 1: 2])
    }
}

/// A worker, its tiers and APNs in virtual time.
private final class Flood {
    let rig: Rig
    let requests: PartitionID
    private(set) var accepted = 0
    private(set) var written = 0
    private let partitions: [PartitionID]
    private var offsets: [Int64]
    /// By tier, oldest first: when it is due.
    private var waiting: [[Int64]]
    private var next: [Int]

    init(tiersMs: [Int64]) {
        rig = Rig(capacity: 10_000) {
            $0.tiers = tiersMs.map { .init(delayMs: $0) }
            $0.maxAgeMs = 0
        }
        requests = rig.assign(0)
        partitions = tiersMs.map { [rig] in rig.assign(0, topic: "retry.\($0)", role: .retry(delayMs: $0)) }
        offsets = tiersMs.map { _ in 0 }
        waiting = tiersMs.map { _ in [] }
        next = tiersMs.map { _ in 0 }
        rig.commit()
    }

    /// Until nothing is left.
    func run() {
        var turn = 0
        while true {
            read()
            rig.send()
            turn += 1
            if turn % 10 == 0 || rig.sent.isEmpty { rig.commit() }
            collect()
            if rig.sent.isEmpty { rig.send() }
            guard rig.machine.gauges.openNotifications == 0 else {
                rig.wait(ms: 20)
                for device in rig.sent.map(Rig.device) { rig.answer(device) }
                continue
            }
            let due = waiting.indices.compactMap { next[$0] < waiting[$0].count ? waiting[$0][next[$0]] : nil }
            guard let earliest = due.min() else { return }
            rig.wait(ms: max(0, earliest - rig.now.wallMs))
        }
    }

    private func read() {
        for tier in waiting.indices {
            while next[tier] < waiting[tier].count, waiting[tier][next[tier]] <= rig.now.wallMs,
                rig.machine.room(for: partitions[tier]) > 0
            {
                let dueMs = waiting[tier][next[tier]]
                rig.receive(
                    partitions[tier], offsets[tier], "a",
                    headers: rig.retryHeaders(attempt: 0, dueMs: dueMs, firstMs: rig.now.wallMs),
                    timestampMs: dueMs - rig.machine.settings.tiers[tier].delayMs)
                offsets[tier] += 1
                next[tier] += 1
            }
        }
    }

    private func collect() {
        for written in rig.settle() {
            switch written.kind {
            case .retry(let tier):
                self.written += 1
                waiting[tier].append(written.dueMs)
            case .result:
                if written.outcome == .accepted { accepted += 1 }
            case .unregistered:
                break
            }
        }
    }
}
