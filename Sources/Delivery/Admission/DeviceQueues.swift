import PushRecords

/// The queues of devices, with `ordering: device`: one notification of a device is under way, the next one when that
/// has ended. It says who is first, and so has its turn; what then becomes of it is the machine's.
///
/// A queue is a list through the notifications (`queueNext`), whose first one knows its end and its length.
struct DeviceQueues: ~Copyable {
    /// What became of a notification that asked for its place.
    enum Entry {
        /// The first of its device: it has its turn.
        case first
        /// It waits for those before it.
        case behind
        /// The queue is full, and has turned away so many before since it formed.
        case full(turnedAway: UInt16)
    }

    private var heads = DeviceTable()
    private var slowed = SlowedDevices()
    /// Of each app, the one whose queues its devices have: the first with its name and environment, so that one that
    /// was taken out of the configuration and came back waits for what is in flight since before.
    private var queueApps: [Int32] = []
    private let seed: UInt64
    private let limit: Int

    /// - Parameters:
    ///   - seed: of the hash of devices.
    ///   - limit: notifications of one device.
    init(seed: UInt64, limit: Int) {
        self.seed = seed
        self.limit = min(limit, Int(UInt16.max))
    }

    /// Queues with somebody in them.
    var count: Int { heads.count }

    /// The next app, which has its queues with this one of before; `nil`: it has its own.
    mutating func addApp(sharing queueApp: Int?) { queueApps.append(Int32(queueApp ?? queueApps.count)) }

    // MARK: In and out

    /// The first in the queue of this notification's device, which is hashed for it; `nil`: nobody is there.
    mutating func head(for slot: NotificationSlot, in store: inout NotificationStore) -> NotificationSlot? {
        let queueApp = queueApps[Int(store[slot].app)]
        let seed = seed ^ UInt64(truncatingIfNeeded: queueApp) &* 0x9E37_79B9_7F4A_7C15
        let hash = UInt32(truncatingIfNeeded: BytesHash.hash(store[slot].token, seed: seed) >> 16)
        store[slot].deviceHash = hash
        return head(hash: hash, token: store[slot].token, queueApp: queueApp, in: store)
    }

    private func head(
        hash: UInt32, token: UnsafeRawBufferPointer, queueApp: Int32, in store: borrowing NotificationStore
    ) -> NotificationSlot? {
        heads.head(hash: hash) { head in
            queueApps[Int(store[head].app)] == queueApp && BytesHash.isEqual(store[head].token, token)
        }
    }

    /// Enters a notification behind the head that was found for it, unless the queue is full.
    mutating func enter(_ slot: NotificationSlot, behind head: NotificationSlot?, in store: inout NotificationStore)
        -> Entry
    {
        guard let head else {
            store[slot].isInDeviceQueue = true
            store[slot].queueTail = slot
            store[slot].queueCount = 1
            heads.insert(hash: store[slot].deviceHash, head: slot)
            return .first
        }
        guard Int(store[head].queueCount) < limit else {
            defer { store[head].queueTurnedAway.countUp() }
            return .full(turnedAway: store[head].queueTurnedAway)
        }
        store[slot].isInDeviceQueue = true
        store.move(slot, to: .queued)
        store[store[head].queueTail].queueNext = slot
        store[head].queueTail = slot
        store[head].queueCount += 1
        return .behind
    }

    /// Takes a notification out of its queue, if it is in one. Its token must still be there.
    ///
    /// - Returns: whose turn it is now; `nil`: nobody's, or it is still the same one's.
    mutating func leave(_ slot: NotificationSlot, in store: inout NotificationStore) -> NotificationSlot? {
        guard store[slot].isInDeviceQueue else { return nil }
        store[slot].isInDeviceQueue = false
        let hash = store[slot].deviceHash
        let next = store[slot].queueNext
        if store[slot].state == .queued {
            leaveMiddle(slot, hash: hash, next: next, in: &store)
            return nil
        }
        guard next != .none else {
            heads.remove(hash: hash, head: slot)
            return nil
        }
        store[next].queueTail = store[slot].queueTail
        store[next].queueCount = store[slot].queueCount - 1
        store[next].queueTurnedAway = store[slot].queueTurnedAway
        store[slot].queueNext = .none
        heads.replace(hash: hash, head: slot, by: next)
        return next
    }

    /// A queue has at most `limit` notifications, and this happens when a partition is given up only.
    private mutating func leaveMiddle(
        _ slot: NotificationSlot, hash: UInt32, next: NotificationSlot, in store: inout NotificationStore
    ) {
        let queueApp = queueApps[Int(store[slot].app)]
        guard let head = head(hash: hash, token: store[slot].token, queueApp: queueApp, in: store) else {
            preconditionFailure("a device queue has a head")
        }
        var previous = head
        while store[previous].queueNext != slot { previous = store[previous].queueNext }
        store[previous].queueNext = next
        if next == .none { store[head].queueTail = previous }
        store[head].queueCount -= 1
        store[slot].queueNext = .none
    }

    // MARK: Slowed

    /// Apple has had too many notifications for this device: its next one waits.
    ///
    /// - Parameter untilNs: not before any given before.
    mutating func slow(_ slot: NotificationSlot, untilNs: Int64, in store: borrowing NotificationStore) {
        guard store[slot].isInDeviceQueue else { return }
        slowed.slow(store[slot].deviceHash, untilNs: untilNs)
    }

    @inline(__always)
    func isSlowed(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        !slowed.isEmpty && slowed.contains(store[slot].deviceHash)
    }

    /// Forgets who was slowed for long enough.
    mutating func expire(_ nowNs: Int64) {
        if !slowed.isEmpty { slowed.expire(nowNs) }
    }
}
