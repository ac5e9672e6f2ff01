import PushRecords

/// An open notification. Its size is less than three cache lines. Values that all notifications of a record share are
/// in `Record` and `RecordBody`.
struct Notification {
    enum State: Equatable {
        case free
        /// Admitted, and in no list. The call that sets this state changes it before it returns.
        case admitted
        /// Waits behind another notification of its device.
        case queued
        /// Waits in the queue of its app for a free stream.
        case ready
        /// Waits until the send horizon is above its record. Then it is sent or moved to a tier.
        case behindHorizon
        /// Waits for a pause to end (monotonic). Then it is sent again.
        case backingOff(untilNs: Int64)
        /// Handed to a transport at this millisecond of the monotonic clock (wraps). The transport borrows the bytes
        /// until the completion. If the assignment ends before, the completion frees the slot.
        case handed(atMs: UInt32)
        /// The outcome is known, and the output records are being produced.
        case concluded(Ending)

        /// Whether it waits for its device's queue, a stream, the send horizon, or the end of a pause.
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
        /// A dead letter, because its record is unreadable. The publisher owns its bytes.
        case deadLetter
    }

    /// The position in the queue of its device. The queue's head stores `tail` and the counts for the queue.
    struct DeviceLink {
        var hash: UInt32 = 0
        var next = NotificationSlot.none
        var tail = NotificationSlot.none
        var count: UInt16 = 0
        /// The number of notifications that the full queue has rejected since it formed.
        var turnedAway: UInt16 = 0
    }

    /// The reason to move it to a tier, instead of sending it, once the send horizon is above its record.
    struct Deferral: Equatable {
        var reason: DeferralReason
        /// For `.device`, the tier whose delay ends about when the notification's turn comes.
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

        // Counts of all workers.
        var sends: Int32 = 0
        var inDoubt: Int32 = 0
        // Counts of this worker.
        var resends: UInt8 = 0
        /// The number of consecutive sends that returned without processing.
        var returns: UInt8 = 0
        /// The number of consecutive refusals by APNs to process it.
        var refusals: UInt8 = 0
        /// The number of connections that were lost while it was in flight.
        var deaths: UInt8 = 0
        /// The reason for the last resend.
        var resentFor = ReasonCode.none
        var past = Past.untried
        /// Whether APNs reported too many notifications for the device, so that the next one of its queue waits.
        var slowsDevice = false

        /// Counts a return without processing, and returns the number of consecutive ones.
        mutating func countReturn() -> UInt8 {
            returns.countUp()
            return returns
        }
    }

    /// The last answer of APNs, or the worker's reason for rejecting it.
    struct Answer {
        enum Remark: UInt8 {
            case none
            /// The binary protocol's gateway accepted it by staying silent.
            case presumed
            /// Both environments rejected the device token.
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
    /// Whether it is in the queue of its device.
    var isInDeviceQueue = false
    var deferral: Deferral?
    /// Records not yet copied by the producer, and records not yet acknowledged by Kafka.
    var unproduced: UInt8 = 0
    var unacknowledged: UInt8 = 0
    /// The size of the token's separate block, or 0 if the token is in the record's block.
    var tokenBlockSize: Int16 = 0

    /// The index in the record's list of tokens.
    var index: Int32 = 0
    /// The app's index, or -1. It changes when the app of the other environment is tried (`AppRoute.otherEnvironment`).
    var app: Int32 = -1

    // The neighbours in its list: the app's queue, the horizon's, or the list of pauses.
    var previous = NotificationSlot.none
    var next = NotificationSlot.none
    var queue = DeviceLink()

    var token = UnsafeRawBufferPointer.nothing
    /// Further bytes that it uses or will produce, counted until it settles (`NotificationStore.takeBytes`).
    var countedBytes: Int32 = 0
    /// When it first joined its app's queue (monotonic).
    var sinceNs: Int64 = 0
    /// When it was last sent (wall clock), or 0 if never.
    var sentAtMs: Int64 = 0
    var tries = Tries()
    var answer = Answer()

    init(generation: UInt32 = 0) { self.generation = generation }

    /// Whether it uses the quarantine connection, because connections were lost or APNs refused to process it.
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
        precondition(count > 0, "the list is empty")
        count -= 1
    }
}
