import PushRecords

/// The queue of each device, used with `ordering: device`. One notification of a device is sent at a time, and the next
/// one after the previous one has left the queue. The queues determine only the order of sends.
///
/// A queue is a list linked through the notifications (`DeviceLink`). The queue's head stores the tail and the length.
struct DeviceQueues: ~Copyable {
    /// The result of adding a notification to its device's queue.
    enum Entry {
        /// The queue was empty. The notification may be sent.
        case first
        /// The notification waits for the notifications before it in the queue.
        case behind
        /// The queue is full, so the notification must be deferred. `turnedAway` is the number of notifications that
        /// were deferred before for this reason, since the queue formed.
        case full(turnedAway: UInt16)
    }

    private(set) var heads = Table()
    /// For each app, the app whose device queues it uses: the first app with the same name and environment. If an app
    /// is removed and added again, its new notifications therefore wait for the old ones that are still in flight.
    private var queueApps: [Int32] = []
    private let seed: UInt64
    private let limit: Int

    /// - Parameters:
    ///   - seed: The seed of the hash of devices.
    ///   - limit: The maximum number of notifications in one queue.
    init(seed: UInt64, limit: Int) {
        self.seed = seed
        self.limit = min(limit, Int(UInt16.max))
    }

    /// Adds the next app. The app shares the device queues of an earlier app, or gets separate ones.
    mutating func addApp(sharing queueApp: Int?) { queueApps.append(Int32(queueApp ?? queueApps.count)) }

    // MARK: Adding and removing

    /// Returns the head of the queue of the notification's device. The notification must have the device's hash.
    @inline(__always)
    private func head(for slot: NotificationSlot, in store: borrowing NotificationStore) -> NotificationSlot? {
        let (token, queueApp) = (store[slot].token, queueApps[Int(store[slot].app)])
        return heads.head(hash: store[slot].queue.hash) { head in
            queueApps[Int(store[head].app)] == queueApp && store[head].token.isEqual(to: token)
        }
    }

    /// Adds a notification to the queue of its device, unless the queue is full.
    mutating func enter(_ slot: NotificationSlot, in store: inout NotificationStore) -> Entry {
        let queueApp = queueApps[Int(store[slot].app)]
        let seed = seed ^ UInt64(truncatingIfNeeded: queueApp) &* 0x9E37_79B9_7F4A_7C15
        let hash = UInt32(truncatingIfNeeded: store[slot].token.hash(seed: seed) >> 16)
        store[slot].queue.hash = hash
        guard let head = head(for: slot, in: store) else {
            store[slot].isInDeviceQueue = true
            store[slot].queue.tail = slot
            store[slot].queue.count = 1
            store[slot].queue.turnedAway = 0
            heads.insert(hash: hash, head: slot)
            return .first
        }
        guard Int(store[head].queue.count) < limit else {
            defer { store[head].queue.turnedAway.countUp() }
            return .full(turnedAway: store[head].queue.turnedAway)
        }
        store[slot].isInDeviceQueue = true
        store[slot].state = .queued
        store[store[head].queue.tail].queue.next = slot
        store[head].queue.tail = slot
        store[head].queue.count += 1
        return .behind
    }

    /// Removes a notification from its device's queue, if it is in that queue. The notification must still have its
    /// token.
    ///
    /// - Returns: The next notification of the device, if the removed one was the head.
    mutating func leave(_ slot: NotificationSlot, in store: inout NotificationStore) -> NotificationSlot? {
        guard store[slot].isInDeviceQueue else { return nil }
        store[slot].isInDeviceQueue = false
        if store[slot].state == .queued {
            leaveMiddle(slot, in: &store)
            return nil
        }
        let hash = store[slot].queue.hash
        let next = store[slot].queue.next
        guard next != .none else {
            heads.remove(hash: hash, head: slot)
            return nil
        }
        store[next].queue.tail = store[slot].queue.tail
        store[next].queue.count = store[slot].queue.count - 1
        store[next].queue.turnedAway = store[slot].queue.turnedAway
        store[slot].queue.next = .none
        heads.replace(hash: hash, head: slot, by: next)
        return next
    }

