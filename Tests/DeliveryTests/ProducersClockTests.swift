import PushRecords
import Testing

@testable import Delivery

/// A machine whose clock is wrong, and requests whose timestamps come from producers with correct clocks.
struct ProducersClockTests {
    static let hourMs: Int64 = 3_600_000
    static let held = "tier 0 attempt 0 held sends 0 doubt 0"

    /// Returns a rig whose clock is ahead by this time, and its only partition, which was read to the end.
    static func ahead(ms: Int64, _ change: (inout MachineSettings) -> Void = { _ in }) -> (Rig, PartitionID) {
        let (rig, partition) = Rig.ready(change)
        rig.now.wallMs += ms
        rig.wait(ms: 0).machine.reachedEnd(partition, offset: 0)
        return (rig, partition)
    }

    @Test func `A request that only this machine's clock would expire is deferred until the clock is set`() {
        let (rig, partition) = Self.ahead(ms: 48 * Self.hourMs)
        let producedMs = rig.now.wallMs - 48 * Self.hourMs
        rig.receive(partition, 0, "a", timestampMs: producedMs)
        #expect(rig.settled() == ["a \(Self.held)"])
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.clock.rawValue)], is: 1)
        let tier = rig.assignTier()
        let headers = rig.retryHeaders(attempt: 0, firstMs: producedMs, sends: 0, inDoubt: 0)
        rig.receive(tier, 0, "a", headers: headers)
        #expect(rig.settled() == ["a \(Self.held)"])
        let writtenMs = rig.now.wallMs
        rig.now.wallMs = producedMs + 1_000
        rig.receive(tier, 1, "a", headers: headers, timestampMs: writtenMs)
        #expect(rig.send() == ["a"])
    }

    @Test func `A deferred request expires at its maximum age by the producers' clock`() {
        let (rig, partition) = Self.ahead(ms: 48 * Self.hourMs) { $0.maxAgeMs = Self.hourMs }
        let producedMs = rig.now.wallMs - 48 * Self.hourMs
        rig.receive(partition, 0, "a", timestampMs: producedMs)
        #expect(rig.settled() == ["a \(Self.held)"])
        rig.wait(ms: Self.hourMs + 1)
        let tier = rig.assignTier()
        rig.receive(tier, 0, "a", headers: rig.retryHeaders(firstMs: producedMs))
        #expect(rig.settle().map(\.outcome) == [.expired])
    }

    @Test(arguments: [1, 48])
    func `apns-expiration is compared with the producers' clock, and expiration 0 leads to a send`(hours: Int64) {
        let (rig, partition) = Self.ahead(ms: hours * Self.hourMs)
        let producedMs = rig.now.wallMs - hours * Self.hourMs
        // A request with expiration 0 is sent if three requests show that the clock is wrong.
        let expirations = [0, producedMs / 1_000 + 60, producedMs / 1_000 - 1, 0]
        for (offset, expiration) in expirations.enumerated() {
            rig.receive(
                partition, Int64(offset), "d\(offset)", headers: ["apns-expiration": "\(expiration)"],
                timestampMs: producedMs)
            _ = rig.send()
            rig.machine.reachedEnd(partition, offset: Int64(offset) + 1)
        }
        #expect(
            Set(rig.settled()) == ["d0 expired  sends 0 doubt 0", "d1 \(Self.held)", "d2 expired  sends 0 doubt 0"])
        #expect(rig.sent.map(Rig.device) == ["d3"])
    }

    @Test func `A backlog, a timestamp in seconds and a request after a long silence say nothing about the clock`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "backlog", timestampMs: rig.now.wallMs - 48 * Self.hourMs)
        rig.machine.reachedEnd(partition, offset: 1, hasMore: true)
        rig.receive(partition, 1, "fetched", timestampMs: rig.now.wallMs - 48 * Self.hourMs)
        rig.machine.reachedEnd(partition, offset: 2)
        rig.receive(partition, 2, "seconds", timestampMs: 1_780_000_000)
        rig.machine.reachedEnd(partition, offset: 3)
        rig.wait(ms: 72 * Self.hourMs)
        rig.receive(partition, 3, "silence", timestampMs: rig.now.wallMs - 48 * Self.hourMs)
        #expect(rig.settle().map(\.outcome) == Array(repeating: .expired, count: 4))
    }

    @Test func `The smallest difference of the last 15 requests counts, and at least three report it`() {
        let (rig, partition) = Rig.ready()
        var offset: Int64 = 0
        func receive(_ count: Int, ageMs: Int64) -> [Int64?] {
            (0..<count).map { _ in
                rig.machine.reachedEnd(partition, offset: offset)
                rig.receive(partition, offset, "a", timestampMs: rig.now.wallMs - ageMs)
                offset += 1
                return rig.machine.clockAheadMs
            }
        }
        #expect(receive(4, ageMs: 48 * Self.hourMs) == [nil, nil, 48 * Self.hourMs, 48 * Self.hourMs])
        #expect(receive(2, ageMs: 47 * Self.hourMs) == [47 * Self.hourMs, 47 * Self.hourMs])
        // One producer whose clock agrees proves this machine's clock right.
        #expect(receive(1, ageMs: 600_000) == [nil])
        #expect(receive(14, ageMs: 48 * Self.hourMs) == Array(repeating: nil, count: 14))
        #expect(receive(1, ageMs: 48 * Self.hourMs) == [48 * Self.hourMs])
        // The clock is set, so earlier comparisons no longer count.
        rig.now.wallMs -= 48 * Self.hourMs
        #expect(receive(3, ageMs: 0) == [nil, nil, nil])
    }

    @Test func `If the clock is behind, max_ahead counts from a request's timestamp, and the difference is reported`() {
        let (rig, partition) = Self.ahead(ms: -240 * Self.hourMs)
        let producedMs = rig.now.wallMs + 240 * Self.hourMs
        for offset in Int64(0)...2 {
            rig.receive(
                partition, offset, "d\(offset)", headers: ["push-not-before": "\(producedMs / 1_000 + 3_600)"],
                timestampMs: producedMs)
            rig.machine.reachedEnd(partition, offset: offset + 1)
        }
        #expect(rig.settle().map(\.reason) == ["scheduled", "scheduled", "scheduled"])
        #expect(rig.machine.clockAheadMs == -240 * Self.hourMs)
    }
}
