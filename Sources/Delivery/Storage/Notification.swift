import PushRecords

/// An open notification. Its size is less than three cache lines. Values that all notifications of a record share are
/// in `Record` and `RecordBody`.
struct Notification {
    enum State: Equatable {
        case free
        /// Admitted, and in no list. The call that sets this state replaces it with another state before it returns.
        case admitted
        /// Waits behind another notification of its device.
        case queued
        /// Waits in the queue of its app for a free stream.
        case ready
        /// Waits until the send horizon is above the notification's record, and is then sent or moved to a retry tier.
        case behindHorizon
        /// Waits until this monotonic time, and is then resent.
        case backingOff(untilNs: Int64)
        /// Handed to a transport at this millisecond of the monotonic clock (wraps). The transport borrows the
        /// notification's bytes until the completion. If the assignment ends earlier, the completion frees the slot.
        case handed(atMs: UInt32)
        /// The outcome is known, and the output records are being produced.
        case concluded(Ending)

        /// Whether the notification waits for its device's queue, a stream, the send horizon, or the end of a pause.
        var isWaiting: Bool {
            switch self {
            case .queued, .ready, .behindHorizon, .backingOff: true
            case .free, .admitted, .handed, .concluded: false
            }
        }

        var isConcluded: Bool { if case .concluded = self { true } else { false } }
    }

    /// The records to write for a concluded notification.
    enum Ending: Equatable {
        case result(Outcome)
        /// A retry record with its due time (wall clock).
        case retry(dueMs: Int64, isAttempt: Bool)
        /// A dead letter, because the record is unreadable. The publisher owns the dead letter's bytes.
        case deadLetter
    }

    /// The links of a notification in its device's queue. `tail`, `count` and `turnedAway` are valid only for the head
    /// of the queue.
    struct DeviceLink {
        var hash: UInt32 = 0
        var next = NotificationSlot.none
        var tail = NotificationSlot.none
        var count: UInt16 = 0
        /// The number of notifications that were deferred because the queue was full, since the queue formed.
        var turnedAway: UInt16 = 0
    }

    /// The reason to move a notification to a retry tier, instead of sending it, once the send horizon is above its
    /// record.
    struct Deferral: Equatable {
        var reason: DeferralReason
        /// For `.device`, the index of the retry tier whose delay ends about when the notification's turn comes.
        var deviceTier: UInt8 = 0
    }

    struct Tries {
        enum Past: UInt8 {
            case untried
            /// A transport of this worker has completed a send of the notification.
            case tried
            /// Like `tried`, with a send in doubt. `Record.doubts` counts such notifications.
            case inDoubt
        }

        // The counts `sends` and `inDoubt` include the sends of previous workers.
        var sends: Int32 = 0
        var inDoubt: Int32 = 0
        // The counts below include only the sends of this worker.
        var resends: UInt8 = 0
        /// The number of consecutive sends that APNs did not process, or that were on a connection that went silent.
        var returns: UInt8 = 0
        /// The number of consecutive sends that APNs refused to process.
        var refusals: UInt8 = 0
        /// The number of connections that were lost while the notification was in flight on them.
        var deaths: UInt8 = 0
        /// The reason for the notification's last resend.
        var resentFor = ReasonCode.none
        var past = Past.untried
        /// Whether APNs reported too many notifications for the device, so that the next one of its queue waits.
        var slowsDevice = false

        /// Counts a send that APNs did not process, or that was on a silent connection. Returns the consecutive number.
        mutating func countReturn() -> UInt8 {
            returns.countUp()
            return returns
        }
    }

    /// The last answer of APNs, or the worker's reason for rejecting the notification.
    struct Answer {
        enum Remark: UInt8 {
            case none
            /// The gateway of the binary protocol stayed silent, so the notification counts as accepted.
            case presumed
            /// APNs rejected the device token in both environments.
            case badInBoth
        }

        /// The `apns-id` that Apple created, if the request had none.
        var apnsID = NotificationUUID.none
        var unregisteredAtMs: Int64 = 0
        var status: UInt16 = 0
        var reason = ReasonCode.none
        var remark = Remark.none
    }

    /// The number of times that this slot was used.
    var generation: UInt32
    var record = RecordSlot.none
    var state = State.free
    /// Whether the notification is in the queue of its device.
    var isInDeviceQueue = false
    var deferral: Deferral?
    /// The number of output records that the producer has not copied yet.
    var unproduced: UInt8 = 0
    /// The number of output records that Kafka has not acknowledged yet.
    var unacknowledged: UInt8 = 0
    /// The size of the token's separate block, or 0 if the token is in the record's block.
    var tokenBlockSize: Int16 = 0

    /// The index of the notification's token in the record's list of tokens.
    var index: Int32 = 0
    /// The app's index, or -1. Changes when the notification is forwarded to the app of `AppRoute.otherEnvironment`.
    var app: Int32 = -1

    // The neighbours in the list that contains the notification: its app's queue for a stream, the notifications behind
    // the send horizon, or the notifications whose resend is paused.
    var previous = NotificationSlot.none
    var next = NotificationSlot.none
    var queue = DeviceLink()

    var token = UnsafeRawBufferPointer.nothing
    /// The bytes counted by `NotificationStore.takeBytes` until the notification settles.
    var countedBytes: Int32 = 0
    /// When the notification first joined its app's queue (monotonic).
    var sinceNs: Int64 = 0
    /// When the notification was last sent (wall clock), or 0 if it was never sent.
    var sentAtMs: Int64 = 0
    var tries = Tries()
    var answer = Answer()

    init(generation: UInt32 = 0) { self.generation = generation }

    /// Whether the notification is sent on the quarantine connection, because connections were lost during its sends or
    /// APNs refused to process it.
    @inline(__always)
    var isSuspect: Bool { tries.deaths >= 3 || tries.refusals >= 6 }
}

/// A list of notifications, linked by `previous` and `next`. Each notification is in at most one list.
struct NotificationList {
    private(set) var head = NotificationSlot.none
    private(set) var tail = NotificationSlot.none
    private(set) var count = 0

    var isEmpty: Bool { head == .none }

    mutating func append(_ slot: NotificationSlot, in store: inout NotificationStore) {
        store[slot].previous = tail
        store[slot].next = .none
        if tail == .none { head = slot } else { store[tail].next = slot }
        tail = slot
        count += 1
    }

    mutating func prepend(_ slot: NotificationSlot, in store: inout NotificationStore) {
        store[slot].previous = .none
        store[slot].next = head
        if head == .none { tail = slot } else { store[head].previous = slot }
        head = slot
        count += 1
    }

    mutating func remove(_ slot: NotificationSlot, from store: inout NotificationStore) {
        let previous = store[slot].previous
        let next = store[slot].next
        if previous == .none { head = next } else { store[previous].next = next }
        if next == .none { tail = previous } else { store[next].previous = previous }
        precondition(count > 0, "The removed notification must be in the list")
        count -= 1
    }
}
