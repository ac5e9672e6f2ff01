import PushRecords
import Testing

@testable import Delivery

struct ScheduledTests {
    static let hourMs: Int64 = 3_600_000

    /// Returns the headers of a request that becomes due after this time.
    static func headers(_ rig: Rig, inMs: Int64, _ more: [String: String] = [:]) -> [String: String] {
        more.merging(["push-not-before": "\((rig.now.wallMs + inMs) / 1_000)"]) { $1 }
    }

    /// Returns the headers of a retry record with such a time. The record itself is due now.
    static func retryHeaders(
        _ rig: Rig, inMs: Int64, firstMs: Int64? = nil, _ more: [String: String] = [:]
    ) -> [String: String] {
        let record = rig.retryHeaders(attempt: 0, firstMs: firstMs ?? rig.now.wallMs - 60_000, sends: 0, inDoubt: 0)
        return headers(rig, inMs: inMs, record.merging(more) { $1 })
    }

    @Test(
        arguments: [
            (1_000, 0, 1_000), (29_000, 0, 29_000), (30_000, 0, 30_000), (31_000, 0, 30_000), (840_000, 0, 30_000),
            (869_000, 0, 30_000), (870_000, 1, 870_000), (900_000, 1, 900_000), (1_800_000, 1, 900_000),
            (7_169_000, 1, 900_000), (7_170_000, 2, 7_170_000), (36_000_000, 2, 7_200_000),
        ] as [(Int64, Int, Int64)])
    func `A notification that is not due goes to the longest tier that ends at about its scheduled time`(
        inMs: Int64, tier: Int, dueMs: Int64
    ) {
        let (rig, partition) = Rig.ready()
        #expect(rig.offer(partition, 0, "a", headers: Self.headers(rig, inMs: inMs)) == [])
        let written = rig.settle()
        #expect(written.map(\.description) == ["a tier \(tier) attempt 0 scheduled sends 0 doubt 0"])
        #expect(written.map(\.dueMs) == [rig.now.wallMs + dueMs])
        #expect(written.map(\.notBefore) == [UInt32((rig.now.wallMs + inMs) / 1_000)])
        #expect(rig.commit(afterMs: 50).map(\.offset) == [1])
        // Scheduling is normal: it is counted but not reported.
        expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.scheduled.rawValue)], is: 1)
        #expect(rig.machine.takeEvents() == [])
        #expect(rig.isEmpty)
    }

    @Test func `With a scheduled time of 0 or in the past a notification is sent at once, in its device's order`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: ["push-not-before": "0"])
        rig.receive(partition, 1, "a", headers: ["push-not-before": "1"])
        rig.receive(partition, 2, "b", headers: Self.headers(rig, inMs: 0))
        rig.receive(partition, 3, "c", headers: ["push-not-before": "1"], timestampMs: -1)
        #expect(rig.send() == ["a", "b", "c"])
        for device in ["a", "b", "c"] { rig.answer(device) }
        #expect(rig.send() == ["a"])
        #expect(rig.finish("a").map(\.outcome) == [.accepted, .accepted, .accepted, .accepted])
        #expect(rig.isEmpty)
    }

    @Test func `A scheduled notification is never early wherever it is read, and its result names the request`() {
        let (rig, partition) = Rig.readyTier()
        rig.wait(ms: 4_001)
        let headers = Self.retryHeaders(rig, inMs: 1_999)
        #expect(rig.wait(ms: 1_998).offer(partition, 0, "a", headers: headers) == [])
        let written = rig.settle()
        #expect(written.map(\.dueMs) == [rig.now.wallMs + 1] && written.map(\.reason) == ["scheduled"])
        #expect(rig.wait(ms: 1).offer(partition, 1, "a", headers: headers) == ["a"])
        let result = rig.finish("a")
        #expect(result.map(\.description) == ["a accepted  sends 1 doubt 0"])
        #expect(result.map(\.request) == ["requests/4/1234/7"])
        #expect(rig.isEmpty)
    }

    @Test func `If the clock is set back, a scheduled notification waits again, as does a resend`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: 0))
        rig.receive(partition, 1, "a")
        rig.now.wallMs -= 1
        #expect(rig.send() == ["a"])
        #expect(rig.finished("a") == ["a accepted  sends 1 doubt 0", "a tier 0 attempt 0 scheduled sends 0 doubt 0"])
        rig.now.wallMs += 1
        #expect(rig.offer(partition, 2, "b", headers: Self.headers(rig, inMs: 0)) == ["b"])
        rig.now.wallMs -= 5_000
        #expect(rig.doubt("b").send() == [])
        let again = rig.settle()
        #expect(again.map(\.description) == ["b tier 0 attempt 0 scheduled sends 1 doubt 1"])
        #expect(again.map(\.dueMs) == [rig.now.wallMs + 5_000])
        #expect(rig.isDone(at: 3))
    }

    @Test func `Scheduled notifications lose their order, so a newer one of the device is sent first`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: 60_000))
        #expect(rig.offer(partition, 1, "a") == ["a"])
        #expect(Set(rig.finish("a").map(\.request)) == ["requests/0/0/0", "requests/0/1/0"])
        #expect(rig.isEmpty)
    }

    @Test func `max_age counts from the scheduled time if it is later than the timestamp`() {
        let rig = Rig { $0.maxAgeMs = Self.hourMs }
        let partition = rig.assignTier()
        let firstMs = rig.now.wallMs - 5 * Self.hourMs
        func outcomes(_ offset: Int64, inMs: Int64, firstMs: Int64) -> [Outcome?] {
            rig.receive(partition, offset, "a", headers: Self.retryHeaders(rig, inMs: inMs, firstMs: firstMs))
            return rig.answerAll().map(\.outcome)
        }
        #expect(outcomes(0, inMs: -Self.hourMs, firstMs: firstMs) == [.accepted])
        #expect(outcomes(1, inMs: -Self.hourMs - 1_000, firstMs: firstMs) == [.expired])
        #expect(outcomes(2, inMs: 2 * Self.hourMs, firstMs: firstMs) == [nil])
        #expect(outcomes(3, inMs: -9 * Self.hourMs, firstMs: rig.now.wallMs - Self.hourMs) == [.accepted])
        #expect(outcomes(4, inMs: -9 * Self.hourMs, firstMs: rig.now.wallMs - Self.hourMs - 1) == [.expired])
        #expect(outcomes(5, inMs: -9 * Self.hourMs, firstMs: 0) == [.accepted])
        // A request's time is handled in the same way.
        let requests = rig.assignReady()
        rig.receive(
            requests, 0, "b", headers: Self.headers(rig, inMs: -Self.hourMs),
            timestampMs: rig.now.wallMs - 2 * Self.hourMs)
        #expect(rig.send() == ["b"])
    }

    @Test func `With expiration 0 a scheduled notification waits in a tier, and is retried for 30 s from its time on`()
    {
        let (rig, requests) = Rig.ready(capacity: 1)
        let now = ["apns-expiration": "0"]
        rig.receive(requests, 0, "a", headers: Self.headers(rig, inMs: 90_000, now))
        #expect(rig.settled() == ["a tier 0 attempt 0 scheduled sends 0 doubt 0"])
        let tier = rig.assignTier()
        let firstMs = rig.now.wallMs - 600_000
        #expect(rig.offer(tier, 0, "a", headers: Self.retryHeaders(rig, inMs: -30_000, firstMs: firstMs, now)) == ["a"])
        #expect(rig.finish("a").map(\.outcome) == [.accepted])
        #expect(rig.offer(tier, 1, "a", headers: Self.retryHeaders(rig, inMs: -31_000, firstMs: firstMs, now)) == [])
        #expect(rig.settle().map(\.outcome) == [.expired])
        // Once its time has come, it goes to no tier.
        #expect(rig.offer(tier, 2, "a", headers: Self.retryHeaders(rig, inMs: 0, firstMs: firstMs, now)) == ["a"])
        #expect(rig.answer("a", 503, .shutdown).settle().map(\.outcome) == [.expired])
        #expect(rig.isEmpty)
    }

    @Test func `A request further ahead than max_ahead is invalid with advice, but a retry record is accepted`() {
        let (rig, partition) = Rig.ready { $0.maxAheadMs = Self.hourMs }
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: Self.hourMs))
        rig.receive(partition, 1, "b", headers: Self.headers(rig, inMs: Self.hourMs + 1_000))
        #expect(rig.offer(partition, 2, "c", headers: ["push-not-before": "4294967295"]) == [])
        let written = rig.settle()
        #expect(written.map(\.outcome) == [.invalid, .invalid, nil])
        #expect(
            written[0].detail == "push-not-before is further ahead than delivery.max_ahead: produce the request later")
        #expect(written.map(\.app) == [0, 0, 0])
        let tier = rig.assignTier()
        rig.receive(tier, 0, "a", headers: Self.retryHeaders(rig, inMs: 9 * Self.hourMs))
        #expect(rig.settle().map(\.reason) == ["scheduled"])
        #expect(rig.isEmpty)
    }

    /// A forged record would otherwise move from tier to tier forever. No configuration allows more than a year.
    @Test func `A retry record that is more than a year ahead is a dead letter`() {
        let rig = Rig()
        let tier = rig.assignTier()
        rig.receive(tier, 0, "a", headers: Self.retryHeaders(rig, inMs: 365 * 24 * Self.hourMs))
        #expect(rig.settle().map(\.reason) == ["scheduled"])
        let headers = Self.retryHeaders(rig, inMs: 0).merging(["push-not-before": "4294967295"]) { $1 }
        guard case .deadLetter(_, let reason, let detail) = rig.receive(tier, 1, "b", headers: headers) else {
            return #expect(Bool(false), "the record must be a dead letter")
        }
        #expect(reason == .badRetryHeaders && detail.text.description == "push-not-before is more than a year ahead")
    }

    /// A producer may pass seconds as milliseconds. The record's timestamp is then in 1970.
    @Test func `The detail of an expired notification mentions a timestamp in seconds`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", timestampMs: 1_780_000_000)
        rig.receive(partition, 1, "b", timestampMs: 4_294_967_295)
        rig.receive(partition, 2, "c", timestampMs: 1_780_000_000 + 4_294_967_295)
        let results = rig.settle()
        #expect(results.map(\.detail) == Array(repeating: "the request is older than delivery.max_age", count: 3))
        #expect(
            results.map(\.subject) == [
                "the timestamp is 1970-01-21: seconds instead of milliseconds?",
                "the timestamp is 1970-02-19: seconds instead of milliseconds?", "",
            ])
    }

    @Test func `An envelope's time applies to all its tokens within the limits, and errors are reported at once`() {
        let (rig, partition) = Rig.ready { $0.maxOpen = 1_000 }
        let later = rig.now.wallMs / 1_000 + 60
        let list = (["no"] + (0..<10_000).map { Rig.token("d\($0)") }).dropLast().joined(separator: #"",""#)
        rig.receive(
            partition, 0, key: nil, value: #"{"device_tokens":["\#(list)"],"not_before":\#(later),"payload":{}}"#)
        var written: [Rig.Written] = []
        for _ in 0..<60 {
            expect(rig.machine.gauges.openNotifications <= 1_000, is: true)
            #expect(rig.send() == [])
            written += rig.settle()
            rig.commit(afterMs: 50)
        }
        #expect(written.map(\.outcome) == [.invalid] + Array(repeating: nil, count: 9_999))
        #expect(
            written.dropFirst().allSatisfy { $0.description.hasSuffix("tier 0 attempt 0 scheduled sends 0 doubt 0") })
        #expect(written.map(\.request) == (0..<10_000).map { "requests/0/0/\($0)" })
        rig.receive(partition, 1, envelope: ["c"], more: #","not_before":null"#)
        #expect(rig.send() == ["c"])
        // A broadcast's time is handled in the same way.
        rig.receive(
            partition, 2, key: nil,
            value: #"{"channel_id":"dHN0","not_before":\#(later),"payload":{},"headers":{"apns-expiration":0}}"#)
        rig.commit()
        #expect(rig.settle().map(\.reason) == ["scheduled"])
    }

    @Test func `A scheduled notification of a paused app goes to the tier of its time`() {
        var app = Rig.app
        app.isPaused = true
        let (rig, partition) = Rig.ready(apps: [app])
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: Self.hourMs))
        rig.receive(partition, 1, "b", headers: Self.headers(rig, inMs: -1_000))
        #expect(
            rig.settled() == [
                "b tier 0 attempt 0 held sends 0 doubt 0",
                "a tier 1 attempt 0 scheduled sends 0 doubt 0",
            ])
    }

    @Test func `A scheduled notification goes to its tier only after a commit`() {
        let (rig, partition) = Rig.ready()
        #expect(rig.offer(partition, 0, "oldest") == ["oldest"])
        rig.receive(partition, 1_000_000, "a", headers: Self.headers(rig, inMs: 60_000))
        rig.receive(partition, 1_000_001, "b", headers: Self.headers(rig, inMs: 1_000, ["apns-expiration": "0"]))
        #expect(rig.settle() == [])
        rig.commit(afterMs: 1_000)
        #expect(rig.settled() == ["a tier 0 attempt 0 scheduled sends 0 doubt 0"])
        #expect(rig.send() == ["b"])
    }

    @Test func `A revoked partition sends no scheduled notification that waits for a commit`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: 1_000))
        rig.receive(partition, 1_000_000, "b", headers: Self.headers(rig, inMs: 1_000))
        rig.machine.revoke([partition])
        rig.wait(ms: 1_000)
        #expect(rig.settled() == ["a tier 0 attempt 0 scheduled sends 0 doubt 0"])
        let said = rig.commit()
        #expect(said.map(\.offset) == [1_000_000])
        // The next owner has no notification in doubt.
        #expect(said.allSatisfy { $0.map.horizon <= 1_000_000 })
        #expect(rig.send() == [])
        expect(rig.machine.isDrained(partition), is: true)
    }

    @Test func `The settle time counts from the scheduled time, or else from the original request's timestamp`() {
        let (rig, partition) = Rig.readyTier()
        let firstMs = rig.now.wallMs - Self.hourMs
        rig.receive(partition, 0, "a", headers: Self.retryHeaders(rig, inMs: 5_000, firstMs: firstMs))
        rig.settle()
        expect(rig.machine.counters.apps[0].settleTimes.count, is: 0)
        rig.offer(partition, 1, "a", headers: Self.retryHeaders(rig, inMs: -5_000, firstMs: firstMs))
        rig.finish("a")
        expect(rig.machine.counters.apps[0].settleTimes.sumMs, is: 5_000)
        rig.offer(partition, 2, "a", headers: rig.retryHeaders(firstMs: firstMs))
        rig.finish("a")
        expect(rig.machine.counters.apps[0].settleTimes.sumMs, is: 5_000 + Self.hourMs)
    }

    @Test func `If no tier can be written, a scheduled notification waits for the first one`() {
        let (rig, partition) = Rig.ready()
        for tier in 0..<3 { rig.machine.setWritable(.retry(tier: tier), false, now: rig.now) }
        rig.receive(partition, 0, "a", headers: Self.headers(rig, inMs: 40_000))
        rig.receive(partition, 1, "b", headers: Self.headers(rig, inMs: 10_000))
        rig.receive(partition, 2, "c", headers: Self.headers(rig, inMs: 8_000_000))
        rig.wait(ms: 20_000)
        rig.machine.setWritable(.retry(tier: 2), true, now: rig.now)
        for tier in 0..<2 { expect(rig.machine.nextProduction(for: .retry(tier: tier)) == nil, is: true) }
        let written = rig.settle()
        #expect(written.map(\.target) == [.retry(tier: 2), .retry(tier: 2), .retry(tier: 2)])
        #expect(Set(written.map(\.token)) == ["a", "b", "c"])
        // The time of one of them has come, so it is due at once.
        let waits = Dictionary(uniqueKeysWithValues: written.map { ($0.token, $0.dueMs - rig.now.wallMs) })
        #expect(waits == ["a": 20_000, "b": -10_000, "c": 7_180_000])
        #expect(rig.isEmpty)
    }
}
