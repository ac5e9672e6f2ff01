@testable package import Delivery
import PushRecords

// The invariants of the machine between any two calls: every count that its parts keep equals the count of a walk over
// all slots and lists. The unit tests and the simulation check them after each step.
extension DeliveryMachine {
    /// Returns the violated invariants as text, empty if all hold. O(slots).
    package func checkInvariants() -> [String] {
        var census = Census(self)
        checkRecords(&census)
        checkDeviceQueues(&census)
        for partition in ledger.slots { check(partition, &census) }
        for partition in ledger.slots where ledger[partition].phase != .suspended {
            census.groups[ledger[partition].group].partitions += 1
        }
        checkRoom(&census)
        checkDispatch(&census)
        checkSettlement(&census)
        checkCircuits(&census)
        return census.broken
    }

    // MARK: Store

    private func checkRecords(_ census: inout Census) {
        var used = census.records
        for partition in ledger.slots {
            ledger[partition].offsets.forEachOpen { _, record in
                if used[record] == nil { used[record] = Census.OfRecord() }
            }
            var next = ledger[partition].firstAdmitting
            while next != .none {
                used[next, default: Census.OfRecord()].holders += 1
                next = store[next].nextAdmitting
            }
        }
        for (slot, found) in used {
            let record = store[slot]
            census.expect(record.unsettled, is: found.unsettled, "unsettled notifications of a record")
            census.expect(record.handed, is: found.handed, "handed notifications of a record")
            // The doubt of a dropped notification stays with its record.
            census.expect(record.doubts >= found.doubts, "a record counts all its notifications in doubt")
            census.expect(record.holders, is: record.body == nil ? record.holders : found.holders, "holders of a body")
            census.expect(
                record.body != nil || found.holders == 0, "a record whose notifications need its body has one")
        }
        census.expect(store.records.count, is: used.count, "records")
        census.expect(store.count, is: census.open, "open notifications")
        census.expect(store.blockBytes, is: census.blockBytes, "bytes of blocks")
    }

    // MARK: Device queues

    private func checkDeviceQueues(_ census: inout Census) {
        var heads = 0
        var members = 0
        for slot in store.slots where store[slot].state != .free && store[slot].isInDeviceQueue {
            // Only the head of a device queue is in another state than queued.
            guard store[slot].state != .queued else { continue }
            heads += 1
            var count = 1
            var last = slot
            while store[last].queue.next != .none, count <= census.open {
                last = store[last].queue.next
                count += 1
                census.expect(
                    store[last].state == .queued && store[last].isInDeviceQueue,
                    "every member of a device queue except its head is queued"
                )
            }
            members += count
            census.expect(Int(store[slot].queue.count), is: count, "length of a device queue")
            census.expect(store[slot].queue.tail == last, "the head of a device queue refers to its tail")
        }
        census.expect(dispatch.devices.heads.count, is: heads, "device queues")
        census.expect(members, is: census.inDeviceQueues, "members of device queues")
    }

    // MARK: Ledger

    private func check(_ partition: PartitionSlot, _ census: inout Census) {
        let found = census.partitions[Int(partition.number)]
        census.expect(ledger[partition].open, is: found.open, "open notifications of a partition")
        census.expect(ledger[partition].deadLetters, is: found.deadLetters, "dead letters of a partition")
        let behind = check(ledger[partition].behindHorizon, "behind the horizon", &census) { $0 == .behindHorizon }
        census.expect(behind, is: found.behindHorizon, "notifications behind the horizon")

        var last: Int64 = -1
        var openRecords = 0
        var fanOuts = 0
        ledger[partition].offsets.forEachOpen { offset, record in
            census.expect(offset > last && offset == store[record].offset, "open records ascend by offset")
            census.expect(store[record].partition == partition, "an open record refers to its partition")
            if openRecords == 0 {
                census.expect(
                    ledger[partition].offsets.committable == offset, "the watermark is the oldest open record"
                )
            }
            last = offset
            openRecords += 1
            if store[record].count > 1 { fanOuts += 1 }
        }
        census.expect(ledger[partition].offsets.openCount, is: openRecords, "open records")
        census.expect(ledger[partition].fanOuts, is: fanOuts, "open fan-outs")
        let watermark = ledger[partition].offsets.committable
        census.expect(
            last <= ledger[partition].offsets.highestReceived,
            "every open record is at or below the highest received offset")
        if let committed = ledger[partition].committed {
            census.expect(committed <= watermark ?? -1, "the committed offset is at or below the watermark")
        }
        if let pending = ledger[partition].pending {
            census.expect(
                pending.mark.offset <= watermark ?? -1, "the commit in flight is at or below the watermark")
            let flight = ledger.commits[ledger[partition].flight]
            census.expect(
                flight.isInFlight && flight.entries.contains { $0.partition == ledger[partition].id },
                "a pending commit is an entry of its commit in flight")
        }
        checkAdmission(partition, &census)
    }

