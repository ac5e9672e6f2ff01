import PushRecords
import Testing

@testable import Delivery

// Tests of parts of the machine that the tests of the whole machine do not reach.

extension NotificationStore {
    /// Adds a notification for this device with its own record, as admission does.
    fileprivate mutating func add(_ device: StaticString, group: Int) -> NotificationSlot {
        let record = takeRecord()
        self[record] = Record()
        self[record].group = Int32(group)
        self[record].count = 1
        self[record].cursor.index = 1
        let slot = take(of: record, index: 0, app: 0)
        self[slot].token = device.lentBytes
        return slot
    }
}

struct ReadyQueuesTests {
    @Test
    func `Streams are distributed by weight between any number of topics with ready notifications`() {
        var store = NotificationStore(MachineSettings())
        var ready = Dispatch.ReadyQueues()
        store.budget.addApp()
        for group in 0..<150 {
            // A group that is not read would be reused.
            if group > 0 { store.budget.setRead(true, store.budget.group(of: "\(group)", weight: 1)) }
            ready.setWeight(group == 140 ? 2 : 1, of: group)
        }
        expect(ready.removeFirst(from: &store), is: nil)
        var waiting: [NotificationSlot: Int] = [:]
        for group in [3, 63, 64, 140] {
            for _ in 0..<4 {
                let slot = store.add("a", group: group)
                ready.insert(slot, group: group, first: false, in: &store)
                waiting[slot] = group
            }
        }
        var order: [Int] = []
        while let slot = ready.removeFirst(from: &store) { order.append(waiting[slot] ?? -1) }
        expect(order, is: [3, 63, 64, 140, 140, 3, 63, 64, 140, 140, 3, 63, 64, 3, 63, 64])
        expect(ready.count, is: 0)
        expect(ready.oldestNs(in: store), is: nil)
        // Removing a notification leaves its queue empty. A notification added later waits no longer than others.
        let slot = store.add("a", group: 64)
        ready.insert(slot, group: 64, first: false, in: &store)
        ready.remove(slot, group: 64, from: &store)
        expect(ready.removeFirst(from: &store), is: nil)
        ready.insert(slot, group: 64, first: true, in: &store)
        expect(ready.removeFirst(from: &store), is: slot)
    }
}
