/// What waits for a free stream of one app: a queue for each share group (request topic, or all tiers). Streams are
/// given out by weight: each queue has a clock of its own that runs the slower, the more weight it has, and the queue
/// whose clock is behind comes next.
struct ReadyQueues {
    struct Queue {
        var list = NotificationList()
        var clock: UInt64 = 0
        var stride: UInt64 = ReadyQueues.unit
    }
    private static let unit: UInt64 = 1 << 20

    private(set) var queues: [Queue] = []
    /// A bit for each queue that is not empty, 64 to a word: who is served next is looked for among those only.
    private(set) var occupied: [UInt64] = []
    /// The clock of the queue that was served last.
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

    /// Before all that wait: what was sent before goes first.
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

    /// Since when the first of each queue waits: the longest wait, nearly.
    func oldestNs(in store: borrowing NotificationStore) -> Int64? {
        var oldest: Int64?
        for queue in queues where !queue.list.isEmpty { oldest = min(oldest ?? .max, store[queue.list.head].sinceNs) }
        return oldest
    }
}
