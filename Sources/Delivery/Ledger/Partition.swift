internal import CLinux
import PushRecords

/// One assignment of a partition: its ledger, its reach, and how far it is on its way in and out.
struct Partition: ~Copyable {
    enum Phase: Equatable {
        /// Records are read and sent.
        case active
        /// Nothing is read or sent any more; what is on connections may settle.
        case draining
        /// As draining, but the last commit does not wait for it.
        case leaving
        /// The last commit was acknowledged, cannot be, or there was nothing to say in one.
        case left
        /// The log it was read from is gone: what is open goes on to its end, nothing is committed.
        case detached
        /// The session was lost: what is on connections settles, and is remembered in case the partition comes back.
        case suspended
    }

    /// What a commit in flight says of this partition.
    struct Pending {
        var offset: Int64
        var reach: ReachEnd
        var isLast: Bool
        var characters: Int
        var mark: CommitMark
    }

    private let inPlace = InPlace()
    /// Another one when it is resumed.
    var id: PartitionID
    let topicText: String
    /// The topic's name; owned.
    let topic: UnsafeRawBufferPointer
    let topicHash: UInt64
    let number: Int32
    /// Its records' place (of offset 0), for whoever dies at one.
    let place: CrashPlace
    let group: Int
    /// Delay of its tier; 0: a request topic.
    let tierDelayMs: Int64
    /// Place of its `CommitGroup`.
    let flight: Int

    var phase = Phase.active
    var ledger: PartitionLedger
    var reach: Reach
    /// Something settled, or became known to be, since the last commit was sent.
    var isDirty = false
    var pending: Pending?
    /// What the group has committed: as read at the assignment, then as acknowledged.
    var lastCommit: CommitMark?
    /// What it may have instead: commits sent since that were not acknowledged, the latest ones.
    var unconfirmed: [CommitMark] = []
    /// When its session was lost. Monotonic.
    var suspendedNs: Int64 = 0
    /// Counts as one that is read, where the room is shared.
    var isShared = false
    /// How much of its room the map of the last commit took, of 8.
    var mapEighths = 0
    /// So much is settled above what is open that a map can hardly name it: nothing is read.
    var isSpanFull = false
    /// What waits too long is looked for no earlier.
    var nextShorteningNs: Int64 = 0
    /// While it is given up: what is open below it is held rather than dropped, so that the last commit can name all.
    var nameableFrom: Int64 = 0
    /// Acknowledged by the group; `nil`: nothing in this assignment.
    var committed: Int64?
    var commits = CommitStanding()
    var metadataLimit: Int
    var isMapCut = false
    /// Notifications admitted, neither settled nor dropped.
    var open = 0
    /// Open records with more than one.
    var fanOuts = 0
    /// Dead letters among them.
    var deadLetters = 0
    /// Those that wait for the reach.
    var behindReach = NotificationList()
    /// Of these, those that are in no device queue meanwhile.
    var besideQueues = 0
    /// Records that are not wholly admitted, in offset order; `.none`: none. Nothing is read meanwhile.
    var firstAdmitting = RecordSlot.none
    var lastAdmitting = RecordSlot.none

    init(
        id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64,
        ledger: consuming PartitionLedger,
        reach: Reach, metadataLimit: Int
    ) {
        self.id = id
        topicText = topic
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: topic.utf8.count, alignment: 1)
        bytes.copyBytes(from: topic.utf8)
        self.topic = UnsafeRawBufferPointer(bytes)
        topicHash = DerivedID.topicHash(UnsafeRawBufferPointer(bytes))
        self.number = number
        place = CrashPlace(
            offset: 0, partition: number, topic: crash_topic(bytes.baseAddress, Int32(bytes.count)))
        self.group = group
        self.tierDelayMs = tierDelayMs
        flight = (tierDelayMs > 0 ? CommitGroup.retries : .requests).rawValue
        self.ledger = ledger
        self.reach = reach
        self.metadataLimit = metadataLimit
    }

    deinit { topic.deallocate() }

    /// Of its record at `offset`.
    func origin(of offset: Int64) -> RecordOrigin {
        var place = self.place
        place.offset = offset
        return RecordOrigin(place: place, topic: topic, topicHash: topicHash, tierDelayMs: tierDelayMs)
    }

    /// The commit of ours that was read back; `nil`: it is somebody else's.
    func mark(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> CommitMark? {
        if let lastCommit, lastCommit.isOf(offset, metadata) { return lastCommit }
        return unconfirmed.last { $0.isOf(offset, metadata) }
    }

    mutating func keepUnconfirmed(_ mark: CommitMark) {
        if unconfirmed.count == CommitMark.unconfirmedLimit { unconfirmed.removeFirst() }
        unconfirmed.append(mark)
    }

    /// Whether more of it may be read.
    ///
    /// A map that was read back may be full of what comes next: with nothing open, only reading on makes it shorter. A
    /// partition that came back is read, too: what was open when it was lost must come again.
    var takesRecords: Bool {
        phase == .active && firstAdmitting == .none && !(isSpanFull && ledger.openCount > 0 && !ledger.isRereading)
    }

    /// What is read next, or later.
    var nextOffset: Int64 { max(ledger.highestArrived + 1, ledger.committable ?? 0) }

    /// How many notifications that are open may lie above the reach, where `offset` is the next. A commit may name less
    /// than the one before, and what was below the reach is above it then.
    func openAboveReach(at offset: Int64) -> Int {
        // Each offset is one at most, and nothing waits for the reach that was below it before.
        guard fanOuts == 0, behindReach.isEmpty else { return open }
        return min(open, Int(clamping: max(0, offset - reach.allowed.offset)))
    }

    /// One past the last offset that may have been sent, or is known to be settled: in this assignment, or before it.
    var sentEnd: Int64 {
        max(
            reach.acknowledged ?? 0, ledger.inheritedReach.offset, ledger.inheritedEnd,
            ledger.committedAtAssignment ?? 0)
    }

    /// Whether what waits is sent.
    var isSending: Bool { phase == .active || phase == .detached }

    /// Whether it takes records, or is on its way out: suspended and detached ones are there for what is open only.
    var isAssigned: Bool {
        switch phase {
        case .active, .draining, .leaving, .left: true
        case .detached, .suspended: false
        }
    }

    /// Whether the last commit may be made.
    var mayLeave: Bool { phase == .leaving || phase == .draining && open == 0 }

    /// Whether a commit should not wait for the interval.
    var isUrgent: Bool {
        guard pending == nil, let base = ledger.committable else { return false }
        switch phase {
        case .active: return commits.isAskedAgain || reach.isShort(from: base) || reach.isStale && !behindReach.isEmpty
        // What waits is to be held before the last commit: nothing else may settle that would bring another one.
        case .draining, .leaving: return commits.isAskedAgain || mayLeave || !behindReach.isEmpty
        case .left, .detached, .suspended: return false
        }
    }

    /// Whether there is something to commit at all.
    var wantsCommit: Bool {
        switch phase {
        case .active, .draining, .leaving: pending == nil && ledger.committable != nil && (isDirty || isUrgent)
        case .left, .detached, .suspended: false
        }
    }
}
