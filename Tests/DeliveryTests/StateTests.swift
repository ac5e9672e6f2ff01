import PushRecords
import Testing

@testable import Delivery

struct StateTests {
    @Test func `An acknowledgement of a notification that is not decided finds none`() {
        var store = NotificationStore.forTests()
        let slot = store.add("a")
        expect(store[slot].state, is: .admitted)
        expect(store.isCurrent(store.id(of: slot)), is: false)
        store.move(slot, to: .concluded(.result(.accepted)))
        expect(store.isCurrent(store.id(of: slot)), is: true)
    }

    @Test func `A notification takes less than three cache lines, since there are tens of thousands`() {
        expect(MemoryLayout<Notification>.stride, is: 144)
    }
}
