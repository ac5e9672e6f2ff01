import PushRecords

/// One notification in the slab, in less than three cache lines. What it shares with its record's other notifications
/// is in the record and its body.
struct Notification {
    enum State: Equatable {
        case free
        /// In no list. Before the call of the machine is over that admitted it, or that saw the send horizon pass its
        /// record, it waits for something or is decided.
        case admitted
        /// Behind another notification of its device.
        case queued
        /// In its app's queue for a free stream.
        case ready
        /// Waits for the send horizon to pass its record, to be sent or moved to a tier.
        case behindHorizon
        /// To be sent again after a pause, which ends then (monotonic).
        case backingOff(untilNs: Int64)
        /// Given to a transport, at that millisecond of the monotonic clock, which wraps. The bytes are lent until the
        /// completion comes, which frees it if its assignment is gone by then.
        case handed(atMs: UInt32)
        /// Decided: its productions are under way.
        case concluded(Ending)

        /// Whether it waits: behind its device's queue, for a stream, for the send horizon, or for a pause to end.
        var isWaiting: Bool {
            switch self {
            case .queued, .ready, .behindHorizon, .backingOff: true
            case .free, .admitted, .handed, .concluded: false
            }
        }

        var isConcluded: Bool { if case .concluded = self { true } else { false } }
    }

    /// What is written for a notification that is decided.
    enum Ending: Equatable {
        case result(Outcome)
        /// A retry record, due by the wall clock.
        case retry(dueMs: Int64, isAttempt: Bool)
        /// A dead letter, since nothing could be read of its record: the publisher has its bytes.
        case deadLetter
    }

    /// Its place in the queue of its device. `tail` and the counts are those of the queue, kept by its head.
    struct DeviceLink {
        var hash: UInt32 = 0
        var next = NotificationSlot.none
        var tail = NotificationSlot.none
        var count: UInt16 = 0
        /// Notifications that the queue turned away since it formed, because it was full.
        var turnedAway: UInt16 = 0
    }

    /// It goes to a tier, not to a connection, once the send horizon has passed its record.
    struct Deferral: Equatable {
        var reason: DeferralReason
        /// With `.device`: the tier in which its turn comes.
        var deviceTier: UInt8 = 0
    }

    struct Tries {
        enum Past: UInt8 {
            case untried
            /// It came back from a transport of this worker before.
            case tried
            /// As `tried`, and a send is in doubt, which its record counts.
            case inDoubt
        }

        // Of all workers.
        var sends: Int32 = 0
        var inDoubt: Int32 = 0
        // Of this worker.
        var resends: UInt8 = 0
        /// Returned unprocessed, one after the other.
        var returns: UInt8 = 0
        /// Refused by APNs unprocessed, one after the other.
        var refusals: UInt8 = 0
        /// Connections that died under it.
        var deaths: UInt8 = 0
        /// The reason for which it was resent last.
        var resentFor = ReasonCode.none
        var past = Past.untried
        /// APNs answered that the device has too many notifications: the next one of its queue waits.
        var slowsDevice = false

        /// Counts that it was returned unprocessed, and returns how often in a row.
        mutating func countReturn() -> UInt8 {
            returns.countUp()
            return returns
        }
    }

    /// What APNs answered last, or why it was refused here.
    struct Answer {
        enum Remark: UInt8 {
            case none
            /// The peer's silence accepted it.
            case presumed
            /// Both environments called its token bad.
            case badInBoth
        }

        /// Where none was sent.
        var apnsID = NotificationUUID.none
        var unregisteredAtMs: Int64 = 0
        var status: UInt16 = 0
        var reason = ReasonCode.none
        var remark = Remark.none
    }

    /// Counts the uses of this slot.
    var generation: UInt32
    var record = RecordSlot.none
    var state = State.free
    /// It is in the queue of its device.
    var isInDeviceQueue = false
    var deferral: Deferral?
    /// Productions not yet copied by the producer, and not yet acknowledged by Kafka.
    var unproduced: UInt8 = 0
    var unacknowledged: UInt8 = 0
    /// Size of the token's own block; 0 if the token is in the record's block.
    var tokenBlockSize: Int16 = 0

    /// Place in the record's list of tokens.
    var index: Int32 = 0
    /// -1 if there is none. It changes when an app of the other environment is tried (`AppRoute.otherEnvironment`).
    var app: Int32 = -1

    // The list it is in: its app's queue, behind the horizon, or backing off.
    var previous = NotificationSlot.none
    var next = NotificationSlot.none
    var queue = DeviceLink()

    var token = UnsafeRawBufferPointer.nothing
    /// What else it holds or will write, counted until it is settled (`AdmissionBudget.takeBytes`).
    var countedBytes: Int32 = 0
    /// When it joined its app's queue first. Monotonic.
    var sinceNs: Int64 = 0
    /// Wall clock; 0 if it was never sent.
    var sentAtMs: Int64 = 0
    var tries = Tries()
    var answer = Answer()

    init(generation: UInt32 = 0) { self.generation = generation }

    /// Whether it goes over the quarantine connection: connections died under it, or APNs would not process it.
    @inline(__always)
    var isSuspect: Bool { tries.deaths >= 3 || tries.refusals >= 6 }
}

/// A list through `previous` and `next` of notifications; each is in at most one.
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
        precondition(count > 0, "what leaves a list was in it")
        count -= 1
    }
}
