import PushRecords
import Testing

@testable import Delivery

// Each part of the machine by itself, as far as the tests of the machine do not name it.

@Suite("Device queues")
struct DeviceQueuesTests {
    private static func enter(
        _ slot: NotificationSlot, _ queues: inout DeviceQueues, _ store: inout NotificationStore
    ) -> String {
        let head = queues.head(for: slot, in: &store)
        return "\(queues.enter(slot, behind: head, in: &store))"
    }

    @Test("The first has its turn, and each one after it when the one before has left")
    func turns() {
        var store = NotificationStore.forTests()
        var queues = DeviceQueues(seed: 1, limit: 10)
        queues.addApp(sharing: nil)
        let slots = [store.add("a"), store.add("a"), store.add("b"), store.add("a")]
        expect(slots.map { Self.enter($0, &queues, &store) }, is: ["first", "behind", "first", "behind"])
        expect(queues.count, is: 2)
        // Who leaves the middle is passed by.
        expect(queues.leave(slots[1], in: &store), is: nil)
        expect(queues.leave(slots[0], in: &store), is: slots[3])
        // Whose turn it is waits in no queue any more: the machine says where instead.
        store.move(slots[3], to: .ready)
        expect(queues.leave(slots[0], in: &store), is: nil)
        expect(queues.leave(slots[2], in: &store), is: nil)
        expect(queues.leave(slots[3], in: &store), is: nil)
        expect(queues.count, is: 0)
    }

    @Test("A full queue says how many it has turned away, also when its first one has left")
    func full() {
        var store = NotificationStore.forTests()
        var queues = DeviceQueues(seed: 1, limit: 2)
        queues.addApp(sharing: nil)
        let slots = (0..<5).map { _ in store.add("a") }
        expect(
            slots[..<4].map { Self.enter($0, &queues, &store) },
            is: ["first", "behind", "full(turnedAway: 0)", "full(turnedAway: 1)"])
        _ = queues.leave(slots[0], in: &store)
        expect(Self.enter(slots[0], &queues, &store), is: "behind")
        expect(Self.enter(slots[4], &queues, &store), is: "full(turnedAway: 2)")
    }

    @Test("Two apps have queues of their own for one device, unless the second is the first, come back")
    func apps() {
        var store = NotificationStore.forTests()
        var queues = DeviceQueues(seed: 1, limit: 10)
        queues.addApp(sharing: nil)
        queues.addApp(sharing: nil)
        queues.addApp(sharing: 0)
        let entries = (0..<3 as Range<Int32>).map { app in
            let slot = store.add("a", app: app)
            return Self.enter(slot, &queues, &store)
        }
        expect(entries, is: ["first", "first", "behind"])
    }

    @Test("A slowed device is one until its time is over")
    func slowed() {
        var store = NotificationStore.forTests()
        var queues = DeviceQueues(seed: 1, limit: 10)
        queues.addApp(sharing: nil)
        let slot = store.add("a")
        queues.slow(slot, untilNs: 5, in: store)
        expect(queues.isSlowed(slot, in: store), is: false)
        _ = Self.enter(slot, &queues, &store)
        queues.slow(slot, untilNs: 5, in: store)
        queues.expire(4)
        expect(queues.isSlowed(slot, in: store), is: true)
        queues.expire(5)
        expect(queues.isSlowed(slot, in: store), is: false)
    }
}

@Suite("Circuit breakers")
struct CircuitBreakersTests {
    private static func journal() -> Journal { Journal(counters: DeliveryCounters(apps: 1, tiers: 1)) }

    @Test("A refused credential holds all but one probe, which closes the circuit")
    func credential() {
        var store = NotificationStore.forTests()
        var breakers = CircuitBreakers()
        var journal = Self.journal()
        breakers.addApp(.named("shop"))
        let first = store.add("a")
        let second = store.add("b")
        expect(breakers.causeToHold(first, in: store, nowNs: 0), is: nil)
        expect(
            breakers.credentialFault(0, .invalidProviderToken, handedNs: 0, nowNs: 0, journal: &journal), is: .opened)
        expect(breakers.causeToHold(first, in: store, nowNs: 0), is: .credential)
        let later = Circuit.firstDelayNs
        expect(breakers.causeToHold(first, in: store, nowNs: later), is: nil)
        expect([first, second].map { breakers.isProbe($0, in: store) }, is: [true, false])
        expect(breakers.probes, is: [store.id(of: first)])
        expect(breakers.causeToHold(second, in: store, nowNs: later), is: .credential)
        // A probe that ends without an answer gives its place to another.
        breakers.endProbe(first, in: store)
        expect(breakers.isProbe(first, in: store), is: false)
        expect(breakers.causeToHold(second, in: store, nowNs: later), is: nil)
        let probe = breakers.settleProbe(
            second, fault: nil, in: store, ofMany: false, nowNs: later, journal: &journal)
        expect(probe, is: store.id(of: second))
        expect(breakers.isClosed(0) || !breakers.probes.isEmpty || breakers.isGated(0), is: false)
        expect(journal.counters.circuitsOpened, is: 1)
        expect(journal.events.count, is: 2)
    }

