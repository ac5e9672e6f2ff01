import Bytes
@testable import Delivery
import PushRecords
import Testing

struct LeavingSpanTests {
    static let slow = AppRoute(
        name: "slow", environment: .production, bundleIDs: ["com.example.slow"], rateLimit: 1, guardPolicy: .off)

    /// Settles what can be, and commits, until nothing moves any more.
    static func settle(_ rig: Rig, limit: Int = 200) -> [CommitMap] {
        var maps: [CommitMap] = []
        for _ in 0..<limit {
            let sent = rig.send()
            for request in rig.sent {
                let completion = Completion(id: request.id, kind: .answered, status: 200, sentAtMs: rig.now.wallMs)
                rig.machine.handle(
                    CompletionBatch(app: AppIndex(0), completions: [completion], texts: []), now: rig.now)
            }
            rig.sent = []
            let written = rig.settle()
            rig.wait(ms: 20)
            let commits = rig.commit()
            maps += commits.map(\.map)
            if sent.isEmpty, written.isEmpty, commits.isEmpty { break }
        }
        return maps
    }

    @Test func `What a device queue held and a map could not name is moved to its tier, not dropped`() {
        var settings = MachineSettings()
        settings.deviceQueueLimit = 1
        settings.reachMargin = 1
        settings.metadataLimit = 64
        let rig = Rig(settings)
        let partition = rig.assignReady()
        rig.receive(partition, 0, "a")
        rig.send()
        rig.receive(partition, 1, "a")
        for offset in 2..<300 as Range<Int64> {
            if offset % 2 == 0 {
                let receipt = rig.receive(partition, offset, key: "no token", value: #"{"aps":{"alert":"Hi"}}"#)
                if case .deadLetter(let id, _, _) = receipt { rig.machine.acknowledged(id, now: rig.now) }
            } else {
                rig.receive(partition, offset, "d\(offset)")
            }
        }
        rig.settle()
        rig.machine.revoke([partition])
        let slot = rig.machine.ledger.find(partition)
        expect(slot.map { rig.machine.ledger[$0].nameableFrom } ?? 0 > 1, is: true)
        rig.answer("a")
        var tiers: [String] = []
        // With so small a margin each commit raises the reach by one.
        for _ in 0..<1_000 {
            for written in rig.settle() where written.outcome == nil { tiers.append(written.request) }
            rig.wait(ms: 50)
            rig.commit()
        }
        #expect(tiers.contains("requests/0/1/0"))
        expect(rig.machine.isDrained(partition), is: true)
    }

    @Test
    func `Thousands of a rate-limited app wait among settled ones: a successor sends nothing that was accepted`() throws
    {
        var settings = MachineSettings()
        settings.ordering = .none
        settings.maxAgeMs = 0
        let rig = Rig(settings, apps: [Rig.app, Self.slow], capacity: 10_000)
        let partition = rig.assignReady()
        var offset: Int64 = 0
        var accepted: Set<Int64> = []
        for round in 0..<30 {
            for _ in 0..<200 {
                guard rig.machine.room(for: partition) > 0 else { break }
                // Gaps make the span longer than a bitmap could name.
                offset += 11
                let isSlow = offset % 3 == 0
                rig.receive(
                    partition, offset, "d\(offset)",
                    headers: ["apns-topic": isSlow ? "com.example.slow" : "com.example.shop"])
            }
            if round < 29 { _ = Self.settle(rig, limit: 2) }
            for written in rig.settle() { accepted.insert(Int64(written.request.split(separator: "/")[2]) ?? -1) }
        }
        let waiting = rig.machine.gauges.waiting[1]
        #expect(waiting > 300)
        let cutBefore = rig.machine.counters.mapsCut
        rig.machine.revoke([partition])
        var last: Rig.Committed?
        for _ in 0..<100 {
            for request in rig.sent {
                let completion = Completion(id: request.id, kind: .answered, status: 200, sentAtMs: rig.now.wallMs)
                rig.machine.handle(
                    CompletionBatch(app: AppIndex(0), completions: [completion], texts: []), now: rig.now)
            }
            rig.sent = []
            rig.settle()
            rig.wait(ms: 100)
            last = rig.commit().last ?? last
        }
        expect(rig.machine.isDrained(partition), is: true)
        expect(rig.machine.counters.mapsCut, is: cutBefore, "the last map is whole")
        let open = try #require(last)
        rig.machine.release([partition])
        #expect(rig.isEmpty)

        // Whoever comes next: what the map does not name was neither accepted nor held.
        let next = Rig(settings, apps: [Rig.app, Self.slow], capacity: 10_000)
        let text = CommitMapTests.text(base: open.offset, open.map).text
        let again = text.withUnsafeBytes {
            next.machine.assign(
                topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: open.offset, metadata: $0)
        }
        next.commit()
        for each in stride(from: Int64(11), through: offset, by: 11) where each >= open.offset {
            let receipt = next.receive(again, each, "d\(each)", headers: ["apns-topic": "com.example.shop"])
            if case .taken = receipt { #expect(each % 3 == 0, "\(each) was accepted, and is sent again") }
        }
    }

    @Test func `What a graceful stop's last map could not name is held; that map names the rest`() throws {
        var settings = MachineSettings()
        settings.ordering = .none
        settings.metadataLimit = 64
        settings.reachMargin = 1_000
        let rig = Rig(settings, apps: [Rig.app, Self.slow], capacity: 10_000)
        let partition = rig.assignReady()
        var random = SplitMix64(seed: 3)
        for offset in Int64(0)..<600 {
            rig.receive(
                partition, offset, "d\(offset)",
                headers: ["apns-topic": random.chance(50) ? "com.example.slow" : "com.example.shop"])
        }
        for device in rig.send() { rig.answer(device) }
        // Nothing was committed meanwhile, which would have held the oldest.
        var settled = Set(rig.settle().compactMap { Int64($0.request.split(separator: "/")[2]) })
        #expect(settled.count > 200)
        rig.machine.revoke([partition])
        let held = rig.settle().filter { $0.outcome == nil }
        settled.formUnion(held.compactMap { Int64($0.request.split(separator: "/")[2]) })
        rig.wait(ms: 1_000)
        let last = try #require(rig.commit().last)
        expect(rig.machine.isDrained(partition), is: true)
        expect(rig.machine.counters.mapsCut, is: 0, "the last map is whole")
        #expect(held.count > 50)
        let named = settled.filter { offset in
            offset < last.offset || last.map.settled.contains { $0.contains(offset) }
        }
        #expect(named == settled)
        rig.machine.release([partition])
        #expect(rig.isEmpty)
    }

    @Test func `A cut map raises the reach: what it does not name is marked when it is sent again`() {
        var settings = MachineSettings()
        settings.metadataLimit = 64
        settings.reachMargin = 1
        let rig = Rig(settings, capacity: 10_000)
        let partition = rig.assignReady()
        var random = SplitMix64(seed: 7)
        for offset in Int64(0)..<600 {
            rig.receive(partition, offset, "d\(offset)")
            rig.send()
            rig.commit()
            if offset > 0, random.chance(50), rig.sent.last.map(Rig.device) == "d\(offset)" {
                rig.answer("d\(offset)")
            }
        }
        rig.settle()
        rig.machine.revoke([partition])
        rig.machine.stopWaiting([partition])
        rig.wait(ms: 1_000)
        let last = rig.commit()
        #expect(last.count == 1)
        let named = last[0].map.settled.last?.upperBound ?? 0
        let reach = last[0].map.reach ?? 0
        expect(rig.machine.counters.mapsCut > 0, is: true)
        #expect(reach >= named && reach >= 500)
    }

    @Test func `An old notification that waits while the map fills is held, and the map shrinks`() {
        var settings = MachineSettings()
        settings.ordering = .none
        settings.metadataLimit = 1_000
        let rig = Rig(settings, apps: [Rig.app, Self.slow], capacity: 10_000)
        let partition = rig.assignReady()
        var offset: Int64 = 0
        for _ in 0..<100 {
            for _ in 0..<200 where rig.machine.room(for: partition) > 0 {
                offset += 1
                rig.receive(
                    partition, offset, "d\(offset)",
                    headers: ["apns-topic": offset % 40 == 0 ? "com.example.slow" : "com.example.shop"])
            }
            _ = Self.settle(rig, limit: 4)
        }
        #expect(offset > 15_000)
        expect(rig.machine.counters.mapsCut, is: 0)
        let held = rig.machine.counters.apps[1].heldByCause[Int(DeferralReason.span.rawValue)]
        #expect(held > 0)
    }

    @Test func `What comes back after the lease ended is held by a commit that nothing else asks for`() {
        var settings = MachineSettings()
        settings.metadataLimit = 64
        settings.leaseNs = 1_000_000_000
        let rig = Rig(settings, capacity: 10_000)
        let partition = rig.assignReady()
        for offset in Int64(0)..<400 { rig.receive(partition, offset, "d\(offset)") }
        #expect(rig.send().count == 400)
        for offset in 1..<400 where !offset.isMultiple(of: 4) { rig.answer("d\(offset)") }
        rig.settle()
        rig.machine.revoke([partition])
        for offset in stride(from: 4, to: 400, by: 4) { rig.answer("d\(offset)") }
        rig.settle()
        // All is said, but for the one in flight.
        rig.wait(ms: 500)
        rig.commit()
        rig.wait(ms: 2_000)
        rig.send()
        rig.giveBack("d0")
        #expect(rig.settle() == [])
        for _ in 0..<3 {
            rig.wait(ms: 500)
            rig.commit()
            rig.settle()
        }
        expect(rig.machine.isDrained(partition), is: true)
        rig.machine.release([partition])
        #expect(rig.isEmpty)
        #expect(rig.machine.counters.apps[0].heldByCause[Int(DeferralReason.span.rawValue)] == 1)
    }

    @Test func `A full map that was read back is read through, although nothing is open`() {
        var settings = MachineSettings()
        settings.metadataLimit = 64
        let rig = Rig(settings)
        // Open are a few, far apart.
        let settled = (0..<18).map { (number: Int64) -> Range<Int64> in
            let open = number * 200
            return open + 1..<open + 200
        }
        let partition = rig.assign(committed: 0, map: CommitMap(reach: 3_600, settled: settled))
        rig.commit()
        var offset: Int64 = 0
        for _ in 0..<70 {
            while rig.machine.room(for: partition) > 0, offset < 4_000 {
                rig.receive(partition, offset, "d\(offset)")
                offset += 1
            }
            for device in rig.send() { rig.answer(device) }
            rig.settle()
            rig.wait(ms: 1_000)
            rig.commit()
        }
        #expect(offset == 4_000)
        expect(rig.machine.status(of: partition)?.committed, is: 4_000)
    }
}
