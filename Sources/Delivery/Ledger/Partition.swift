internal import CLinux
import PushRecords

/// One assignment of a partition.
package struct Partition: ~Copyable {
    enum Phase: Equatable {
        /// Records are read and sent.
        case active
        /// No more records are read or sent. Notifications on connections may still be answered and settle.
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
        var horizon: Int64
        var isLast: Bool
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
    /// The raw value of the partition's `CommitGroup`, which is an index of `CommitLedger.commits`.
    let flight: Int

    var phase = Phase.active
    var offsets: Offsets
    var horizon: SendHorizon
    /// Whether the partition has changed since its latest commit was sent, or that commit failed.
    var isDirty = false
    var pending: Pending?
    /// The group's latest commit of this partition, as read at the assignment or acknowledged since then.
    var lastCommit: LastCommit?
    /// The latest unacknowledged commits after `lastCommit`. The group may have stored any of them.
    var unconfirmed: [LastCommit] = []
    /// When a suspended partition is released (monotonic).
    var releaseNs: Int64 = 0
    /// The used part of the latest commit map, in eighths of its maximum length.
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
    /// The partition's notifications that wait for a higher send horizon.
    var behindHorizon = Notification.List()
    /// The number of offsets in the log at an assignment without a committed offset, for the log event at the first
    /// record. `nil` otherwise.
    var unsetRecords: Int64?
    /// The first and last record that wait for admission, in offset order, or `.none`. While a record waits, no more
    /// records of the partition are read.
    var firstAdmitting = RecordSlot.none
    var lastAdmitting = RecordSlot.none

    /// - Parameters:
    ///   - committed: The committed offset, if one is known.
    ///   - lastCommit: The group's current commit, if the partition may be resumed from that commit.
    init(
        id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64, committed: Int64?,
        map: CommitMap, lastCommit: LastCommit? = nil, settings: MachineSettings
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
        offsets = Offsets(committed: committed, map: map)
        horizon = SendHorizon(minimum: settings.horizonMargin)
        self.lastCommit = lastCommit
        metadataLimit = settings.metadataLimit
    }

    deinit { topic.deallocate() }

    /// Returns the known commit with this offset and metadata, or `nil` if another worker has committed since.
    func mark(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> LastCommit? {
        if let lastCommit, lastCommit.matches(offset, metadata) { return lastCommit }
        return unconfirmed.last { $0.matches(offset, metadata) }
    }

    mutating func keepUnconfirmed(_ mark: LastCommit) {
        if unconfirmed.count == LastCommit.unconfirmedLimit { unconfirmed.removeFirst() }
        unconfirmed.append(mark)
    }

    /// Whether more records of the partition may be read. False while the map of the latest commit is nearly full and
    /// records are open. Without open records, only further reading makes the map shorter.
    var takesRecords: Bool {
        phase == .active && firstAdmitting == .none && (mapEighths < 7 || offsets.openCount == 0)
    }

    /// A lower bound of the next offset to be read.
    var nextOffset: Int64 { max(offsets.highestReceived + 1, offsets.committable ?? 0) }

    /// Returns an upper bound of the number of open notifications above the horizon, if `offset` is received next. All
    /// offsets from the horizon on count as open, even if their records are settled.
    func openAboveHorizon(at offset: Int64) -> Int {
        // Without fan-outs, each offset at or above the horizon has at most one open notification.
        guard fanOuts == 0, behindHorizon.isEmpty else { return open }
        return min(open, Int(clamping: max(0, offset - horizon.allowed)))
    }

    /// One past the last offset that may have been sent or is known to be settled.
    var sentEnd: Int64 {
        max(
            horizon.acknowledged, offsets.inheritedHorizon, offsets.mapEnd, offsets.committable ?? 0,
            offsets.committedAtAssignment ?? 0)
    }

    /// Whether the partition is being given up. Notifications that APNs did not process are then dropped.
    var isLeaving: Bool {
        switch phase {
        case .draining, .leaving, .left: true
        case .active, .suspended: false
        }
    }

    /// Whether the last commit of a partition that is given up may be sent.
    var mayLeave: Bool { phase == .leaving || phase == .draining && open == 0 }

    /// Whether a commit of the partition should be sent without waiting for the interval.
    var isUrgent: Bool {
        guard pending == nil, let base = offsets.committable else { return false }
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
        case .active, .draining, .leaving: pending == nil && offsets.committable != nil && (isDirty || isUrgent)
        case .left, .suspended: false
        }
    }

    // MARK: Received

    /// Adds a record to the partition. Its `count` is 1, and the caller may raise it.
    ///
    /// - Returns: The record and its settled indexes, or `nil` if the record is settled or was received before.
    mutating func receive(
        _ offset: Int64, in store: inout NotificationStore
    ) -> (record: RecordSlot, settledIndexes: [Range<Int64>])? {
        guard let settledIndexes = offsets.receive(offset, record: store.takeRecord()) else {
            isDirty = true
            return nil
        }
        let record = offsets.lastRecord
        store[record].partition = id.slot
        store[record].group = Int32(group)
        store[record].offset = offset
        store[record].position = offsets.lastPosition
        store[record].count = 1
        return (record, settledIndexes)
    }

    // MARK: Admission

    /// Appends a record to the partition's list of records that wait for admission.
    mutating func waitForAdmission(_ record: RecordSlot, in store: inout NotificationStore) {
        if firstAdmitting == .none { firstAdmitting = record } else { store[lastAdmitting].nextAdmitting = record }
        lastAdmitting = record
    }

    /// Removes the first record from the partition's list of records that wait for admission.
    mutating func finishAdmission(in store: inout NotificationStore) {
        let record = firstAdmitting
        firstAdmitting = store[record].nextAdmitting
        store[record].nextAdmitting = .none
        if firstAdmitting == .none { lastAdmitting = .none }
    }

    // MARK: Settled

    /// Settles and frees a record if all its notifications are admitted and settled.
    mutating func finish(_ record: RecordSlot, in store: inout NotificationStore) {
        guard store[record].isAdmitted, store[record].unsettled == 0, !store[record].isDropped,
            store[record].nextAdmitting == .none, firstAdmitting != record
        else { return }
        if store[record].count > 1 { fanOuts -= 1 }
        offsets.settle(store[record].position) { store[$0].position = $1 }
        isDirty = true
        store.giveBack(record)
    }

    // MARK: The horizon

    /// Appends a notification to the partition's list of notifications that wait for a higher send horizon.
    mutating func waitForHorizon(_ slot: NotificationSlot, in store: inout NotificationStore) {
        if behindHorizon.isEmpty { horizon.advance(to: store[recordOf: slot].offset) }
        store[slot].state = .behindHorizon
        behindHorizon.append(slot, in: &store)
    }

    /// Sorts the notifications that wait for the horizon by record. The list may be unsorted, because some of them were
    /// below an earlier horizon, and were appended when the lease ended or the horizon fell.
    mutating func sortBehindHorizon(in store: inout NotificationStore) {
        var waiting: [(offset: Int64, index: Int32, slot: NotificationSlot)] = []
        var next = behindHorizon.head
        while next != .none {
            waiting.append((store[recordOf: next].offset, store[next].index, next))
            next = store[next].next
        }
        waiting.sort { $0 < $1 }
        behindHorizon = Notification.List()
        for each in waiting { behindHorizon.append(each.slot, in: &store) }
    }
}

// Handles the replies to the partition's commits.
extension Partition {
    /// Handles an acknowledged commit.
    ///
    /// - Returns: Whether the partition may send notifications that were waiting for a higher send horizon.
    mutating func acknowledge(_ commit: Pending, journal: inout Journal) -> Bool {
        journal.counters.commitsAcknowledged &+= 1
        if let before = committed ?? offsets.committedAtAssignment {
            journal.counters.offsetsCommitted &+= commit.mark.offset - before
        }
        committed = commit.mark.offset
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
    mutating func refuse(_ outcome: CommitOutcome, journal: inout Journal) {
        journal.counters.commitsRefused &+= 1
        isDirty = true
        let isImpossible = outcome == .impossible
        let mostNs = outcome == .refusedByGroup ? CommitBackoff.groupPauseNs : CommitBackoff.longestPauseNs
        let longestNs = phase == .active ? mostNs : min(CommitBackoff.leavingPauseNs, mostNs)
        if commits.refuse(isImpossible: isImpossible, longestPauseNs: longestNs, nowNs: journal.now.ns) {
            journal.events.append(.commitsRefused(id, refusals: commits.refusals, isImpossible: isImpossible))
        }
        // If the topic does not exist, or the group may not read it, no successor can use the commit.
        if isImpossible, isLeaving { phase = .left }
    }

    /// Halves the limit of the next commit's metadata, because the metadata of `commit` was too large.
    mutating func halveMetadata(of commit: PartitionCommit, journal: inout Journal) {
        let half = min(metadataLimit, commit.metadata.count) / 2
        // Shorter metadata could not contain the horizon and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(.refused, journal: &journal) }
        metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }
}

extension Partition {
    /// The offset in a partition below which records may be handed to a transport. A commit contains the horizon before
    /// the worker uses it, so that the next owner knows after a crash which records may have been sent.
    ///
    /// The distance between the highest record handed out and the horizon is:
    /// - usually the number of offsets handed out in about three commit intervals (`pace`),
    /// - at least the number of records that contain `minimum` notifications, by the mean number per record,
    /// - at most `maximum` offsets, because a large gap between two records would otherwise look like a high rate.
    ///
    /// If a commit contains a lower horizon than the previous commit, the lower horizon applies immediately.
    package struct SendHorizon: Equatable {
        package static let maximum: Int64 = 100_000

        /// The horizon of the last acknowledged commit, or the lower horizon of a commit in flight. 0 if no commit was
        /// acknowledged.
        package private(set) var acknowledged: Int64 = 0
        /// Whether the group's last acknowledged commit is so old that another worker may own the partition now.
        package var isStale = false
        private let minimum: Int64
        /// The highest offset of a record that was handed to a transport, was deferred, or had to wait for the horizon.
        private var front: Int64 = -1
        private var startAtCommit: Int64?
        /// The number of offsets handed out per commit. It decreases slowly.
        private var pace: Int64 = 0
        /// Sixteen times the mean number of notifications per recent record.
        private var countTimes16: Int64 = 16

        package init(minimum: Int64) { self.minimum = minimum }

        package var margin: Int64 {
            let least = max(1, minimum * 16 / countTimes16)
            return min(max(least, 3 * pace), max(least, Self.maximum))
        }

        /// The limit in use: records at or above it wait for a commit.
        @inline(__always)
        package var allowed: Int64 { isStale ? 0 : acknowledged }

        @inline(__always)
        package func allows(_ offset: Int64) -> Bool { offset < allowed }

        /// Updates the mean number of notifications per record with the `count` of a received record.
        @inline(__always)
        package mutating func received(count: Int32) { countTimes16 += Int64(count) - (countTimes16 + 15) / 16 }

        /// Notes that the horizon must be above the record at `offset` (up to `OffsetLimit.highest`).
        @inline(__always)
        package mutating func advance(to offset: Int64) { if offset > front { front = offset } }

        /// Returns whether the horizon is less than half of `margin` above the records handed out, so that a commit
        /// should be sent immediately.
        package func isShort(from base: Int64) -> Bool {
            acknowledged < min(max(front + 1, base) + (margin + 1) / 2, base + CommitMap.longestHorizon)
        }

        /// Returns the minimum horizon of the commit that is created now, and updates `pace`. Call this once per
        /// commit.
        package mutating func next(from base: Int64) -> Int64 {
            let start = max(front + 1, base)
            if let startAtCommit { pace = max(min(start - startAtCommit, Self.maximum), pace - max(1, pace / 8)) }
            startAtCommit = start
            return min(start + margin, base + CommitMap.longestHorizon)
        }

        /// Notes that a commit with the horizon `named` is sent. If `named` is below the acknowledged horizon, it
        /// limits sending from now on. `named` may be above the result of `next`, to cover records that were sent or
        /// settled.
        package mutating func sent(naming named: Int64) {
            acknowledged = min(acknowledged, named)
        }

        package mutating func acknowledge(_ named: Int64) { acknowledged = named }

        /// Stops sending until the next commit is acknowledged.
        package mutating func withdraw() { acknowledged = 0 }
    }
}