    @Test("An app without a connection is cut off after its time, where there are others, until it has one")
    func cutOff() {
        var store = NotificationStore.forTests()
        var breakers = CircuitBreakers()
        var journal = Self.journal()
        breakers.addApp(.named("shop"))
        breakers.addApp(.named("news"))
        _ = breakers.setReachable(0, false, ofMany: true, nowNs: 10, journal: &journal)
        expect(breakers.nextCutOffNs, is: 10 + HostCircuit.cutOffNs)
        let nowNs = breakers.nextCutOffNs
        expect(breakers.cutOff(isBusy: [false, false], nowNs: nowNs - 1, journal: &journal), is: [false, false])
        expect(breakers.cutOff(isBusy: [false, false], nowNs: nowNs, journal: &journal), is: [true, false])
        let slot = store.add("a")
        expect(breakers.causeToHold(slot, in: store, nowNs: nowNs), is: .unreachable)
        _ = breakers.setReachable(0, true, ofMany: true, nowNs: nowNs, journal: &journal)
        expect(breakers.causeToHold(slot, in: store, nowNs: nowNs), is: nil)
    }

    @Test("How long an app has been held counts per cause, until that ends")
    func holding() {
        var breakers = CircuitBreakers()
        var journal = Self.journal()
        breakers.addApp(.named("shop"))
        func note(_ cause: HeldCause, _ nowNs: Int64) -> Int64 {
            breakers.note(cause, of: 0, pauseNs: 100, roundNs: 50, nowNs: nowNs, journal: &journal).forNs
        }
        expect([note(.paused, 10), note(.paused, 1_000), note(.device, 1_000)], is: [0, 990, 0])
        // What is told one by one begins anew after a pause.
        expect([note(.device, 1_100), note(.device, 1_201)], is: [100, 0])
        expect(breakers.heldSinceNs(0, pauseNs: 100, nowNs: 1_201), is: 10)
        breakers.endHolding(.paused)
        expect(breakers.heldSinceNs(0, pauseNs: 100, nowNs: 1_201), is: 1_201)
        expect(breakers.heldSinceNs(0, pauseNs: 100, nowNs: 1_302), is: nil)
    }
}

@Suite("Circuit of a host")
struct HostCircuitTests {
    private static let second: Int64 = 1_000_000_000

    /// Out of reach from 0 on, with a connection from the third second on.
    private static func connectedLate() -> HostCircuit {
        var host = HostCircuit()
        host.setReachable(false)
        expect(host.refresh(ofMany: true, nowNs: 0), is: false)
        expect(host.cutOffDueNs, is: HostCircuit.cutOffNs)
        host.setConnected(true, nowNs: 3 * second)
        expect(host.refresh(ofMany: true, nowNs: 3 * second), is: false)
        return host
    }

    @Test("A connection has its time, however long there was none; without anything to answer it is enough")
    func young() {
        var host = Self.connectedLate()
        let dueNs = 3 * Self.second + HostCircuit.cutOffNs
        expect(host.cutOffDueNs, is: dueNs)
        expect(host.cutOff(isBusy: true, nowNs: dueNs - 1), is: false)
        expect(host.cutOff(isBusy: false, nowNs: dueNs), is: false)
        expect(host.cutOffDueNs, is: nil)
        expect(host.isCutOff, is: false)
    }

    @Test("While it is cut off one tries the connection that there is; what the transport says then ends it")
    func trial() {
        var store = NotificationStore.forTests()
        let (first, second) = (store.id(of: store.add("a")), store.id(of: store.add("b")))
        var host = Self.connectedLate()
        let nowNs = 20 * Self.second
        expect(host.cutOff(isBusy: true, nowNs: nowNs), is: true)
        expect([host.isCutOff, host.isShut], is: [true, false])
        expect([first, second].map { host.admits($0, nowNs: nowNs + Circuit.firstDelayNs) }, is: [true, false])
        expect(host.trial, is: first)
        host.setConnected(false, nowNs: nowNs)
        expect(host.refresh(ofMany: true, nowNs: nowNs), is: false)
        expect(host.isShut, is: true)
        host.setReachable(true)
        expect(host.refresh(ofMany: true, nowNs: nowNs), is: true)
        expect([host.isCutOff, host.trial != nil], is: [false, false])
        expect(host.admits(second, nowNs: nowNs), is: true)
    }
}

