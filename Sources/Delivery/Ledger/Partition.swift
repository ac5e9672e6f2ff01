internal import CLinux
import PushRecords

/// One assignment of a partition.
struct Partition: ~Copyable {
    enum Phase: Equatable {
        /// Records are read and sent.
        case active
        /// No more records are read or sent. Notifications on connections may be answered and settle.
        case draining
        /// Like `draining`, but the last commit does not wait for unanswered sends.
        case leaving
        /// The last commit was acknowledged, is impossible, or is not needed. The partition may be released.
        case left
        /// The group's session was lost. Notifications on connections are completed. All others wait in case the
        /// partition is assigned again.
        case suspended
    }

    /// This partition's entry in the commit in flight.
    struct Pending {
        var offset: Int64
        var horizon: Int64
        var isLast: Bool
        var characters: Int
        var mark: LastCommit
    }

    private let inPlace = InPlace()
    /// The id of the assignment. It changes when the partition is resumed.
    var id: PartitionID
    let topicText: String
    /// The topic's name as bytes that this value owns.
    let topic: UnsafeRawBufferPointer
    let topicHash: UInt64
    let number: Int32
    /// The topic and partition for crash reports, with offset 0.
    let place: CrashPlace
    var group: Int
    /// The delay of the retry tier, or 0 for a request topic.
    let tierDelayMs: Int64
    /// The raw value of the partition's `CommitGroup`: the index of its commit in flight.
    let flight: Int

    var phase = Phase.active
    var ledger: PartitionLedger
    var horizon: SendHorizon
    /// Whether records settled, or were found to be settled, since the last commit was sent.
    var isDirty = false
    var pending: Pending?
    /// The group's latest commit of this partition, as read at the assignment or acknowledged since then.
    var lastCommit: LastCommit?
    /// The latest unacknowledged commits after `lastCommit`. The group may have stored any of them.
    var unconfirmed: [LastCommit] = []
    /// When a suspended partition is released (monotonic).
    var releaseNs: Int64 = 0
    /// The used part of the last commit's map, in eighths.
    var mapEighths = 0
    /// The earliest time to defer the partition's oldest notifications again.
    var nextShorteningNs: Int64 = 0
    /// The last committed offset that was acknowledged in this assignment, if any.
    var committed: Int64?
    var commits = CommitBackoff()
    var metadataLimit: Int
    var isMapCut = false
    /// The number of the partition's admitted notifications that are neither settled nor dropped.
    var open = 0
    /// The number of the partition's open records with several notifications.
    var fanOuts = 0
    /// The number of the partition's open dead letters.
    var deadLetters = 0
    /// The partition's notifications that wait for the send horizon.
    var behindHorizon = NotificationList()
    /// The number of offsets in the log at an assignment without a committed offset, for the log event at the first
    /// record. `nil` otherwise.
    var unsetRecords: Int64?
    /// The first and last record that wait for admission, in offset order, or `.none`. No more records are read
    /// meanwhile.
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

    /// Returns the commit of this assignment with this offset and metadata, or `nil` if another worker wrote it.
    func mark(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> LastCommit? {
        if let lastCommit, lastCommit.matches(offset, metadata) { return lastCommit }
        return unconfirmed.last { $0.matches(offset, metadata) }
    }

    mutating func keepUnconfirmed(_ mark: LastCommit) {
        if unconfirmed.count == LastCommit.unconfirmedLimit { unconfirmed.removeFirst() }
        unconfirmed.append(mark)
    }

    /// Whether the map of the partition's last commit is nearly full, because many records above an open one are
    /// settled. Without open records, only further reading makes the map shorter.
    var isSpanFull: Bool { mapEighths >= 7 && ledger.openCount > 0 }

    /// Whether more records of the partition may be read.
    var takesRecords: Bool { phase == .active && firstAdmitting == .none && !isSpanFull }

    /// A lower bound of the next offset to be read.
    var nextOffset: Int64 { max(ledger.highestReceived + 1, ledger.committable ?? 0) }

    /// Returns how many open notifications may lie above the horizon, if `offset` is received next. The count is an
    /// upper bound, because a commit may contain a lower horizon than the one before.
    func openAboveHorizon(at offset: Int64) -> Int {
        // Now every offset has at most one notification, and no waiting notification was below the horizon before.
        guard fanOuts == 0, behindHorizon.isEmpty else { return open }
        return min(open, Int(clamping: max(0, offset - horizon.allowed)))
    }

    /// One past the last offset that may have been sent or is known to be settled.
    var sentEnd: Int64 {
        max(
            horizon.acknowledged ?? 0, ledger.inheritedHorizon, ledger.mapEnd, ledger.committable ?? 0,
            ledger.committedAtAssignment ?? 0)
    }

    /// Whether the partition is being given up. Notifications that APNs did not process are then dropped.
    var isLeaving: Bool {
        switch phase {
        case .draining, .leaving, .left: true
        case .active, .suspended: false
        }
    }

    /// Whether the last commit of the partition may be sent.
    var mayLeave: Bool { phase == .leaving || phase == .draining && open == 0 }

    /// Whether a commit of the partition should be sent without waiting for the interval.
    var isUrgent: Bool {
        guard pending == nil, let base = ledger.committable else { return false }
        switch phase {
        case .active:
            return commits.isAskedAgain || horizon.isShort(from: base) || horizon.isStale && !behindHorizon.isEmpty
        case .draining, .leaving: return commits.isAskedAgain || mayLeave
        case .left, .suspended: return false
        }
    }

    /// Whether the partition needs a commit.
    var wantsCommit: Bool {
        switch phase {
        case .active, .draining, .leaving: pending == nil && ledger.committable != nil && (isDirty || isUrgent)
        case .left, .suspended: false
        }
    }
}

// Handles the replies to the partition's commits.
extension Partition {
    /// Handles an acknowledged commit.
    ///
    /// - Returns: Whether the partition may send notifications that were waiting for a higher send horizon.
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

    /// Handles a refused commit.
    ///
    /// - Parameter longestPauseNs: The maximum pause before the next commit. The pause doubles with each refusal.
    mutating func refuse(
        isImpossible: Bool, longestPauseNs: Int64 = CommitBackoff.longestPauseNs, journal: inout Journal
    ) {
        journal.counters.commitsRefused &+= 1
        isDirty = true
        let longestNs = phase == .active ? longestPauseNs : min(CommitBackoff.leavingPauseNs, longestPauseNs)
        if commits.refuse(isImpossible: isImpossible, longestPauseNs: longestNs, nowNs: journal.now.ns) {
            journal.events.append(.commitsRefused(id, refusals: commits.refusals, isImpossible: isImpossible))
        }
        // Without the topic, no successor can read the partition.
        if isImpossible, isLeaving { phase = .left }
    }

    /// Halves the limit of the next commit's metadata, because the metadata of `commit` was too large.
    mutating func halveMetadata(of commit: Pending, journal: inout Journal) {
        let half = min(metadataLimit, commit.characters) / 2
        // Shorter metadata could not contain the horizon and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(isImpossible: false, journal: &journal) }
        metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }
}
