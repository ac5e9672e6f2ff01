import PushRecords
import Testing

@testable import Delivery

struct AgainTests {
    static func ready(_ headers: [String: String] = [:], _ change: (inout MachineSettings) -> Void = { _ in }) -> Rig {
        let (rig, partition) = Rig.ready(change)
        #expect(rig.offer(partition, 0, "a", headers: headers) == ["a"])
        return rig
    }

    @Test func `An unprocessed notification is resent without limit, and is neither in doubt nor a suspect`() {
        let rig = Self.ready()
        for _ in 0..<40 {
            #expect(rig.giveBack("a").wait(ms: 1_000).send() == ["a"])
            #expect(rig.sent.first?.isSuspect == false)
        }
        #expect(rig.finished("a") == ["a accepted  sends 1 doubt 0"])
    }

    @Test func `A server that processes no request gets one attempt a second`() {
        let rig = Self.ready()
        for _ in 0..<3 {
            #expect(rig.giveBack("a").send() == ["a"])
        }
        #expect(rig.giveBack("a").send() == [])
        expect(rig.machine.nextDeadlineNs, is: rig.now.ns + 1_000_000_000)
        #expect(rig.wait(ms: 999).send() == [])
        #expect(rig.wait(ms: 1).send() == ["a"])
    }

    @Test func `A notification in doubt is resent and counted, and becomes a suspect after three lost connections`() {
        let rig = Self.ready()
        for death in 1...3 {
            #expect(rig.doubt("a").send() == ["a"])
            #expect(rig.sent.first?.isSuspect == (death == 3))
        }
        #expect(rig.finished("a") == ["a accepted  sends 4 doubt 3"])
    }

    @Test func `With in_doubt: abandon a notification in doubt is not resent`() {
        let rig = Self.ready { $0.inDoubt = .abandon }
        #expect(rig.doubt("a").send() == [])
        #expect(rig.settled() == ["a abandoned  sends 1 doubt 1"])
    }

    @Test
    func `With in_doubt: abandon a notification that an earlier worker may have sent is not resent if it was due`() {
        let (rig, partition) = Rig.inheriting(CommitMap(horizon: 2), logEnd: 4) { $0.inDoubt = .abandon }
        rig.receive(partition, 0, "a")
        rig.receive(partition, 1, "b", headers: ["push-not-before": "\(rig.now.wallMs / 1_000 + 60)"])
        rig.receive(partition, 2, "c")
        rig.commit()
        #expect(rig.send() == ["c"])
        #expect(rig.settled() == ["a abandoned  sends 1 doubt 1", "b tier 0 attempt 0 scheduled sends 1 doubt 1"])
    }