    /// Removes a notification that is not the head of its queue, in O(queue length). This is rare: it happens when
    /// waiting notifications are deferred, have to wait for the send horizon, or are dropped.
    private func leaveMiddle(_ slot: NotificationSlot, in store: inout NotificationStore) {
        guard let head = head(for: slot, in: store) else {
            preconditionFailure("A device queue must have a head in the table")
        }
        let next = store[slot].queue.next
        var previous = head
        while store[previous].queue.next != slot { previous = store[previous].queue.next }
        store[previous].queue.next = next
        if next == .none { store[head].queue.tail = previous }
        store[head].queue.count -= 1
        store[slot].queue.next = .none
    }
}

extension DeviceQueues {
    /// A hash table of the heads of all device queues, with open addressing and linear probing. An entry has eight
    /// bytes, and the table is at most half full. Removing a head moves later entries up instead of leaving a
    /// tombstone.
    struct Table: ~Copyable {
        struct Entry {
            var hash: UInt32
            /// The first notification of the device's queue, or `.none` if the entry is empty.
            var head: NotificationSlot
        }

        private var entries: UnsafeMutablePointer<Entry>
        private var mask: UInt32
        private(set) var count = 0

        init(capacity: Int = 1_024) {
            precondition(capacity > 0 && capacity & (capacity - 1) == 0, "The capacity must be a power of two")
            entries = .allocate(capacity: capacity)
            entries.initialize(repeating: Entry(hash: 0, head: .none), count: capacity)
            mask = UInt32(capacity - 1)
        }

        deinit { entries.deallocate() }

        /// Returns the head of the device queue with this hash for which `isSame` returns true.
        @inline(__always)
        func head(hash: UInt32, isSame: (NotificationSlot) -> Bool) -> NotificationSlot? {
            var index = hash & mask
            while true {
                let entry = entries[Int(index)]
                if entry.head == .none { return nil }
                if entry.hash == hash, isSame(entry.head) { return entry.head }
                index = (index + 1) & mask
            }
        }

        mutating func insert(hash: UInt32, head: NotificationSlot) {
            if (count + 1) * 2 > Int(mask) + 1 { grow() }
            put(Entry(hash: hash, head: head))
            count += 1
        }

        /// Replaces the head of a device queue with the next notification of that queue.
        mutating func replace(hash: UInt32, head: NotificationSlot, by next: NotificationSlot) {
            entries[Int(index(hash: hash, head: head))].head = next
        }

        mutating func remove(hash: UInt32, head: NotificationSlot) {
            var hole = index(hash: hash, head: head)
            count -= 1
            var index = hole
            while true {
                index = (index + 1) & mask
                let entry = entries[Int(index)]
                if entry.head == .none { break }
                // The entry may move up unless its home index lies between the hole and its current index.
                let home = entry.hash & mask
                if (index &- home) & mask >= (index &- hole) & mask {
                    entries[Int(hole)] = entry
                    hole = index
                }
            }
            entries[Int(hole)].head = .none
        }

        private func index(hash: UInt32, head: NotificationSlot) -> UInt32 {
            var index = hash & mask
            while entries[Int(index)].head != head {
                precondition(entries[Int(index)].head != .none, "The head of a device queue must be in the table")
                index = (index + 1) & mask
            }
            return index
        }

        private mutating func put(_ entry: Entry) {
            var index = entry.hash & mask
            while entries[Int(index)].head != .none { index = (index + 1) & mask }
            entries[Int(index)] = entry
        }

        private mutating func grow() {
            let old = entries
            let oldCapacity = Int(mask) + 1
            entries = .allocate(capacity: oldCapacity * 2)
            entries.initialize(repeating: Entry(hash: 0, head: .none), count: oldCapacity * 2)
            mask = UInt32(oldCapacity * 2 - 1)
            for index in 0..<oldCapacity where old[index].head != .none { put(old[index]) }
            old.deallocate()
        }
    }
}
