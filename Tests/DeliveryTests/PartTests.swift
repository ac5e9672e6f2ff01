import PushRecords
import Testing

@testable import Delivery

// Parts of the machine, as far as its tests do not reach them.

struct ReadyQueuesTests {
    @Test
    func `Streams go round the topics by weight, however many there are; only those with something ready count`() {
        var store = NotificationStore.forTests()
        var ready = ReadyQueues()
        let groups = 150
        for group in 0..<groups { ready.addGroup(weight: group == 140 ? 2 : 1) }
        expect(ready.removeFirst(from: &store), is: nil)
        var waiting: [NotificationSlot: Int] = [:]
        for group in [3, 63, 64, 140] {
            for _ in 0..<4 {
                let slot = store.add("a", group: Int32(group))
                ready.append(slot, group: group, in: &store)
                waiting[slot] = group
            }
        }
        var order: [Int] = []
        while let slot = ready.removeFirst(from: &store) { order.append(waiting[slot] ?? -1) }
        expect(order, is: [3, 63, 64, 140, 140, 3, 63, 64, 140, 140, 3, 63, 64, 3, 63, 64])
        expect(ready.count, is: 0)
        expect(ready.oldestNs(in: store), is: nil)
        // One that is taken out leaves its queue empty; a later one waits no longer than others.
        let slot = store.add("a", group: 64)
        ready.append(slot, group: 64, in: &store)
        ready.remove(slot, group: 64, from: &store)
        expect(ready.removeFirst(from: &store), is: nil)
        ready.prepend(slot, group: 64, in: &store)
        expect(ready.removeFirst(from: &store), is: slot)
    }
}

struct SettlementTests {
    @Test func `A dead token is taken back where its result waits as well, and what was queued for it is void`() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slots = [store.add("a"), store.add("b")]
        for slot in slots {
            store.move(slot, to: .concluded(.result(.unregistered)))
            settlement.produce(slot, .unregistered, in: &store)
            settlement.produce(slot, .result, in: &store)
        }
        _ = settlement.next(for: .results, in: store).map { settlement.produced($0, in: &store) }
        expect(settlement.setWritable(.unregistered, false), is: true)
        expect(settlement.setWritable(.unregistered, false), is: false)
        expect(settlement.takeDeadTokens(in: &store), is: [slots[1]])
        expect(settlement.next(for: .unregistered, in: store)?.id.slot, is: slots[0])
        expect(settlement.next(for: .results, in: store), is: nil)
    }

    @Test func `What waits for a tier that cannot be written goes to one that can`() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slot = store.add("a")
        store.move(slot, to: .concluded(.retry(dueMs: 0, isAttempt: true)))
        settlement.produce(slot, .retry(tier: 0), in: &store)
        _ = settlement.setWritable(.retry(tier: 0), false)
        settlement.emptyUnwritableTiers(in: &store, nowMs: 1_000)
        expect(settlement.next(for: .retry(tier: 0), in: store), is: nil)
        expect(settlement.next(for: .retry(tier: 1), in: store)?.id.slot, is: slot)
        expect(store[slot].state, is: .concluded(.retry(dueMs: 901_000, isAttempt: true)))
    }
}

struct PartitionTableTests {
    private static func partition(_ id: PartitionID) -> Partition {
        Partition(
            id: id, topic: "requests", number: Int32(id.slot.number), group: 0, tierDelayMs: 0,
            ledger: PartitionLedger(committed: nil, map: CommitMap()), horizon: SendHorizon(minimum: 1),
            metadataLimit: 100)
    }

    @Test func `A slot is used again, a name is not; and there may be many`() {
        var table = PartitionTable()
        var ids: [PartitionID] = []
        for _ in 0..<40 {
            ids.append(table.nextID())
            table.insert(Self.partition(ids[ids.count - 1]))
        }
        expect(table.count, is: 40)
        expect(ids.enumerated().allSatisfy { Int32($0.offset) == table[$0.element.slot].number }, is: true)
        table.remove(PartitionSlot(3))
        table.remove(PartitionSlot(17))
        expect(table.find(ids[3]), is: nil)
        expect(table.find(PartitionSlot(17)), is: nil)
        expect(table.find(PartitionSlot.none), is: nil)
        expect(Array(table.slots).count, is: 38)
        let again = table.nextID()
        expect(again.slot, is: PartitionSlot(3))
        table.insert(Self.partition(again))
        expect(table.find(ids[3]), is: nil)
        expect(table.find(again), is: PartitionSlot(3))
        expect(table.nextID().slot, is: PartitionSlot(17))
    }
}
