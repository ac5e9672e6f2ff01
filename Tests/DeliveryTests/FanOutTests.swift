import PushRecords
import Testing

@testable import Delivery

@Suite("Machine: fan-out")
struct FanOutTests {
    @Test("One notification and one result a token, in order; the offset commits after the last")
    func straight() {
        let rig = Rig()
        let partition = rig.assignReady()
        rig.receive(partition, 0, envelope: ["a", "b", "c"])
        #expect(rig.send() == ["a", "b", "c"])
        rig.answer("b")
        rig.answer("a")
        #expect(rig.settle().map(\.request) == ["requests/0/0/1", "requests/0/0/0"])
        rig.wait(ms: 50)
        let partial = CommitMap.Partial(offset: 0, indexes: [0..<2])
        #expect(rig.commit().map(\.map.partials) == [[partial]])
        rig.answer("c")
        rig.settle()
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }

    @Test("Ids spell the index")
    func ids() {
        let rig = Rig()
        let partition = rig.assignReady()
        rig.receive(partition, 5, envelope: ["a", "b", "c"])
        rig.send()
        #expect(rig.sent.map { DerivedID.decode($0.apnsID)?.index } == [0, 1, 2])
    }

    @Test("Indexes that the map names are skipped")
    func inherited() {
        let rig = Rig()
        let map = CommitMap(reach: 1, partials: [.init(offset: 0, indexes: [0..<1, 2..<3])])
        let partition = rig.assign(committed: 0, map: map)
        rig.commit()
        rig.receive(partition, 0, envelope: ["a", "b", "c", "d"])
        #expect(rig.send() == ["b", "d"])
        rig.answer("b")
        rig.answer("d")
        #expect(
            rig.settle().map(\.description) == ["b accepted  sends 2 doubt 1", "d accepted  sends 2 doubt 1"])
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }

    @Test("A fan-out of which all is settled settles when it comes")
    func allInherited() {
        let rig = Rig()
        let map = CommitMap(partials: [.init(offset: 0, indexes: [0..<2])])
        let partition = rig.assign(committed: 0, map: map)
        rig.commit()
        rig.receive(partition, 0, envelope: ["a", "b"])
        #expect(rig.send() == [])
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }

    @Test("A large one is admitted piece by piece; its partition is not read meanwhile, others are")
    func pieces() {
        var settings = DeliverySettings()
        settings.maxOpen = 8
        let rig = Rig(settings)
        let large = rig.assignReady(0, topic: "large")
        let other = rig.assignReady(0, topic: "other")
        rig.wait(ms: 100)
        rig.commit()
        rig.receive(large, 0, envelope: (0..<20).map { "t\($0)" })
        expect(rig.machine.gauges.openNotifications, is: 6)  // Half of the reserve is the other topic's.
        expect(rig.machine.room(for: large), is: 0)
        expect(rig.machine.room(for: other), is: 2)
        rig.receive(other, 0, "o")
        var seen: [String] = []
        for _ in 0..<40 {
            for device in rig.send() {
                seen.append(device)
                rig.answer(device)
            }
            rig.settle()
        }
        #expect(seen.filter { $0 != "o" } == (0..<20).map { "t\($0)" })
        rig.wait(ms: 50)
        #expect(Set(rig.commit().map(\.offset)) == [1])
        #expect(rig.isEmpty)
    }

    @Test("Records read behind a fan-out that waits keep their order, also of one device")
    func behind() {
        var settings = DeliverySettings()
        settings.maxOpen = 4
        let rig = Rig(settings)
        let partition = rig.assignReady()
        rig.receive(partition, 0, envelope: ["a", "b", "c", "d", "e", "a"])
        rig.receive(partition, 1, "a")
        rig.receive(partition, 2, "f")
        var seen: [String] = []
        for _ in 0..<10 {
            for device in rig.send() {
                rig.answer(device)
                let written = rig.settle()
                seen.append(written.map(\.request)[0])
            }
        }
        #expect(seen.filter { $0.hasPrefix("requests/0/0") } == (0..<6).map { "requests/0/0/\($0)" })
        // The other device of the last two passes while the first waits for its lane.
        #expect(seen.suffix(2) == ["requests/0/2/0", "requests/0/1/0"])
        #expect(rig.isEmpty)
    }

    @Test("Bad tokens in a list are invalid, the others are sent")
    func badTokens() {
        let rig = Rig()
        let partition = rig.assignReady()
        rig.receive(
            partition, 0, key: nil,
            value: #"{"device_tokens": ["\#(Rig.token("a"))", "xyz", ""], "payload": {"aps": {}}}"#)
        #expect(rig.send() == ["a"])
        rig.answer("a")
        #expect(rig.settle().map(\.outcome) == [.invalid, .invalid, .accepted])
        #expect(rig.isEmpty)
    }

    @Test("Ten thousand tokens in one record")
    func largest() {
        let rig = Rig(capacity: 20_000)
        let partition = rig.assignReady()
        let devices = (0..<10_000).map { "t\($0)" }
        rig.receive(partition, 0, envelope: devices)
        var seen = 0
        while seen < 10_000 {
            var fates: [Fate] = []
            rig.machine.sends(now: rig.now) { fates += $1.map { Fate(id: $0.id, kind: .answered, status: 200) } }
            guard !fates.isEmpty else { break }
            seen += fates.count
            rig.machine.handle(FateBatch(app: AppIndex(0), fates: fates), now: rig.now)
            while let production = rig.machine.nextProduction(for: .results) {
                rig.machine.produced(production)
                rig.machine.acknowledged(production.id, now: rig.now)
            }
        }
        #expect(seen == 10_000)
        rig.wait(ms: 50)
        #expect(rig.commit().map(\.offset) == [1])
        #expect(rig.isEmpty)
    }
}
