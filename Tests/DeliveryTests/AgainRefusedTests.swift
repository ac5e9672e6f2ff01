import PushRecords
import Testing

@testable import Delivery

struct AgainRefusedTests {
    static func refuse(_ rig: Rig, _ device: String) {
        rig.completion(device) { Completion(id: $0, kind: .notProcessed, unprocessed: .refusedByPeer) }
    }

    /// Repeats sends as long as they are refused. Returns their number and the number of the first one that was sent
    /// alone.
    static func refuseAll(_ rig: Rig, _ device: String, atMost: Int = 50) -> (tries: Int, firstAlone: Int?) {
        var tries = 0
        var firstAlone: Int?
        while tries < atMost {
            if rig.sent.isEmpty {
                rig.send()
                if rig.sent.isEmpty {
                    rig.wait(ms: 1_000).send()
                }
            }
            guard let request = rig.sent.first else { break }
            if request.isSuspect { firstAlone = firstAlone ?? tries }
            tries += 1
            refuse(rig, device)
        }
        return (tries, firstAlone)
    }

    @Test
    func `A notification that APNs refuses to process is sent alone after six refusals, and deferred after ten`() {
        let rig = AgainTests.ready()
        let startNs = rig.now.ns
        let result = Self.refuseAll(rig, "a")
        #expect(result.tries == 10 && result.firstAlone == 6)
        #expect(rig.now.ns - startNs <= 8_000_000_000)
        #expect(rig.settled() == ["a tier 0 attempt 0 held sends 0 doubt 0"])
        #expect(rig.machine.takeEvents() == [.held(app: AppIndex(0), .unprocessed)])
        #expect(rig.isDone(at: 1))
    }

    @Test func `A refused notification goes to the end of the queue`() {
        let (rig, partition) = Rig.ready(capacity: 1)
        #expect(rig.offer(partition, 0, "a", "b", "c") == ["a"])
        Self.refuse(rig, "a")
        #expect(rig.send() == ["b"])
        #expect(rig.giveBack("b").send() == ["b"], "a request that was never sent keeps its place in the queue")
        #expect(rig.answer("b").send() == ["c"])
        rig.answer("c")
        for _ in 0..<3 {
            rig.send()
            Self.refuse(rig, "a")
        }
        #expect(rig.offer(partition, 3, "d", "e") == ["d"])
        rig.wait(ms: 1_000)
        #expect(rig.answer("d").send() == ["e"], "a refused notification stays at the end of the queue after its pause")
        #expect(rig.answer("e").send() == ["a"])
    }

    @Test func `Only consecutive refusals count, and an answer or a send in doubt resets the count`() {
        let rig = AgainTests.ready()
        func again() {
            rig.wait(ms: 1_000).send()
        }
        for _ in 0..<9 {
            Self.refuse(rig, "a")
            again()
        }
        rig.giveBack("a")
        again()
        #expect(rig.sent.first?.isSuspect == true)
        rig.doubt("a", died: false)
        again()
        #expect(rig.sent.first?.isSuspect == false)
        for _ in 0..<9 {
            Self.refuse(rig, "a")
            again()
        }
        rig.answer("a", 400, .idleTimeout)
        again()
        #expect(Self.refuseAll(rig, "a").tries == 10)
        #expect(rig.settle().map(\.attempt) == [0])
        #expect(rig.isEmpty)
    }

    @Test func `Without a maximum age each deferral counts as an attempt, so that retries end`() {
        for attempt in [0, 5] {
            let rig = Rig { $0.maxAgeMs = 0 }
            let partition = rig.assignTier()
            rig.receive(partition, 0, "a", headers: rig.retryHeaders(attempt: attempt))
            #expect(Self.refuseAll(rig, "a").tries == 10)
            let written = rig.settle()
            if attempt == 5 {
                #expect(written.map(\.outcome) == [.abandoned])
            } else {
                #expect(written.map(\.target) == [.retry(tier: 0)] && written.map(\.attempt) == [attempt + 1])
            }
            #expect(rig.isEmpty)
        }
    }

    @Test func `With expiration 0, a notification that is refused ten times expires`() {
        let rig = AgainTests.ready(["apns-expiration": "0"])
        #expect(Self.refuseAll(rig, "a").tries == 10)
        #expect(rig.settle().map(\.outcome) == [.expired])
    }

    @Test(arguments: [nil, -1] as [Int64?])
    func `With expiration 0, an unprocessed notification is retried for 30 s after its arrival if it has no timestamp`(
        ms: Int64?
    ) {
        let rig = Rig()
        rig.receive(rig.assignReady(), 0, "a", headers: ["apns-expiration": "0"], timestampMs: ms)
        #expect(rig.send() == ["a"])
        rig.wait(ms: 30_000)
        #expect(rig.giveBack("a").send() == ["a"])
        rig.wait(ms: 1)
        #expect(rig.giveBack("a").send() == [])
        #expect(rig.settle().map(\.outcome) == [.expired])
        #expect(rig.machine.counters.apps[0].settleTimes.count == (ms == nil ? 1 : 0))
        #expect(rig.isEmpty)
    }

    @Test
    func `After the last refusal in a partition that is being revoked, a notification is dropped and not deferred`() {
        let rig = AgainTests.ready()
        for _ in 0..<9 {
            Self.refuse(rig, "a")
            rig.wait(ms: 1_000).send()
        }
        rig.machine.revoke([MachineTopicTests.partition(rig)])
        Self.refuse(rig, "a")
        #expect(rig.settle() == [])
        #expect(rig.isEmpty)
    }

    // MARK: Credentials

    @Test
    func `A GOAWAY that refuses the credential defers its unprocessed requests, even with one app`() {
        let (rig, partition) = Rig.ready()
        rig.offer(partition, 0, "a", "b", "b")
        rig.machine.credentialRefused(AppIndex(0), .badCertificate, now: rig.now)
        #expect(rig.machine.takeEvents() == [MachineCircuitTests.opened, .held(app: AppIndex(0), .credential)])
        for device in ["a", "b"] { Self.refuse(rig, device) }
        #expect(rig.send() == [])
        #expect(Set(rig.settled()) == ["a \(Self.held)", "b \(Self.held)"])
        #expect(rig.isEmpty)
        // After one second, one notification is sent as a probe. If it is refused again, the next probe follows after
        // two seconds.
        #expect(rig.wait(ms: 1_000).offer(partition, 3, "c") == ["c"])
        rig.machine.credentialRefused(AppIndex(0), .badCertificate, now: rig.now)
        Self.refuse(rig, "c")
        #expect(rig.settled() == ["c \(Self.held)"])
        #expect(rig.wait(ms: 1_999).offer(partition, 4, "d") == [])
        #expect(rig.wait(ms: 1).offer(partition, 5, "e") == ["e"])
        rig.answer("e")
        #expect(rig.machine.takeEvents().last == MachineCircuitTests.closed)
        #expect(rig.offer(partition, 6, "f") == ["f"])
    }

    static let held = MachineCircuitTests.held
}