@Suite("Dispatch")
struct DispatchTests {
    private static func make(_ route: AppRoute, capacity: Int) -> Dispatch {
        var dispatch = Dispatch()
        dispatch.addApp(route, weights: [1])
        dispatch.setCapacity(0, capacity)
        return dispatch
    }

    @Test("As many as the transport takes, suspects beside them; what was sent before goes first")
    func capacity() {
        var store = NotificationStore.forTests()
        var dispatch = Self.make(.named("shop"), capacity: 2)
        expect(dispatch.freeStreams(0, nowNs: 0) == nil, is: true)
        let slots = [store.add("a"), store.add("b"), store.add("c")]
        for slot in slots { dispatch.becomeReady(slot, first: false, in: &store, nowNs: 7) }
        expect(dispatch.oldestNs(0, in: store), is: 7)
        expect(dispatch.freeStreams(0, nowNs: 0)?.free, is: 2)
        expect(dispatch.next(0, from: &store), is: slots[0])
        expect(dispatch.next(0, from: &store), is: slots[1])
        for slot in slots[..<2] { store.move(slot, to: .handed) }
        dispatch.handed(0, 2, suspects: 1, nowNs: 0)
        expect(dispatch.handed(0), is: 2)
        expect(dispatch.freeStreams(0, nowNs: 0)?.free, is: 1)
        dispatch.cameBack(0, isSuspect: true)
        dispatch.cameBack(0, isSuspect: false)
        dispatch.becomeReady(slots[0], first: true, in: &store, nowNs: 8)
        expect(dispatch.next(0, from: &store), is: slots[0])
        dispatch.remove(slots[2], from: &store)
        expect(dispatch.ready(0), is: 0)
    }

    @Test("Streams go round the topics by weight, however many there are; only those with something ready count")
    func shares() {
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

    @Test("A pause is over in the order in which pauses began, and wakes the machine")
    func backOff() {
        var store = NotificationStore.forTests()
        var dispatch = Self.make(.named("shop"), capacity: 2)
        let slots = [store.add("a"), store.add("b"), store.add("c")]
        for (place, slot) in slots.enumerated() { dispatch.backOff(slot, in: &store, nowNs: Int64(place)) }
        dispatch.remove(slots[0], from: &store)
        expect(dispatch.nextDeadlineNs(in: store, nowNs: 0), is: 1 + Dispatch.backOffNs)
        expect(dispatch.nextBackedOff(in: &store, nowNs: Dispatch.backOffNs), is: nil)
        expect(dispatch.nextBackedOff(in: &store, nowNs: Dispatch.backOffNs + 2), is: slots[1])
        expect(dispatch.nextBackedOff(in: &store, nowNs: Dispatch.backOffNs + 2), is: slots[2])
        expect(dispatch.nextDeadlineNs(in: store, nowNs: 0), is: nil)
    }

    @Test("A rate limit gives no more than its burst, suspects included, and says when the next may go")
    func rateLimit() {
        var store = NotificationStore.forTests()
        var dispatch = Self.make(.named("shop", rateLimit: 100), capacity: 1_000)
        let slots = (0..<20).map { _ in store.add("a") }
        for slot in slots { dispatch.becomeReady(slot, first: false, in: &store, nowNs: 0) }
        let room = dispatch.freeStreams(0, nowNs: 0)
        expect(room?.most, is: 6)
        dispatch.handed(0, 6, suspects: 6, nowNs: 0)
        expect(dispatch.freeStreams(0, nowNs: 0) == nil, is: true)
        expect(dispatch.nextDeadlineNs(in: store, nowNs: 0) ?? 0 > 0, is: true)
        dispatch.remove(0)
        expect(dispatch.nextDeadlineNs(in: store, nowNs: 0), is: nil)
    }
}

@Suite("Room")
struct RoomTests {
    @Test("What is taken is given back, whatever it was")
    func givenBack() {
        var store = NotificationStore.forTests()
        var room = Room(mostOpen: 10, mostBytes: 10_000)
        room.addApp()
        let group = room.group(of: "requests", weight: 3)
        expect(group.isNew, is: true)
        expect(room.group(of: "requests", weight: 5).isNew, is: false)
        expect(room.weights, is: [1, 5])
        room.setRead(true, group.group)
        let slot = store.add("a", group: Int32(group.group))
        room.take(group: group.group, app: 0)
        room.takeRecord(640, group: group.group, app: 0)
        room.takeBytes(100, for: slot, in: &store)
        expect(room.isEmpty, is: false)
        expect(room.countedBytes, is: 100)
        room.giveBackBytes(slot, in: &store)
        room.giveBackBytes(slot, in: &store)
        room.giveBackBlock(640, group: group.group, app: 0)
        expect(room.isEmpty, is: false)
        room.giveBack(group: group.group, app: 0)
        expect(room.isEmpty, is: true)
    }