    private func checkAdmission(_ partition: PartitionSlot, _ census: inout Census) {
        var last = RecordSlot.none
        var next = ledger[partition].firstAdmitting
        while next != .none {
            census.expect(
                store[next].partition == partition && !store[next].isDropped,
                "an admitting record belongs to its list's partition and is not dropped")
            last = next
            next = store[next].nextAdmitting
        }
        census.expect(ledger[partition].lastAdmitting == last, "the list of admitting records ends with its last one")
    }

    // MARK: Room

    private func checkRoom(_ census: inout Census) {
        for (app, found) in census.apps.enumerated() {
            census.expect(store.budget.apps[app].open, is: found.open, "open notifications of an app")
            census.expect(store.budget.apps[app].bytes, is: found.bytes, "bytes of an app")
        }
        for (group, found) in census.groups.enumerated() {
            census.expect(
                store.budget.notifications.groups[group].used, is: found.open, "open notifications of a group")
            census.expect(store.budget.bytes.groups[group].used, is: found.bytes, "bytes of a group")
            census.expect(
                store.budget.notifications.groups[group].partitions, is: found.partitions, "partitions of a group")
        }
        census.expect(store.countedBytes, is: census.countedBytes, "counted bytes")
        for shares in [store.budget.notifications, store.budget.bytes] {
            census.expect(shares.used, is: shares.groups.reduce(0) { $0 + $1.used }, "use of all groups")
            census.expect(
                shares.sharedUsed, is: shares.groups.reduce(0) { $0 + max(0, $1.used - $1.reserved) },
                "use beyond the reserves")
        }
    }

    // MARK: Dispatch

    private func checkDispatch(_ census: inout Census) {
        for (app, found) in census.apps.enumerated() {
            census.expect(dispatch.apps[app].outstanding, is: found.outstanding, "requests at an app's transport")
            census.expect(dispatch.apps[app].quarantined, is: found.quarantined, "suspects at an app's transport")
            census.expect(dispatch.apps[app].ready.count, is: found.ready, "ready notifications of an app")
            var waiting = 0
            for (group, queue) in dispatch.apps[app].ready.queues.enumerated() {
                waiting += check(queue.list, "ready", &census) { $0 == .ready }
                let isOccupied = dispatch.apps[app].ready.occupied[group >> 6] >> UInt64(group & 63) & 1 == 1
                census.expect(
                    queue.list.isEmpty != isOccupied, "exactly the queues that are not empty are marked as occupied")
            }
            census.expect(waiting, is: found.ready, "ready notifications in the queues of an app")
        }
        census.expect(
            check(dispatch.backingOff, "backing off", &census) { if case .backingOff = $0 { true } else { false } },
            is: census.backingOff, "notifications that back off")
    }

    /// Checks the links and states of a list. Returns its length.
    private func check(
        _ list: Notification.List, _ state: String, _ census: inout Census, _ isInState: (Notification.State) -> Bool
    ) -> Int {
        var count = 0
        var last = NotificationSlot.none
        var next = list.head
        while next != .none, count <= census.open {
            census.expect(store[next].previous == last, "each member of a list refers to the previous one")
            census.expect(isInState(store[next].state), "every member of the list \(state) is in that state")
            count += 1
            last = next
            next = store[next].next
        }
        census.expect(list.tail == last, "a list ends with its tail")
        return count
    }

    // MARK: Settlement

    private func checkSettlement(_ census: inout Census) {
        var unproduced: [NotificationSlot: Int] = [:]
        let tiers = (0..<settlement.tiers.count).map { ProductionTarget.retry(tier: $0) }
        for target in [.results, .unregistered] + tiers {
            for position in settlement.productions[target].head..<settlement.productions[target].tail {
                let id = settlement.productions[target][position]
                if store.isCurrent(id) { unproduced[id.slot, default: 0] += 1 }
            }
        }
        for slot in store.slots where store[slot].state.isConcluded {
            census.expect(unproduced[slot] ?? 0, is: Int(store[slot].unproduced), "productions that wait")
            census.expect(
                store[slot].unacknowledged > 0 && store[slot].unacknowledged >= store[slot].unproduced,
                "a concluded notification waits for an acknowledgement")
        }
    }

    // MARK: Circuits

