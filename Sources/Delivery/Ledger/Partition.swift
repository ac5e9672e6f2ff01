internal import CLinux
import PushRecords

/// One assignment of a partition: its ledger, its horizon, and how far it is on its way in and out.
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
        /// The session was lost: what is on connections settles, the rest waits in case the partition comes back.
        case suspended
    }

    /// This partition's part of the commit in flight.
    struct Pending {
        var offset: Int64
        var horizon: Int64
        var isLast: Bool
        var characters: Int
        var mark: LastCommit
    }

    private let inPlace = InPlace()
    /// It changes when the partition is resumed.
    var id: PartitionID
    let topicText: String
    /// The topic's name; owned.
    let topic: UnsafeRawBufferPointer
    let topicHash: UInt64
    let number: Int32
    /// The place of its records, with an offset of 0, for crash reports.
    let place: CrashPlace
    var group: Int
    /// Delay of its tier; 0 for a request topic.
    let tierDelayMs: Int64
    /// Place of its `CommitGroup`.
    let flight: Int

    var phase = Phase.active
    var ledger: PartitionLedger
    var horizon: SendHorizon
    /// Something settled, or became known to be, since the last commit was sent.
    var isDirty = false
    var pending: Pending?
    /// The commit that the group has: as read at the assignment, then as acknowledged.
    var lastCommit: LastCommit?
    /// Commits sent since that may have been taken without an acknowledgement, the latest ones.
    var unconfirmed: [LastCommit] = []
    /// While it is suspended: when it is released (monotonic).
    var releaseNs: Int64 = 0
    /// The used part of the last commit's map, in eighths.
    var mapEighths = 0
    /// The earliest time to defer its oldest notifications.
    var nextShorteningNs: Int64 = 0
    /// Acknowledged by the group in this assignment, if anything.
    var committed: Int64?
    var commits = CommitBackoff()
    var metadataLimit: Int
    var isMapCut = false
    /// Notifications admitted, neither settled nor dropped.
    var open = 0
    /// Open records with several notifications.
    var fanOuts = 0
    /// Open dead letters.
    var deadLetters = 0
    /// Notifications that wait for the horizon.
    var behindHorizon = NotificationList()
    /// How many offsets the log held when the partition was assigned without a committed offset, until the first record
    /// is received.
    var unsetRecords: Int64?
    /// Records that are not wholly admitted, in offset order; `.none` if all are. Nothing is read meanwhile.
    var firstAdmitting = RecordSlot.none
    var lastAdmitting = RecordSlot.none

    init(
        id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64,
        ledger: consuming PartitionLedger,
        horizon: SendHorizon, metadataLimit: Int
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
        self.horizon = horizon
        self.metadataLimit = metadataLimit
    }

    deinit { topic.deallocate() }

    /// Returns the commit of this assignment that was read back; `nil` if another worker wrote it.
    func mark(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> LastCommit? {
        if let lastCommit, lastCommit.matches(offset, metadata) { return lastCommit }
        return unconfirmed.last { $0.matches(offset, metadata) }
    }

    mutating func keepUnconfirmed(_ mark: LastCommit) {
        if unconfirmed.count == LastCommit.unconfirmedLimit { unconfirmed.removeFirst() }
        unconfirmed.append(mark)
    }

    /// So much is settled above what is open that a commit's map is nearly full. With nothing open, only reading on
    /// makes it shorter.
    var isSpanFull: Bool { mapEighths >= 7 && ledger.openCount > 0 }

    /// Whether more of it may be read.
    var takesRecords: Bool { phase == .active && firstAdmitting == .none && !isSpanFull }

    /// What is read next, or later.
    var nextOffset: Int64 { max(ledger.highestReceived + 1, ledger.committable ?? 0) }

    /// Open notifications that may lie above the horizon, where `offset` is the next. A commit may name a lower horizon
    /// than the one before.
    func openAboveHorizon(at offset: Int64) -> Int {
        // Each offset is one at most, and nothing waits for the horizon that was below it before.
        guard fanOuts == 0, behindHorizon.isEmpty else { return open }
        return min(open, Int(clamping: max(0, offset - horizon.allowed)))
    }

    /// One past the last offset that may have been sent, or is known to be settled.
    var sentEnd: Int64 {
        max(
            horizon.acknowledged ?? 0, ledger.inheritedHorizon, ledger.mapEnd, ledger.committable ?? 0,
            ledger.committedAtAssignment ?? 0)
    }

    /// Whether it is being given up: what comes back unprocessed is dropped.
    var isLeaving: Bool {
        switch phase {
        case .draining, .leaving, .left: true
        case .active, .suspended: false
        }
    }

    /// Whether the last commit may be made.
    var mayLeave: Bool { phase == .leaving || phase == .draining && open == 0 }

    /// Whether a commit should not wait for the interval.
    var isUrgent: Bool {
        guard pending == nil, let base = ledger.committable else { return false }
        switch phase {
        case .active:
            return commits.isAskedAgain || horizon.isShort(from: base) || horizon.isStale && !behindHorizon.isEmpty
        case .draining, .leaving: return commits.isAskedAgain || mayLeave
        case .left, .suspended: return false
        }
    }

    /// Whether there is something to commit at all.
    var wantsCommit: Bool {
        switch phase {
        case .active, .draining, .leaving: pending == nil && ledger.committable != nil && (isDirty || isUrgent)
        case .left, .suspended: false
        }
    }
}

// What a reply to its commit leads to.
extension Partition {
    /// The broker took it.
    ///
    /// - Returns: whether what waits for the horizon may go on.
    mutating func acknowledge(_ commit: Pending, journal: inout Journal) -> Bool {
        journal.counters.commitsAcknowledged &+= 1
        if let before = committed ?? ledger.committedAtAssignment {
            journal.counters.offsetsCommitted &+= commit.offset - before
        }
        committed = commit.offset
        lastCommit = commit.mark
        unconfirmed.removeAll(keepingCapacity: true)
        if commits.acknowledge() { journal.events.append(.commitsResumed(id)) }
        if commit.isLast {
            phase = .left
            return false
        }
        horizon.acknowledge(commit.horizon)
        return true
    }

    /// - Parameter longestPauseNs: the limit of the pause, which grows with each refusal.
    mutating func refuse(
        isImpossible: Bool, longestPauseNs: Int64 = CommitBackoff.longestPauseNs, journal: inout Journal
    ) {
        journal.counters.commitsRefused &+= 1
        isDirty = true
        let longestNs = phase == .active ? longestPauseNs : min(CommitBackoff.leavingPauseNs, longestPauseNs)
        if commits.refuse(isImpossible: isImpossible, longestPauseNs: longestNs, nowNs: journal.now.ns) {
            journal.events.append(.commitsRefused(id, refusals: commits.refusals, isImpossible: isImpossible))
        }
        // There is no topic from which a successor could read it.
        if isImpossible, isLeaving { phase = .left }
    }

    /// Its metadata was too large: the next is half as long.
    mutating func halveMetadata(of commit: Pending, journal: inout Journal) {
        let half = min(metadataLimit, commit.characters) / 2
        // With less there would be no room for the horizon and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(isImpossible: false, journal: &journal) }
        metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }
}
