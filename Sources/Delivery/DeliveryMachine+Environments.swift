import PushRecords

// A device token belongs to one environment, and only APNs can tell which: the other one calls it bad. An app whose
// tokens are mixed has a companion, an app of the other environment (`AppRoute.otherEnvironment`), to which such a
// notification goes once. From then on it is one of that app: its connections, its circuits, its retry tiers. Where it
// was first is in its record.
extension DeliveryMachine {
    /// Whether another environment has been asked about the token, or can be.
    func hasOtherEnvironment(_ slot: NotificationSlot) -> Bool {
        let record = store[slot].record
        if store[slot].app != store[bodyOf: record].firstApp { return true }
        return apps.other(Int(store[slot].app)) != nil && !store[bodyOf: record].isBroadcast
    }

    /// Sends on what its app calls a bad token, and says whether it did. What both call so is the first one's again, to
    /// be decided there.
    mutating func sendOn(_ slot: NotificationSlot) -> Bool {
        let app = Int(store[slot].app)
        let first = store[bodyOf: store[slot].record].firstApp
        guard store[slot].app == first else {
            store[slot].isBadInBoth = true
            if first >= 0 { change(slot, to: Int(first)) }
            dispatch.watchToken(Int(store[slot].app), isBad: true, isProof: false, journal: &journal)
            return false
        }
        guard let other = apps.other(app) else { return false }
        journal.counters.apps[app].sentOn &+= 1
        // The records' bytes stay the first one's: with what waits for the other they would fill the room of its topic.
        let isFull = apps.areMany && (room.isFull(app: other) || room.areBytesFull(of: app))
        change(slot, to: other)
        store[slot].resends = 0
        store[slot].resentFor = .none
        if !isSending(slot) {
            giveUp(slot)
        } else if let cause = causeToHold(slot) {
            hold(slot, cause)
        } else if isFull {
            // What an app is given by another must not take the room of all.
            hold(slot, .share)
        } else if settings.ordering == .device {
            joinDeviceQueue(slot)
        } else {
            dispatch.becomeReady(slot, first: false, in: &store, nowNs: now.ns)
        }
        return true
    }

    /// It is another app's from now on, and in no device queue.
    private mutating func change(_ slot: NotificationSlot, to app: Int) {
        breakers.endProbe(slot, in: store)
        leaveDeviceQueue(slot)
        room.move(slot, to: app, in: store)
        store[slot].app = Int32(app)
    }

    /// For its result: the environment that called the token bad before, where it is not the one that is named.
    @inline(__always)
    func triedEnvironment(_ slot: NotificationSlot) -> PushEnvironment? {
        guard store[slot].app != store[bodyOf: store[slot].record].firstApp, store[slot].app >= 0 else { return nil }
        return switch apps.route(Int(store[slot].app)).environment {
        case .production: .development
        case .development: .production
        }
    }

    /// For its retry record: the name of the app that called the token bad before; empty: none did. A name that is not
    /// known here is one that no app can have, so that it is sent on no more.
    func triedApp(_ slot: NotificationSlot) -> UnsafeRawBufferPointer {
        let first = store[bodyOf: store[slot].record].firstApp
        if first == store[slot].app { return UnsafeRawBufferPointer(start: nil, count: 0) }
        return first >= 0 ? directory.bytes(ofName: apps.route(Int(first)).name) : StaticString("?").lentBytes
    }
}
