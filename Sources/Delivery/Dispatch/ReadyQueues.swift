/// The notifications of one app that wait for a free stream, with a queue for each topic group (a request topic, or all
/// retry topics). Streams are assigned by weight (stride scheduling): each queue has a clock that advances more slowly
/// with a higher weight, and the queue with the earliest clock is next.
struct ReadyQueues {
    struct Queue {
        var list = NotificationList()
        var clock: UInt64 = 0
        var stride: UInt64 = ReadyQueues.unit
    }
    private static let unit: UInt64 = 1 << 20

    private(set) var queues: [Queue] = []
    /// A bit for each queue, 64 per word, set if the queue is not empty. Only queues with a set bit are searched.
    private(set) var occupied: [UInt64] = []
    /// The clock of the queue from which the last notification was taken.
    private var clock: UInt64 = 0
    private(set) var count = 0

    mutating func addGroup(weight: Int) {
        queues.append(Queue(stride: max(1, Self.unit / UInt64(max(1, weight)))))
        if queues.count > 64 * occupied.count { occupied.append(0) }
    }

    mutating func setWeight(_ weight: Int, of group: Int) {
        queues[group].stride = max(1, Self.unit / UInt64(max(1, weight)))
    }

    mutating func append(_ slot: NotificationSlot, group: Int, in store: inout NotificationStore) {
        enter(group)
        queues[group].list.append(slot, in: &store)
    }

    /// Adds a notification before all others of its queue, for a resend.
    mutating func prepend(_ slot: NotificationSlot, group: Int, in store: inout NotificationStore) {
        enter(group)
        queues[group].list.prepend(slot, in: &store)
    }

    @inline(__always)
    private mutating func enter(_ group: Int) {
        count += 1
        if queues[group].list.isEmpty {
            queues[group].clock = max(queues[group].clock, clock)
            occupied[group >> 6] |= 1 << UInt64(group & 63)
        }
    }

    @inline(__always)
    mutating func remove(_ slot: NotificationSlot, group: Int, from store: inout NotificationStore) {
        queues[group].list.remove(slot, from: &store)
        count -= 1
        if queues[group].list.isEmpty { occupied[group >> 6] &= ~(1 << UInt64(group & 63)) }
    }

    mutating func removeFirst(from store: inout NotificationStore) -> NotificationSlot? {
        guard count > 0 else { return nil }
        var next = -1
        for word in occupied.indices {
            var left = occupied[word]
            while left != 0 {
                let group = word << 6 | left.trailingZeroBitCount
                left &= left &- 1
                if next < 0 || queues[group].clock < queues[next].clock { next = group }
            }
        }
        clock = queues[next].clock
        queues[next].clock += queues[next].stride
        let slot = queues[next].list.head
        remove(slot, group: next, from: &store)
        return slot
    }

    /// Returns when the longest-waiting head of a queue began to wait, or `nil` if all queues are empty. A notification
    /// behind a head may have begun to wait earlier.
    func oldestNs(in store: borrowing NotificationStore) -> Int64? {
        var oldest: Int64?
        for queue in queues where !queue.list.isEmpty { oldest = min(oldest ?? .max, store[queue.list.head].sinceNs) }
        return oldest
    }
}
