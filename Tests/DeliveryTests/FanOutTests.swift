import PushRecords
import Testing

@testable import Delivery

struct FanOutTests {
    @Test
    func `A list gives one notification and one result per token in order, and its offset is committed after the last`()
    {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, envelope: ["a", "b", "c"])
        #expect(rig.send() == ["a", "b", "c"])
        #expect(rig.sent.map { DerivedID.decode($0.headers.apnsID)?.index } == [0, 1, 2])
        rig.answer("b")
        #expect(rig.finish("a").map(\.request) == ["requests/0/0/1", "requests/0/0/0"])
        rig.wait(ms: 50)
        let partial = CommitMap.Partial(offset: 0, indexes: [0..<2])
        #expect(rig.commit().map(\.map.partials) == [[partial]])
        rig.finish("c")
        #expect(rig.isDone(at: 1))
    }

    @Test func `Indexes that the map names are skipped, and a fan-out whose indexes are all named settles on arrival`()
    {
        let (rig, partition) = Rig.inheriting(
            CommitMap(
                horizon: 1,
                partials: [.init(offset: 0, indexes: [0..<1, 2..<3]), .init(offset: 1, indexes: [0..<2])]))
        rig.receive(partition, 0, envelope: ["a", "b", "c", "d"])
        rig.receive(partition, 1, envelope: ["e", "f"])
        #expect(rig.send() == ["b", "d"])
        rig.answer("b")
        #expect(rig.finished("d") == ["b accepted  sends 2 doubt 1", "d accepted  sends 2 doubt 1"])
        #expect(rig.isDone(at: 2))
    }

    @Test func `A large fan-out is admitted in pieces, and meanwhile its partition is not read but others are`() {
        let rig = Rig { $0.maxOpen = 8 }
        let large = rig.assignReady(0, topic: "large")
        let other = rig.assignReady(0, topic: "other")
        rig.commit(afterMs: 100)
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

    @Test func `Records behind a waiting fan-out keep their order, also those of one device`() {
        let (rig, partition) = Rig.ready { $0.maxOpen = 4 }
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
        // The other device of the last two records passes while the first one waits for its device queue.
        #expect(seen.suffix(2) == ["requests/0/2/0", "requests/0/1/0"])
        #expect(rig.isEmpty)
    }

    @Test func `Bad tokens in a list are invalid and the others are sent`() {
        let (rig, partition) = Rig.ready()
        rig.receive(
            partition, 0, key: nil,
            value: #"{"device_tokens": ["\#(Rig.token("a"))", "xyz", ""], "payload": {"aps": {}}}"#)
        #expect(rig.send() == ["a"])
        #expect(rig.finish("a").map(\.outcome) == [.invalid, .invalid, .accepted])
        #expect(rig.isEmpty)
    }

    @Test func `The rest of a list is admitted in one turn, in pieces, up to the limit`() {
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, envelope: (0..<700).map { "t\($0)" })
        expect(rig.machine.gauges.openNotifications, is: 256)
        let sent = rig.send()
        #expect(sent.count == 700)
        for device in sent { rig.answer(device) }
        rig.settle()
        #expect(rig.isEmpty)
    }

    @Test func `The bytes of a list's results are limited, but one token may always continue`() {
        let (rig, partition) = Rig.ready {
            $0.maxOpenBytes = 8 * 1_024
            $0.copiedHeaders = ["note"]
        }
        let list = (0..<40).map { "\"\(Rig.token("t\($0)"))\"" }.joined(separator: ", ")
        let note = String(repeating: "n", count: 900)
        rig.receive(
            partition, 0, key: "k", value: #"{"device_tokens": [\#(list)], "payload": {"aps": {}}}"#,
            headers: [("note", note)])
        var ended = 0
        while ended < 40 {
            let sent = rig.send()
            guard !sent.isEmpty else { break }
            expect(sent.count <= 12, is: true)
            // The list itself and one of its tokens may exceed the limit.
            expect(rig.machine.gauges.openBytes <= rig.machine.settlement.settings.maxOpenBytes + 2 * 1_024, is: true)
            for device in sent { rig.answer(device) }
            let written = rig.produce()
            expect(rig.machine.gauges.openBytes >= sent.count * 400, is: true)
            for each in written { rig.machine.acknowledged(each.id, now: rig.now) }
            ended += sent.count
        }
        #expect(ended == 40)
        #expect(rig.isEmpty)
    }

    @Test func `A retry record counts with its payload until Kafka has it`() {
        let (rig, partition) = Rig.ready()
        let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 3_000))"}}"#
        rig.receive(partition, 0, "a", payload: payload)
        rig.send()
        rig.answer("a", 503, .shutdown)
        let written = rig.produce()
        expect(rig.machine.gauges.openBytes, is: payload.utf8.count)
        rig.machine.acknowledged(written[0].id, now: rig.now)
        #expect(rig.isEmpty)
    }
}
