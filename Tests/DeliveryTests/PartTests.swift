import PushRecords
import Testing

@testable import Delivery

// Each part of the machine by itself, as far as the tests of the machine do not name it.

struct DeviceQueuesTests {
    private static func enter(
        _ slot: NotificationSlot, _ queues: inout DeviceQueues, _ store: inout NotificationStore
    ) -> String {
        let head = queues.head(for: slot, in: &store)
        return "\(queues.enter(slot, behind: head, in: &store))"
    }

    @Test func `The first has its turn, and each one after it when the one before has left`() {
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

    @Test func `A full queue says how many it has turned away, also when its first one has left`() {
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

    @Test func `Two apps have queues of their own for one device, unless the second is the first, come back`() {
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

    @Test func `A slowed device is one until its time is over`() {
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

struct CircuitBreakersTests {
    private static func journal(ns: Int64 = 0) -> Journal {
        var journal = Journal(counters: DeliveryCounters(apps: 1, tiers: 1))
        journal.now.ns = ns
        return journal
    }

    private static func answer(_ slot: NotificationSlot, _ store: borrowing NotificationStore) -> Completion {
        Completion(id: store.id(of: slot), kind: .answered, status: 200)
    }

    @Test func `A refused credential stops all but one probe, which closes the circuit`() {
        var store = NotificationStore.forTests()
        var breakers = CircuitBreakers()
        var journal = Self.journal()
        breakers.addApp(.named("shop"))
        let first = store.add("a")
        let second = store.add("b")
        expect(breakers.reasonToDefer(first, in: store, nowNs: 0), is: nil)
        expect(
            breakers.fault(first, .invalidProviderToken, handedNs: 0, in: store, journal: &journal), is: .opened)
        expect(breakers.takeOpened(), is: true)
        expect(breakers.takeOpened(), is: false)
        expect(breakers.reasonToDefer(first, in: store, nowNs: 0), is: .credential)
        let later = Circuit.firstDelayNs
        expect(breakers.reasonToDefer(first, in: store, nowNs: later), is: nil)
        expect([first, second].map { breakers.isProbe($0, in: store) }, is: [true, false])
        expect(breakers.probes, is: [store.id(of: first)])
        expect(breakers.reasonToDefer(second, in: store, nowNs: later), is: .credential)
        // A probe that ends without an answer gives its place to another.
        breakers.endProbe(first, in: store)
        expect(breakers.isProbe(first, in: store), is: false)
        expect(breakers.reasonToDefer(second, in: store, nowNs: later), is: nil)
        breakers.note(
            Self.answer(second, store), .accept, for: second, handedNs: later, in: store, journal: &journal)
        expect(breakers.takeFormerProbe(), is: store.id(of: second))
        expect(breakers.takeFormerProbe(), is: nil)
        expect(breakers.isClosed(0) || !breakers.probes.isEmpty || breakers.isGated(0), is: false)
        expect(journal.counters.circuitsOpened, is: 1)
        // The fault, the circuit's opening and its closing.
        expect(journal.events.count, is: 3)
    }

    @Test func `An app without a connection is cut off after its time if there are others, until it has one`() {
        var store = NotificationStore.forTests()
        var breakers = CircuitBreakers()
        var journal = Self.journal(ns: 10)
        breakers.addApp(.named("shop"))
        breakers.setReachable(0, false, journal: &journal)
        expect(breakers.nextCutOffNs, is: .max)
        breakers.addApp(.named("news"))
        breakers.setReachable(0, false, journal: &journal)
        expect(breakers.nextCutOffNs, is: 10 + CircuitBreakers.cutOffNs)
        journal.now.ns = breakers.nextCutOffNs - 1
        breakers.cutOff(isBusy: [false, false], journal: &journal)
        expect([breakers.isCutOff(0), breakers.takeOpened()], is: [false, false])
        journal.now.ns += 1
        breakers.cutOff(isBusy: [false, false], journal: &journal)
        expect([breakers.isCutOff(0), breakers.isCutOff(1), breakers.takeOpened()], is: [true, false, true])
        let slot = store.add("a")
        expect(breakers.reasonToDefer(slot, in: store, nowNs: journal.now.ns), is: .unreachable)
        breakers.setReachable(0, true, journal: &journal)
        expect(breakers.reasonToDefer(slot, in: store, nowNs: journal.now.ns), is: nil)
    }

    /// Two apps; the first is out of reach from 0 on, with a connection from the third second on.
    private static func connectedLate(_ journal: inout Journal) -> CircuitBreakers {
        var breakers = CircuitBreakers()
        breakers.addApp(.named("shop"))
        breakers.addApp(.named("news"))
        breakers.setReachable(0, false, journal: &journal)
        journal.now.ns = 3_000_000_000
        breakers.setConnected(0, true, journal: &journal)
        return breakers
    }

    @Test func `A connection has its time, however long there was none; with nothing to answer it is enough`() {
        var journal = Self.journal()
        var breakers = Self.connectedLate(&journal)
        let dueNs = journal.now.ns + CircuitBreakers.cutOffNs
        expect(breakers.nextCutOffNs, is: dueNs)
        journal.now.ns = dueNs
        breakers.cutOff(isBusy: [false, false], journal: &journal)
        expect(breakers.nextCutOffNs, is: .max)
        expect(breakers.isCutOff(0), is: false)
    }

    @Test func `While an app is cut off one tries the connection that there is, and the transport's word ends it`() {
        var store = NotificationStore.forTests()
        let (first, second) = (store.add("a"), store.add("b"))
        var journal = Self.journal()
        var breakers = Self.connectedLate(&journal)
        journal.now.ns = 20_000_000_000
        breakers.cutOff(isBusy: [true, false], journal: &journal)
        expect(breakers.isCutOff(0), is: true)
        let laterNs = journal.now.ns + Circuit.firstDelayNs
        expect(
            [first, second].map { breakers.reasonToDefer($0, in: store, nowNs: laterNs) }, is: [nil, .unreachable])
        expect(breakers.probes, is: [store.id(of: first)])
        // Without a connection there is nothing to try.
        breakers.setConnected(0, false, journal: &journal)
        expect(breakers.reasonToDefer(first, in: store, nowNs: laterNs), is: .unreachable)
        breakers.setReachable(0, true, journal: &journal)
        expect([breakers.isCutOff(0), breakers.probes.isEmpty], is: [false, true])
        expect(breakers.takeFormerProbe(), is: store.id(of: first))
        expect(breakers.reasonToDefer(second, in: store, nowNs: laterNs), is: nil)
    }

    @Test func `How long an app has been deferred counts per reason, until that ends`() {
        var breakers = CircuitBreakers()
        var journal = Self.journal()
        breakers.addApp(.named("shop"))
        func note(_ reason: DeferralReason, _ nowNs: Int64) -> Int64 {
            journal.now.ns = nowNs
            return breakers.note(reason, of: 0, pauseNs: 100, roundNs: 50, journal: &journal).forNs
        }
        expect([note(.paused, 10), note(.paused, 1_000), note(.device, 1_000)], is: [0, 990, 0])
        // A sporadic reason begins anew after a pause.
        expect([note(.device, 1_100), note(.device, 1_201)], is: [100, 0])
        expect(breakers.deferredSinceNs(0, pauseNs: 100, nowNs: 1_201), is: 10)
        breakers.endDeferral(.paused, of: 0)
        expect(breakers.deferredSinceNs(0, pauseNs: 100, nowNs: 1_201), is: 1_201)
        expect(breakers.deferredSinceNs(0, pauseNs: 100, nowNs: 1_302), is: nil)
    }
}

struct DispatchTests {
    private static func make(_ route: AppRoute, capacity: Int) -> Dispatch {
        var dispatch = Dispatch()
        dispatch.addApp(route, weights: [1])
        dispatch.setCapacity(0, capacity)
        return dispatch
    }

    @Test func `As many as the transport takes, suspects beside them; what was sent before goes first`() {
        var store = NotificationStore.forTests()
        var dispatch = Self.make(.named("shop"), capacity: 2)
        expect(dispatch.freeStreams(0, nowNs: 0) == nil, is: true)
        let slots = [store.add("a"), store.add("b"), store.add("c")]
        for slot in slots { dispatch.becomeReady(slot, first: false, in: &store, nowNs: 7) }
        expect(dispatch.oldestNs(0, in: store), is: 7)
        expect(dispatch.freeStreams(0, nowNs: 0)?.free, is: 2)
        expect(dispatch.next(0, from: &store), is: slots[0])
        expect(dispatch.next(0, from: &store), is: slots[1])
        for slot in slots[..<2] { store.move(slot, to: .handed(atMs: 0)) }
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

    @Test func `A pause is over in the order in which pauses began, and wakes the machine`() {
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

    @Test func `A rate limit gives no more than its burst, suspects included, and says when the next may go`() {
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

struct RoomTests {
    @Test func `What is taken is given back, whatever it was`() {
        var store = NotificationStore.forTests()
        var room = AdmissionBudget(mostOpen: 10, mostBytes: 10_000)
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

    @Test func `Topics that come and go share as many groups as there are at once, and none that is needed`() {
        var room = AdmissionBudget(mostOpen: 10, mostBytes: 10_000)
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

    @Test func `An app is full with half of the room, and its share is waited for so long`() {
        var room = AdmissionBudget(mostOpen: 4, mostBytes: 10_000)
        room.addApp()
        room.take(group: 0, app: 0)
        expect(room.isFull(app: 0), is: false)
        expect(room.shareWaitEndNs(app: 0, oldestNs: 5), is: nil)
        room.take(group: 0, app: 0)
        expect(room.isFull(app: 0), is: true)
        expect(room.shareWaitEndNs(app: 0, oldestNs: nil), is: nil)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10), is: false)
        expect(room.shareWaitEndNs(app: 0, oldestNs: nil), is: 10 + AdmissionBudget.shareWaitNs)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10 + AdmissionBudget.shareWaitNs), is: true)
        room.endFull(app: 0)
        expect(room.hasWaitedForShare(app: 0, oldestNs: nil, nowNs: 10 + AdmissionBudget.shareWaitNs), is: false)
        // The oldest that waits for a stream is what counts, where one does.
        expect(room.hasWaitedForShare(app: 0, oldestNs: 0, nowNs: AdmissionBudget.shareWaitNs), is: true)
    }
}

struct SettlementTests {
    @Test func `A notification is settled once all of its records are acknowledged`() {
        var store = NotificationStore.forTests()
        var settlement = Settlement(MachineSettings())
        let slot = store.add("a")
        store.move(slot, to: .concluded(.result(.unregistered)))
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
