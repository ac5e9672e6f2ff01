import PushRecords
import Testing

@testable import Delivery

/// A machine whose clock is wrong, and brokers and producers whose clocks are right.
struct BrokersClockTests {
    static let hourMs: Int64 = 3_600_000
    static let held = "tier 0 attempt 0 held sends 0 doubt 0"

    /// Returns a rig whose clock is ahead by this time and was never compared, and its only partition.
    static func ahead(ms: Int64, _ change: (inout MachineSettings) -> Void = { _ in }) -> (Rig, PartitionID) {
        let (rig, partition) = Rig.ready(change)
        rig.machine.journal.brokersClock = BrokersClock()
        rig.now.wallMs += ms
        return (rig.wait(ms: 0), partition)
    }

    @Test func `A request that only this machine's clock would expire is deferred, and sent after a comparison`() {
        let (rig, partition) = Self.ahead(ms: 48 * Self.hourMs)
        let producedMs = rig.now.wallMs - 48 * Self.hourMs
        rig.receive(partition, 0, "a", timestampMs: producedMs)
        #expect(rig.settled() == ["a \(Self.held)"])
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.clock.rawValue)], is: 1)
        #expect(rig.machine.clockAheadMs == nil)
        rig.machine.compareClock(storedMs: producedMs, latencyMs: 0, now: rig.now)
        #expect(rig.machine.clockAheadMs == 48 * Self.hourMs)
        let headers = rig.retryHeaders(attempt: 0, firstMs: producedMs, sends: 0, inDoubt: 0)
        rig.receive(rig.assignTier(), 0, "a", headers: headers)
        #expect(rig.send() == ["a"])
    }

    @Test func `A request expires at its maximum age by the brokers' clocks`() {
        let (rig, partition) = Self.ahead(ms: 48 * Self.hourMs) { $0.maxAgeMs = Self.hourMs }
        let producedMs = rig.now.wallMs - 48 * Self.hourMs
        rig.machine.compareClock(storedMs: producedMs, latencyMs: 0, now: rig.now)
        rig.wait(ms: Self.hourMs + 1).receive(partition, 0, "a", timestampMs: producedMs)
        #expect(rig.settle().map(\.outcome) == [.expired])
    }

    @Test(arguments: [1, 48])
    func `apns-expiration is compared with the brokers' clocks, and expiration 0 does not wait`(hours: Int64) {
        let (rig, partition) = Self.ahead(ms: hours * Self.hourMs)
        let producedMs = rig.now.wallMs - hours * Self.hourMs
        var offset: Int64 = 0
        func receive(_ expirations: [Int64]) -> [String] {
            for expiration in expirations {
                rig.receive(
                    partition, offset, "d\(offset)", headers: ["apns-expiration": "\(expiration)"],
                    timestampMs: producedMs)
                offset += 1
            }
            return rig.send()
        }
        let expirations = [0, producedMs / 1_000 + 60, producedMs / 1_000 - 1]
        #expect(receive(expirations).isEmpty)
        #expect(Set(rig.settled()) == ["d0 expired  sends 0 doubt 0", "d1 \(Self.held)", "d2 \(Self.held)"])
        rig.machine.compareClock(storedMs: producedMs, latencyMs: 0, now: rig.now)
        #expect(receive(expirations) == ["d3", "d4"])
        #expect(rig.settle().map { "\($0) \($0.detail)" } == ["d5 expired  sends 0 doubt 0 apns-expiration has passed"])
    }

    @Test func `A difference counts from ten minutes on, beyond the time that the record was on its way`() {
        let (rig, _) = Self.ahead(ms: 0)
        let minuteMs: Int64 = 60_000
        for (ageMs, latencyMs, difference) in [
            (0, 0, nil), (10 * minuteMs, 0, nil), (11 * minuteMs, 0, 11 * minuteMs),
            (60 * minuteMs, 55 * minuteMs, nil), (60 * minuteMs, 20 * minuteMs, 40 * minuteMs),
            (-10 * minuteMs, 0, nil), (-11 * minuteMs, 5 * minuteMs, -11 * minuteMs),
        ] as [(Int64, Int64, Int64?)] {
            rig.machine.journal.brokersClock = BrokersClock()
            rig.machine.compareClock(storedMs: rig.now.wallMs - ageMs, latencyMs: latencyMs, now: rig.now)
            #expect(rig.machine.clockAheadMs == difference, "\(ageMs), \(latencyMs)")
        }
        // The clock is set, so the earlier comparison no longer counts.
        rig.now.wallMs += 6_000
        #expect(rig.wait(ms: 0).machine.journal.brokersClock.aheadMs(rig.now) == nil)
    }

    @Test func `A comparison that shows less does not replace one that shows more`() {
        let (rig, _) = Self.ahead(ms: 0)
        let storedMs = rig.now.wallMs - Self.hourMs
        rig.machine.compareClock(storedMs: storedMs, latencyMs: 0, now: rig.now)
        rig.machine.compareClock(storedMs: nil, latencyMs: 0, now: rig.now)
        rig.machine.compareClock(storedMs: storedMs, latencyMs: Self.hourMs, now: rig.now)
        #expect(rig.machine.clockAheadMs == Self.hourMs)
        rig.machine.compareClock(storedMs: rig.now.wallMs - 2 * Self.hourMs, latencyMs: 0, now: rig.now)
        #expect(rig.machine.clockAheadMs == 2 * Self.hourMs)
    }

    @Test func `A difference that is not reported counts too, for expiration 0`() {
        let (rig, partition) = Self.ahead(ms: 60_000)
        let producedMs = rig.now.wallMs - 60_000
        rig.machine.compareClock(storedMs: producedMs, latencyMs: 0, now: rig.now)
        #expect(rig.machine.clockAheadMs == nil)
        rig.receive(partition, 0, "a", headers: ["apns-expiration": "0"], timestampMs: producedMs)
        #expect(rig.send() == ["a"])
    }

    @Test func `A deferral ends when the expiration has passed`() {
        let (rig, _) = Rig.ready { _ in }
        let firstMs = rig.now.wallMs
        var headers = rig.retryHeaders(attempt: 0, firstMs: firstMs, sends: 0, inDoubt: 0)
        headers["apns-expiration"] = "\(firstMs / 1_000 + 60)"
        rig.wait(ms: 61_000)
        rig.machine.setReachable(AppIndex(0), false, now: rig.now)
        rig.receive(rig.assignTier(), 0, "a", headers: headers)
        #expect(rig.settled() == ["a expired  sends 0 doubt 0"])
    }

    @Test func `Without the brokers' times, this machine's clock counts after the first retry record`() {
        let (rig, partition) = Self.ahead(ms: 0)
        let oldMs = rig.now.wallMs - 48 * Self.hourMs
        rig.receive(partition, 0, "a", timestampMs: oldMs)
        #expect(rig.settled() == ["a \(Self.held)"])
        rig.machine.compareClock(storedMs: nil, latencyMs: 5, now: rig.now)
        rig.receive(partition, 1, "b", timestampMs: oldMs)
        #expect(rig.settle().map(\.outcome) == [.expired])
    }

    @Test func `If the clock is behind, max_ahead counts from a request's timestamp, and the difference is reported`() {
        let (rig, partition) = Self.ahead(ms: -240 * Self.hourMs)
        let producedMs = rig.now.wallMs + 240 * Self.hourMs
        rig.receive(
            partition, 0, "a", headers: ["push-not-before": "\(producedMs / 1_000 + 3_600)"], timestampMs: producedMs)
        #expect(rig.settle().map(\.reason) == ["scheduled"])
        rig.machine.compareClock(storedMs: producedMs, latencyMs: 0, now: rig.now)
        #expect(rig.machine.clockAheadMs == -240 * Self.hourMs)
    }
}