    @Test
    func `After resend_max resends a notification goes to a tier, and after max_attempts stays it is abandoned`() {
        let rig = Self.ready()
        let tier = rig.assignTier(900_000)
        for stay in 0...5 {
            if stay > 0 {
                let headers = rig.retryHeaders(attempt: stay, sends: stay * 6, inDoubt: stay * 6)
                #expect(rig.offer(tier, Int64(stay), "a", headers: headers) == ["a"])
            }
            for _ in 0..<5 {
                rig.doubt("a")
                #expect(rig.wait(ms: 1_000).send() == ["a"])
            }
            #expect(rig.doubt("a").send() == [])
            let retry = rig.settle()
            let end = stay < 5 ? "tier \(stay == 0 ? 1 : 2) attempt \(stay + 1)" : "abandoned"
            #expect(retry.map(\.description) == ["a \(end)  sends \(stay * 6 + 6) doubt \(stay * 6 + 6)"])
            if stay == 0 { #expect(retry.map(\.dueMs) == [rig.now.wallMs + 900_000]) }
            #expect(rig.isEmpty)
        }
    }

    @Test(
        arguments: [
            (429, .tooManyRequests, 0), (500, .internalServerError, 1), (503, .serviceUnavailable, 1),
            (503, .shutdown, 1), (403, .invalidProviderToken, 0), (403, .expiredProviderToken, 0), (502, .none, 1),
        ] as [(UInt16, ReasonCode, Int)])
    func `The requested delay of a retry verdict selects the tier`(_ status: UInt16, _ reason: ReasonCode, _ tier: Int)
    {
        let rig = Self.ready()
        let word = reason.text?.description ?? "HTTP \(status)"
        #expect(rig.answer("a", status, reason).settled() == ["a tier \(tier) attempt 1 \(word) sends 1 doubt 0"])
        #expect(rig.isDone(at: 1))
    }

    @Test(
        arguments: [
            (403, .unrelatedKeyIdInToken, [false, false]), (429, .tooManyProviderTokenUpdates, [false, false]),
            (403, .expiredProviderToken, [true, false]), (400, .topicDisallowed, [true, false]),
            (400, .topicDisallowed, [true, true]), (400, .topicDisallowed, [false]),
        ] as [(UInt16, ReasonCode, [Bool])])
    func `Some answers cause one resend, some only with a newer token or connection, and then a retry`(
        _ status: UInt16, _ reason: ReasonCode, _ carriedOlder: [Bool]
    ) {
        let rig = Self.ready()
        for (place, isOlder) in carriedOlder.enumerated() {
            rig.answer("a", status, reason, carriedOlderToken: isOlder)
            #expect(rig.send() == (place < carriedOlder.count - 1 ? ["a"] : []))
        }
        let word = reason.text?.description ?? ""
        #expect(rig.settled() == ["a tier 0 attempt 1 \(word) sends \(carriedOlder.count) doubt 0"])
        #expect(rig.isDone(at: 1))
    }

    @Test func `An unknown reason keeps its text`() {
        let rig = Self.ready()
        rig.completion(
            "a", { Completion(id: $0, kind: .answered, status: 400, reason: .other, reasonText: 0) },
            texts: ["NextYear"])
        #expect(rig.settled() == ["a rejected NextYear sends 1 doubt 0"])
    }

    @Test func `A notification in doubt with expiration 0 expires instead of going to a tier`() {
        let now = ["apns-expiration": "0"]
        #expect(Self.ready(now).answer("a", 503, .shutdown).settle().map(\.outcome) == [.expired])
        #expect(Self.ready(now).doubt("a").settled() == ["a expired  sends 1 doubt 1"])
    }

    // MARK: Read back from a tier

    @Test func `A retry record is not accepted before it is due, and its result names the original request`() throws {
        let (rig, partition) = Rig.readyTier()
        let firstMs = rig.now.wallMs - 60_000
        let headers = rig.retryHeaders(dueMs: rig.now.wallMs + 10_000, firstMs: firstMs)
        #expect("\(rig.receive(partition, 0, "a", headers: headers))" == "notDue(untilMs: \(rig.now.wallMs + 10_000))")
        let writtenMs = rig.now.wallMs
        rig.wait(ms: 10_000)
        rig.receive(partition, 0, "a", headers: headers, timestampMs: writtenMs)
        #expect(rig.send() == ["a"])
        let id = try #require(rig.sent.first).headers.apnsID
        #expect(id == NotificationUUID(high: 0x8000, low: 0x8000_0000_0000_0001))
        let written = rig.finish("a")
        #expect(written.map(\.description) == ["a accepted  sends 3 doubt 1"])
        #expect(written.map(\.request) == ["requests/4/1234/7"])
    }

    @Test(arguments: [1, 4, 5])
    func `Each retry goes to the next tier, and a notification without attempts left is abandoned`(_ attempt: Int) {
        let (rig, partition) = Rig.readyTier()
        rig.offer(partition, 0, "a", headers: rig.retryHeaders(attempt: attempt))
        rig.answer("a", 429, .tooManyRequests)
        let end = attempt < 5 ? "tier 1 attempt \(attempt + 1)" : "abandoned"
        #expect(rig.settled() == ["a \(end) TooManyRequests sends 3 doubt 1"])
    }

    @Test
    func `A tier that was removed from the configuration is read with its own delay, and the next tier is longer`() {
        for (delayMs, tier) in [(60_000, 1), (30_000, 1), (1_800_000, 2), (4_000_000, 2)] as [(Int64, Int)] {
            let (rig, partition) = Rig.readyTier(delayMs)
            let headers = rig.retryHeaders(dueMs: rig.now.wallMs + 10_000_000)
            let receipt = rig.receive(partition, 0, "a", headers: headers)
            #expect("\(receipt)" == "notDue(untilMs: \(rig.now.wallMs + delayMs))")
            let writtenMs = rig.now.wallMs
            rig.wait(ms: delayMs)
            rig.receive(partition, 0, "a", headers: headers, timestampMs: writtenMs)
            #expect(rig.send() == ["a"])
            #expect(rig.answer("a", 429, .tooManyRequests).settle().map(\.target) == [.retry(tier: tier)])
        }
    }

    @Test func `A deferred retry record goes to the shortest tier and keeps its attempts`() {
        let rig = Rig(apps: [ReloadTests.changed(Rig.app) { $0.isPaused = true }])
        let partition = rig.assignTier(7_200_000)
        rig.receive(partition, 0, "a", headers: rig.retryHeaders(attempt: 4))
        #expect(rig.settled() == ["a tier 0 attempt 4 held sends 2 doubt 1"])
    }

    @Test
    func `A dead network abandons no notification, because silent connections use up neither resends nor attempts`() {
        let rig = Self.ready()
        for _ in 0..<100 {
            rig.completion("a") {
                Completion(
                    id: $0, kind: .inDoubt, sentAtMs: rig.now.wallMs, connectionDied: true, connectionWasSilent: true)
            }
            #expect(rig.wait(ms: 1_000).send() == ["a"])
            #expect(rig.sent.first?.isSuspect == false)
        }
        #expect(rig.finished("a") == ["a accepted  sends 101 doubt 100"])
    }

    /// With `message.timestamp.type=LogAppendTime`, the broker's clock sets the timestamp and the worker's clock the
    /// header.
    @Test(arguments: [-45_000, 45_000])
    func `The tier's delay is kept however wrong the broker's clock is`(offMs: Int64) {
        let (rig, partition) = Rig.readyTier()
        let headers = rig.retryHeaders(dueMs: rig.now.wallMs + 30_000, firstMs: rig.now.wallMs - 1_000)
        let writtenMs = rig.now.wallMs + offMs
        let receipt = rig.receive(partition, 0, "a", headers: headers, timestampMs: writtenMs)
        #expect("\(receipt)" == "notDue(untilMs: \(rig.now.wallMs + 30_000))")
        rig.wait(ms: 30_000)
        #expect("\(rig.receive(partition, 0, "a", headers: headers, timestampMs: writtenMs))" == "taken")
    }

    @Test func `A record with a timestamp in the far future is not delayed until that time`() {
        let (rig, partition) = Rig.readyTier()
        let laterMs = rig.now.wallMs + 3 * 3_600_000
        let headers = rig.retryHeaders(dueMs: laterMs + 30_000, firstMs: laterMs - 1_000)
        #expect("\(rig.receive(partition, 0, "a", headers: headers, timestampMs: laterMs))" == "taken")
        let next = rig.receive(partition, 1, "b", headers: headers, timestampMs: rig.now.wallMs + 30_000)
        #expect("\(next)".hasPrefix("notDue"))
    }
}
