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
        /// The log it was read from is gone: what is open goes on to its end, nothing is committed.
        case detached
        /// The session was lost: what is on connections settles, and is remembered in case the partition comes back.
        case suspended
    }

    /// What a commit in flight says of this partition.
    struct Pending {
        var offset: Int64
        var horizon: HorizonEnd
        var isLast: Bool
        var characters: Int
        var mark: LastCommit
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
    var horizon: SendHorizon
    /// Something settled, or became known to be, since the last commit was sent.
    var isDirty = false
    var pending: Pending?
    /// What the group has committed: as read at the assignment, then as acknowledged.
    var lastCommit: LastCommit?
    /// What it may have instead: commits sent since that were not acknowledged, the latest ones.
    var unconfirmed: [LastCommit] = []
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
    var commits = CommitBackoff()
    var metadataLimit: Int
    var isMapCut = false
    /// Notifications admitted, neither settled nor dropped.
    var open = 0
    /// Open records with more than one.
    var fanOuts = 0
    /// Dead letters among them.
    var deadLetters = 0
    /// Those that wait for the horizon.
    var behindHorizon = NotificationList()
    /// Of these, those that are in no device queue meanwhile.
    var parked = 0
    /// Records that are not wholly admitted, in offset order; `.none`: none. Nothing is read meanwhile.
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

    /// Of its record at `offset`.
    func origin(of offset: Int64) -> RecordOrigin {
        var place = self.place
        place.offset = offset
        return RecordOrigin(place: place, topic: topic, topicHash: topicHash, tierDelayMs: tierDelayMs)
    }

    /// The commit of ours that was read back; `nil`: it is somebody else's.
    func mark(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> LastCommit? {
        if let lastCommit, lastCommit.isOf(offset, metadata) { return lastCommit }
        return unconfirmed.last { $0.isOf(offset, metadata) }
    }

    mutating func keepUnconfirmed(_ mark: LastCommit) {
        if unconfirmed.count == LastCommit.unconfirmedLimit { unconfirmed.removeFirst() }
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

    /// How many notifications that are open may lie above the horizon, where `offset` is the next. A commit may name
    /// less than the one before, and what was below the horizon is above it then.
    func openAboveHorizon(at offset: Int64) -> Int {
        // Each offset is one at most, and nothing waits for the horizon that was below it before.
        guard fanOuts == 0, behindHorizon.isEmpty else { return open }
        return min(open, Int(clamping: max(0, offset - horizon.allowed.offset)))
    }

    /// One past the last offset that may have been sent, or is known to be settled: in this assignment, or before it.
    var sentEnd: Int64 {
        max(
            horizon.acknowledged ?? 0, ledger.inheritedHorizon.offset, ledger.inheritedEnd,
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
        case .active:
            return commits.isAskedAgain || horizon.isShort(from: base) || horizon.isStale && !behindHorizon.isEmpty
        // What waits is to be held before the last commit: nothing else may settle that would bring another one.
        case .draining, .leaving: return commits.isAskedAgain || mayLeave || !behindHorizon.isEmpty
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

/// What the reply to its commit means for a partition.
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
        guard phase != .suspended else { return false }
        if commit.isLast {
            phase = .left
            return false
        }
        horizon.acknowledge(commit.horizon)
        return true
    }

    /// - Parameter longestPauseNs: of what a pause after refusals grows to.
    mutating func refuse(
        isImpossible: Bool, longestPauseNs: Int64 = CommitBackoff.longestPauseNs, journal: inout Journal
    ) {
        journal.counters.commitsRefused &+= 1
        isDirty = true
        let isLeaving = phase != .active
        let isNews = commits.refuse(
            isImpossible: isImpossible,
            longestPauseNs: isLeaving ? min(CommitBackoff.leavingPauseNs, longestPauseNs) : longestPauseNs,
            nowNs: journal.now.ns)
        if isNews {
            journal.events.append(
                .commitsRefused(
                    id, refusals: commits.refusals, sinceNs: commits.sinceNs ?? journal.now.ns,
                    isImpossible: isImpossible))
        }
        if isImpossible, phase == .draining || phase == .leaving {
            // Nobody can be told anything: there is no topic that he could read it of.
            phase = .left
        }
    }

    /// Its metadata was too large: the next is half as long.
    mutating func halveMetadata(of commit: Pending, journal: inout Journal) {
        let half = min(metadataLimit, commit.characters) / 2
        // With less there would be no room for the horizon and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(isImpossible: false, journal: &journal) }
        metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }
}
