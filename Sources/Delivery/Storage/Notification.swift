import PushRecords

/// One notification in the slab: what is needed on its way, in less than three cache lines. What it shares with its
/// record's other notifications is in the record and its body.
struct Notification {
    enum State: UInt8, CaseIterable {
        case free
        /// In no list yet, or no more: before the call of the machine is over that admitted it, or that saw the reach
        /// pass its record, it waits for something or is decided.
        case admitted
        /// Behind another notification of its device.
        case queued
        /// In its app's queue for a free stream.
        case ready
        /// Waits for the reach to pass its record, to be sent or moved to a tier.
        case behindReach
        /// To be sent again after a pause.
        case backingOff
        /// Given to a transport: its bytes are lent until the completion comes.
        case handed
        /// Handed, and its assignment is gone: freed by its completion.
        case orphaned
        /// Decided: its productions are under way.
        case concluded

        /// The states that a notification of this one may come into: the table of <doc:StatesOfANotification>.
        var followers: [State] {
            switch self {
            case .free: [.admitted]
            case .admitted: [.queued, .ready, .behindReach, .backingOff, .concluded]
            case .queued: [.ready, .behindReach, .backingOff, .concluded, .free]
            case .ready: [.behindReach, .handed, .concluded, .free]
            // Held while it waits, it may have to wait there again, behind the others.
            case .behindReach: [.admitted, .behindReach, .concluded, .free]
            case .backingOff: [.ready, .behindReach, .concluded, .free]
            case .handed: [.queued, .ready, .behindReach, .backingOff, .orphaned, .concluded, .free]
            case .orphaned: [.free]
            // A dead token that cannot be written is decided anew.
            case .concluded: [.concluded, .free]
            }
        }
    }

    /// Whether it is neither decided nor at a transport.
    var isWaiting: Bool {
        switch state {
        case .queued, .ready, .behindReach, .backingOff: true
        case .free, .admitted, .handed, .orphaned, .concluded: false
        }
    }

    /// As `NotificationStore.move`.
    @inline(__always)
    mutating func move(to next: State) {
        assert(state.followers.contains(next), "what is \(state) does not become \(next)")
        state = next
    }

    /// What was queued under its name is void: it has another one.
    mutating func renew() { generation &+= 1 }

    /// As `NotificationStore.doubt` and `leaveDoubt`.
    mutating func setDoubted(_ isDoubted: Bool) { self.isDoubted = isDoubted }

    /// Whether it goes over the quarantine connection: connections died under it, or APNs would not process it.
    @inline(__always)
    var isSuspect: Bool { deaths >= Self.suspectDeaths || refusals >= Self.suspectRefusals }

    /// Connections that died under a notification before it is a suspect.
    private static let suspectDeaths: UInt8 = 3
    /// Refusals by APNs to process it, in a row, before it is one.
    private static let suspectRefusals: UInt8 = 6

    /// Counts the uses of this slot.
    private(set) var generation: UInt32
    private(set) var state = State.free
    var isInDeviceQueue = false
    /// Whether it was handed to a transport in this worker before.
    var isResend = false
    /// Counted in its record's doubts.
    private(set) var isDoubted = false
    /// Goes to a tier, not to a connection, when the reach has passed its record.
    var heldFor: HeldCause?
    /// Bytes of the block of its own that holds the token; 0: it is in the record's block.
    var tokenBlockSize: Int16 = 0

    var record = RecordSlot.none
    /// Place in the record's list of tokens.
    var index: Int32 = 0
    /// -1: none. Another one than its record's once that called the token bad (`AppRoute.otherEnvironment`).
    var app: Int32 = -1

    // The list it is in: its app's queue, behind the reach, or backing off.
    var previous = NotificationSlot.none
    var next = NotificationSlot.none

    // Its device queue; tail and counts are the head's only.
    var deviceHash: UInt32 = 0
    var queueNext = NotificationSlot.none
    var queueTail = NotificationSlot.none
    var queueCount: UInt16 = 0
    /// How many the device queue turned away since it formed, because it was full.
    var queueTurnedAway: UInt16 = 0

    var token = UnsafeRawBufferPointer(start: nil, count: 0)
    /// What else it holds or will write, counted until it is settled (`takeBytes`).
    var countedBytes: Int32 = 0

    // Of all workers that tried.
    var sends: Int32 = 0
    var inDoubt: Int32 = 0

    // Of this worker.
    var resends: UInt8 = 0
    /// Returned unprocessed, one after the other.
    var returns: UInt8 = 0
    var deaths: UInt8 = 0
    /// The reason it was resent for last.
    var resentFor = ReasonCode.none
    /// When it joined its app's queue first. Monotonic.
    var sinceNs: Int64 = 0
    /// Wall clock; 0: never.
    var sentAtMs: Int64 = 0

    // The ending.
    var outcome = Outcome.accepted
    var reason = ReasonCode.none
    var status: UInt16 = 0
    /// In `InternedTexts`: a reason not known by name; 0: none.
    var reasonText: UInt16 = 0
    /// Productions not yet copied by the producer, and not yet acknowledged by Kafka.
    var unproduced: UInt8 = 0
    var unacknowledged: UInt8 = 0
    var isRetryAttempt = false
    /// Nothing could be read of it: the publisher has it.
    var isDeadLetter = false
    /// It waits for the reach, and left its device queue or never joined it.
    var isBesideQueue = false
    /// Refused by APNs unprocessed, one after the other.
    var refusals: UInt8 = 0
    /// Held by its device queue: the tier in which its turn comes.
    var heldTier: UInt8 = 0
    /// Both environments called its token bad.
    var isBadInBoth = false
    /// The peer's silence accepted it.
    var isPresumed = false
    /// When it was handed out last: milliseconds of the monotonic clock, which wrap.
    var handedMs: UInt32 = 0
    var unregisteredAtMs: Int64 = 0
    /// Of Apple's answer, when none was sent.
    var answeredID = NotificationUUID.none
    /// `dueNs` while it backs off, `dueMs` once it is on its way to a tier: one word, since it is never both.
    private var due: Int64 = 0

    init(generation: UInt32 = 0) { self.generation = generation }

    /// Until when it backs off. Monotonic.
    var dueNs: Int64 {
        @inline(__always) get {
            assert(state == .backingOff, "what backs off has the end of its pause")
            return due
        }
        @inline(__always) set {
            assert(state == .backingOff, "what backs off has the end of its pause")
            due = newValue
        }
    }

    /// When it is due in the tier that it is on its way to, by the wall clock.
    var dueMs: Int64 {
        @inline(__always) get {
            assert(state == .concluded, "what is on its way to a tier is decided")
            return due
        }
        @inline(__always) set {
            assert(state == .concluded, "what is on its way to a tier is decided")
            due = newValue
        }
    }
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
        precondition(count > 0, "who leaves a list was in it")
        count -= 1
    }
}