    private func checkCircuits(_ census: inout Census) {
        for app in apps.indices {
            let breaker = dispatch.breakers.apps[app]
            for probe in breaker.circuits.values.compactMap(\.probe) {
                census.expect(
                    store[probe.slot].generation == probe.generation && store[probe.slot].state != .free
                        && dispatch.breakers.circuit(probedBy: probe.slot, in: store) != nil,
                    "a circuit's probe exists and is a probe of its app")
            }
            census.expect(
                breaker.isGated == (breaker.isRemoved || breaker.isPaused || !breaker.circuits.isEmpty),
                "an app is gated exactly if it is paused or removed or has an open circuit")
        }
    }
}

/// The counts that a walk over all slots of a machine finds.
private struct Census {
    struct OfApp {
        var open = 0
        var bytes = 0
        var ready = 0
        var outstanding = 0
        var quarantined = 0
    }

    struct OfGroup {
        var open = 0
        var bytes = 0
        var partitions = 0
    }

    struct OfPartition {
        var open = 0
        var deadLetters = 0
        var behindHorizon = 0
    }

    struct OfRecord {
        var unsettled: Int32 = 0
        var handed: Int32 = 0
        var doubts: Int32 = 0
        var holders: Int32 = 0
    }

    var open = 0
    var inDeviceQueues = 0
    var backingOff = 0
    var blockBytes = 0
    var countedBytes = 0
    var apps: [OfApp]
    var groups: [OfGroup]
    var partitions: [OfPartition]
    /// The counts of each record with open notifications.
    var records: [RecordSlot: OfRecord] = [:]
    var broken: [String] = []

    init(_ machine: borrowing DeliveryMachine) {
        apps = Array(repeating: OfApp(), count: machine.apps.count)
        groups = Array(repeating: OfGroup(), count: machine.store.budget.notifications.groups.count)
        partitions = Array(repeating: OfPartition(), count: machine.ledger.count)
        for slot in machine.store.slots where machine.store[slot].state != .free {
            count(slot, machine.store)
        }
        for record in machine.store.recordSlots {
            guard let body = machine.store[record].body else { continue }
            take(
                body.pointee.blockSize, app: Int(body.pointee.app),
                group: Int(machine.store[record].group))
        }
    }

    private mutating func count(_ slot: NotificationSlot, _ store: borrowing NotificationStore) {
        let notification = store[slot]
        let app = Int(notification.app)
        let group = Int(store[recordOf: slot].group)
        open += 1
        groups[group].open += 1
        if app >= 0 { apps[app].open += 1 }
        take(Int(notification.tokenBlockSize), app: app, group: group)
        countedBytes += Int(notification.countedBytes)
        blockBytes -= Int(notification.countedBytes)
        take(Int(notification.countedBytes), app: app, group: group)
        if notification.isInDeviceQueue { inDeviceQueues += 1 }

        records[notification.record, default: OfRecord()].unsettled += 1
        if notification.tries.past == .inDoubt { records[notification.record]?.doubts += 1 }
        switch notification.state {
        case .free: break
        case .admitted: broken.append("a notification is still in the state admitted after a call")
        case .queued: hold(notification)
        case .behindHorizon: hold(notification)
        case .ready:
            hold(notification)
            apps[app].ready += 1
        case .backingOff:
            hold(notification)
            backingOff += 1
        case .handed:
            hold(notification)
            records[notification.record]?.handed += 1
            if notification.isSuspect { apps[app].quarantined += 1 } else { apps[app].outstanding += 1 }
        case .concluded:
            if notification.unproduced > 0 { hold(notification) }
        }

        let partition = store[recordOf: slot].partition
        guard partition != .none else { return }
        partitions[Int(partition.number)].open += 1
        if notification.state == .concluded(.deadLetter) { partitions[Int(partition.number)].deadLetters += 1 }
        if notification.state == .behindHorizon { partitions[Int(partition.number)].behindHorizon += 1 }
        if notification.state == .behindHorizon, notification.isInDeviceQueue {
            broken.append("a notification behind the horizon is in a device queue")
        }
    }

    /// Counts a notification that needs its record's body.
    private mutating func hold(_ notification: Notification) { records[notification.record]?.holders += 1 }

    private mutating func take(_ bytes: Int, app: Int, group: Int) {
        blockBytes += bytes
        groups[group].bytes += bytes
        if app >= 0 { apps[app].bytes += bytes }
    }

    mutating func expect(_ holds: Bool, _ rule: @autoclosure () -> String) { if !holds { broken.append(rule()) } }

    mutating func expect<Value: Equatable>(_ told: Value, is found: Value, _ what: @autoclosure () -> String) {
        if told != found { broken.append("\(what()): \(told) counted, \(found) found") }
    }
}