    @Test("Topics that come and go share as many groups as there are at once, and none that is needed")
    func recycled() {
        var room = Room(mostOpen: 10, mostBytes: 10_000)
        room.addApp()
        for round in 0..<1_000 {
            let (group, isNew) = room.group(of: "topic\(round)", weight: round % 7 + 1)
            expect([group, room.weights.count, room.weights[group]], is: [1, 2, round % 7 + 1])
            expect(isNew, is: round == 0)
        }
        // Read; or with something open; or of a partition that is there, though nothing is read of it.
        room.setRead(true, 1)
        expect(room.group(of: "other", weight: 1).group, is: 2)
        room.setRead(false, 1)
        room.take(group: 1, app: 0)
        expect(room.group(of: "another", weight: 1, kept: [2]).group, is: 3)
        room.giveBack(group: 1, app: 0)
        room.takeBlock(64, group: 1, app: 0)
        expect(room.group(of: "one more", weight: 1, kept: [2, 3]).group, is: 4)
        room.giveBackBlock(64, group: 1, app: 0)
        expect(room.group(of: "the last", weight: 1, kept: [2, 3, 4]).group, is: 1)
        expect(room.hasGroup("topic999"), is: false)
        expect(room.group(of: "other", weight: 9).group, is: 2)
    }

    @Test("An app is full with half of the room, and its share is waited for so long")
    func full() {
        var room = Room(mostOpen: 4, mostBytes: 10_000)
        room.addApp()
        room.take(group: 0, app: 0)
        expect(room.isFull(app: 0), is: false)
        expect(room.shareWaitEndNs(app: 0, oldestNs: 5), is: nil)
        room.take(group: 0, app: 0)
        expect(room.isFull(app: 0), is: true)
        expect(room.shareWaitEndNs(app: 0, oldestNs: nil), is: nil)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10), is: false)
        expect(room.shareWaitEndNs(app: 0, oldestNs: nil), is: 10 + Room.shareWaitNs)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10 + Room.shareWaitNs), is: true)
        room.endFull(app: 0)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10 + Room.shareWaitNs), is: false)
        // The oldest that waits for a stream is what counts, where one does.
        expect(room.hasWaitedForShare(app: 0, oldestNs: 0, nowNs: Room.shareWaitNs), is: true)
    }
}

@Suite("Settlement")
struct SettlementTests {
    @Test("A notification is settled once all of its records are acknowledged")
    func settled() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slot = store.add("a")
        store.move(slot, to: .concluded)
        let id = store.id(of: slot)
        settlement.produce(slot, .unregistered, in: &store)
        settlement.produce(slot, .result, in: &store)
        expect(settlement.count, is: 2)
        let result = settlement.next(for: .results, in: store)
        let token = settlement.next(for: .unregistered, in: store)
        expect(result.map { settlement.produced($0, in: &store) }, is: false)
        expect(token.map { settlement.produced($0, in: &store) }, is: true)
        expect(settlement.acknowledged(id, in: &store), is: false)
        expect(settlement.acknowledged(id, in: &store), is: true)
        expect(settlement.acknowledged(id, in: &store), is: nil)
    }

    @Test("A dead token is taken back where its result waits as well, and what was queued for it is void")
    func deadTokens() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slots = [store.add("a"), store.add("b")]
        for slot in slots {
            store.move(slot, to: .concluded)
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

    @Test("What waits for a tier that cannot be written goes to one that can")
    func tiers() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slot = store.add("a")
        store.move(slot, to: .concluded)
        settlement.produce(slot, .retry(tier: 0), in: &store)
        _ = settlement.setWritable(.retry(tier: 0), false)
        settlement.emptyUnwritableTiers(in: &store, nowMs: 1_000)
        expect(settlement.next(for: .retry(tier: 0), in: store), is: nil)
        expect(settlement.next(for: .retry(tier: 1), in: store)?.id.slot, is: slot)
        expect(store[slot].dueMs, is: 901_000)
    }
}

@Suite("Assignments")
struct PartitionTableTests {
    private static func partition(_ id: PartitionID) -> Partition {
        Partition(
            id: id, topic: "requests", number: Int32(id.slot.number), group: 0, tierDelayMs: 0,
            ledger: PartitionLedger(committed: nil, map: CommitMap()), reach: Reach(minimum: 1), metadataLimit: 100)
    }

    @Test("A slot is used again, a name is not; and there may be many")
    func names() {
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
