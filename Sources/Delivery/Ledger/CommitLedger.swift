import PushRecords

/// What was received of each partition, what of it is settled and may be committed, how far ahead may be sent, and what
/// the group was told.
///
/// It decides nothing about a notification. What a reply or a lost session means for those that wait is told to the
/// machine, which acts on it.
struct CommitLedger: ~Copyable {
    /// Longest pause after a reply, however slow replies are.
    static let widestPauseNs: Int64 = 1_000_000_000
    /// How often a partition's oldest notifications may be held because its map is nearly full.
    static let shorteningPauseNs: Int64 = 100_000_000

    private let inPlace = InPlace()
    var partitions = PartitionTable()
    var writer: CommitWriter
    /// By `CommitGroup`.
    var commits = [InFlightCommit(), InFlightCommit()]
    /// Partitions that are detached or suspended (`Partition.isAssigned`).
    private(set) var unassignedCount = 0
    /// Partitions with records that are not wholly admitted.
    private(set) var admittingCount = 0
    /// Notifications of all partitions that wait for the horizon beside their device queues.
    private(set) var parked = 0
    let settings: MachineSettings

    init(_ settings: MachineSettings) {
        self.settings = settings
        writer = CommitWriter(hashSeed: settings.hashSeed)
    }

    /// The assignment in a slot that is in use.
    subscript(partition: PartitionSlot) -> Partition {
        @inline(__always) unsafeAddress { UnsafePointer(partitions.address(of: partition)) }
        @inline(__always) unsafeMutableAddress { partitions.address(of: partition) }
    }

    @inline(__always)
    func find(_ id: PartitionID) -> PartitionSlot? { partitions.find(id) }
    @inline(__always)
    func find(_ slot: PartitionSlot) -> PartitionSlot? { partitions.find(slot) }
    /// Those in use, in their order. To be gone through while none comes or goes.
    var slots: PartitionTable.Slots { partitions.slots }
    /// Slots that are, or were, in use.
    var count: Int { partitions.count }

    // MARK: Assignments

    /// Begins an assignment, which is read from now on.
    ///
    /// - Parameters:
    ///   - committed: what is known to be committed of it; `nil`: nothing.
    ///   - lastCommit: that one; `nil`: there is none.
    mutating func begin(
        _ id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64, committed: Int64?,
        map: CommitMap, lastCommit: LastCommit?, metadataLimit: Int? = nil
    ) {
        partitions.insert(
            Partition(
                id: id, topic: topic, number: number, group: group, tierDelayMs: tierDelayMs,
                ledger: PartitionLedger(committed: committed, map: map),
                horizon: SendHorizon(minimum: settings.reachMargin),
                metadataLimit: metadataLimit ?? settings.metadataLimit))
        self[id.slot].lastCommit = lastCommit
    }

    /// The name of the next assignment.
    mutating func nextID() -> PartitionID { partitions.nextID() }

    /// The log it was read from is gone.
    mutating func detach(_ partition: PartitionSlot) {
        self[partition].phase = .detached
        self[partition].pending = nil
        unassignedCount += 1
    }

    /// Its session was lost.
    mutating func suspend(_ partition: PartitionSlot, in store: inout NotificationStore, nowNs: Int64) {
        self[partition].phase = .suspended
        self[partition].suspendedNs = nowNs
        self[partition].nameableFrom = 0
        self[partition].isSpanFull = false
        // Whether it was taken is not known: it may still come.
        if let pending = self[partition].pending { self[partition].keepUnconfirmed(pending.mark) }
        unassignedCount += 1
        self[partition].ledger.forEachOpen { _, record in store.endUnderWay(of: record) }
    }

    /// It goes on under a new name.
    ///
    /// - Parameter mark: of the commit of ours that the group has.
    mutating func resume(_ partition: PartitionSlot, _ mark: LastCommit, logEnd: Int64?) -> PartitionID {
        let id = partitions.nextID(at: partition)
        self[partition].id = id
        self[partition].phase = .active
        self[partition].pending = nil
        self[partition].lastCommit = mark
        self[partition].unconfirmed = []
        self[partition].commits = CommitBackoff()
        self[partition].isDirty = true
        self[partition].horizon = SendHorizon(minimum: settings.reachMargin)
        if self[partition].committed != nil || mark.horizon > .none {
            self[partition].committed = mark.offset
        }
        self[partition].ledger.resume(from: mark.offset, doubtBelow: mark.horizon.cut(at: logEnd ?? .max))
        unassignedCount -= 1
        return id
    }

    /// What is open below the first that its last commit can name, whatever settles, is deferred rather than dropped.
    mutating func keepNameable(_ partition: PartitionSlot, in store: borrowing NotificationStore) {
        let budget = CommitMapWriter.budget(characters: self[partition].metadataLimit)
        self[partition].nameableFrom = firstNameable(partition, budget: budget, in: store) ?? 0
    }

    /// It is given up now, whatever is open.
    mutating func beginRelease(_ partition: PartitionSlot) {
        if !self[partition].isAssigned { unassignedCount -= 1 }
        self[partition].phase = .left
    }

    /// Forgets an assignment. Records with something on a connection outlive it.
    mutating func forget(_ partition: PartitionSlot, in store: inout NotificationStore) {
        self[partition].ledger.forEachOpen { _, record in
            if store[record].handed > 0 {
                store[record].partition = .none
            } else {
                store.giveBack(record)
            }
        }
        partitions.remove(partition)
    }

    // MARK: Received

    /// The offset was reset below what was committed: everything from here on is new.
    mutating func reset(_ partition: PartitionSlot) {
        self[partition].ledger.reset()
        // Nothing is sent before the offset that is right now was committed; a commit in flight says nothing.
        self[partition].horizon = SendHorizon(minimum: settings.reachMargin)
        self[partition].pending = nil
        // It does not go on from what was committed before, should it be lost and come back.
        self[partition].lastCommit = nil
        self[partition].unconfirmed = []
    }

    /// Open records that do not come again below this offset, although the partition is read again.
    func passedOver(_ partition: PartitionSlot, below offset: Int64) -> [RecordSlot] {
        self[partition].ledger.isRereading ? self[partition].ledger.passedOver(below: offset) : []
    }

    /// Enters a record.
    mutating func receive(
        _ partition: PartitionSlot, _ offset: Int64, in store: inout NotificationStore
    ) -> PartitionLedger.Arrival {
        let arrival = self[partition].ledger.receive(offset, record: store.takeRecord())
        if case .settledBefore = arrival { self[partition].isDirty = true }
        return arrival
    }

    // MARK: Records that are not wholly admitted

    /// Puts a record that could not be admitted wholly behind those of its partition that wait already.
    mutating func waitForAdmission(_ record: RecordSlot, _ partition: PartitionSlot, in store: inout NotificationStore)
    {
        if self[partition].firstAdmitting == .none {
            self[partition].firstAdmitting = record
            admittingCount += 1
        } else {
            store[self[partition].lastAdmitting].nextAdmitting = record
        }
        self[partition].lastAdmitting = record
    }

    /// The first of those that wait is admitted.
    mutating func finishAdmission(_ partition: PartitionSlot, in store: inout NotificationStore) {
        let record = self[partition].firstAdmitting
        self[partition].firstAdmitting = store[record].nextAdmitting
        store[record].nextAdmitting = .none
        if self[partition].firstAdmitting == .none {
            self[partition].lastAdmitting = .none
            admittingCount -= 1
        }
    }

    /// Takes one that waits out, for good; `nil`: none does.
    mutating func dropWaiting(_ partition: PartitionSlot, in store: inout NotificationStore) -> RecordSlot? {
        let record = self[partition].firstAdmitting
        guard record != .none else { return nil }
        finishAdmission(partition, in: &store)
        store[record].drop()
        return record
    }

    // MARK: Settled

    /// A notification is gone, settled or dropped.
    mutating func countGone(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        guard let partition = partitions.find(store[recordOf: slot].partition) else { return }
        precondition(self[partition].open > 0, "what is gone was open")
        self[partition].open -= 1
        if case .concluded(.deadLetter) = store[slot].state { self[partition].deadLetters -= 1 }
    }

    /// Enters a record as settled, and gives it back, once all of it is.
    mutating func finish(_ record: RecordSlot, in store: inout NotificationStore) {
        guard store[record].isAdmitted, store[record].unsettled == 0, !store[record].isDropped,
            store[record].nextAdmitting == .none,
            let partition = partitions.find(store[record].partition),
            self[partition].firstAdmitting != record
        else { return }
        if store[record].count > 1 { self[partition].fanOuts -= 1 }
        self[partition].ledger.settle(store[record].position) { store[$0].position = $1 }
        self[partition].isDirty = true
        store.giveBack(record)
    }

    // MARK: The horizon

    /// Whether a notification may be sent, or moved to a tier.
    @inline(__always)
    func allows(_ slot: NotificationSlot, _ partition: PartitionSlot, in store: borrowing NotificationStore)
        -> Bool
    {
        self[partition].horizon.allows(store[recordOf: slot].offset, store[slot].index)
    }

    /// It is sent, or moved: no later commit may say that it cannot have been.
    @inline(__always)
    mutating func advanceHorizon(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: borrowing NotificationStore
    ) {
        self[partition].horizon.advance(to: store[recordOf: slot].offset, store[slot].index)
    }

    /// It waits until an acknowledged commit names a horizon above its record.
    mutating func waitForHorizon(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        if self[partition].behindHorizon.isEmpty { advanceHorizon(slot, partition, in: store) }
        queueBehindHorizon(slot, partition, in: &store)
    }

    /// As `waitForHorizon`, of one behind others.
    mutating func queueBehindHorizon(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        store.move(slot, to: .behindHorizon)
        self[partition].behindHorizon.append(slot, in: &store)
    }

    /// What waits beside its device queue stands in the order of its records again: what passed the horizon, and could
    /// not be sent before the lease was over, came back behind others.
    mutating func orderBehindHorizon(_ partition: PartitionSlot, in store: inout NotificationStore) {
        func position(_ slot: NotificationSlot) -> (Int64, Int32) { (store[recordOf: slot].offset, store[slot].index) }
        var waiting: [NotificationSlot] = []
        var isInOrder = true
        var next = self[partition].behindHorizon.head
        while next != .none {
            if let last = waiting.last, position(next) < position(last) { isInOrder = false }
            waiting.append(next)
            next = store[next].next
        }
        guard !isInOrder else { return }
        waiting.sort { position($0) < position($1) }
        self[partition].behindHorizon = NotificationList()
        for slot in waiting { self[partition].behindHorizon.append(slot, in: &store) }
    }

    /// It waits beside its device queue, of which it is no member.
    mutating func park(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        guard store[slot].standing != .parked else { return }
        store[slot].standing = .parked
        self[partition].parked += 1
        parked += 1
    }

    /// It no longer waits for the horizon.
    mutating func leaveHorizon(_ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore)
    {
        self[partition].behindHorizon.remove(slot, from: &store)
        guard store[slot].standing == .parked else { return }
        precondition(self[partition].parked > 0, "what was parked is counted")
        store[slot].standing = .outside
        self[partition].parked -= 1
        parked -= 1
    }

    /// A worker that was cut off from its group and does not know it must not send what its successor sends unmarked:
    /// without an acknowledged commit that is young enough, what is to be sent waits for the next one.
    ///
    /// - Returns: the partitions for which that is so now, or is so no more.
    mutating func renewLeases(nowNs: Int64) -> [PartitionSlot] {
        guard settings.leaseNs != .max else { return [] }
        var changed: [PartitionSlot] = []
        for partition in partitions.slots where self[partition].phase != .detached {
            let isStale = commits[self[partition].flight].provenNs.map { nowNs - $0 >= settings.leaseNs } ?? false
            guard isStale != self[partition].horizon.isStale else { continue }
            self[partition].horizon.isStale = isStale
            changed.append(partition)
        }
        return changed
    }

    // MARK: Neither read nor given up

    // Detached partitions, whose log is gone, and suspended ones, whose session was lost.

    /// What is open of the logs that the partitions of these assignments had before.
    func detached(before ids: [PartitionID]) -> [PartitionID] {
        guard unassignedCount > 0 else { return [] }
        var found: [PartitionID] = []
        for id in ids {
            guard let partition = partitions.find(id) else { continue }
            for other in partitions.slots
            where self[other].phase == .detached && self[other].number == self[partition].number
                && self[other].topicText == self[partition].topicText
            {
                found.append(self[other].id)
            }
        }
        return found
    }

    /// Whether something is open of a log that is gone.
    var hasDetached: Bool {
        guard unassignedCount > 0 else { return false }
        for partition in partitions.slots where self[partition].phase == .detached { return true }
        return false
    }

    /// What this partition left behind when its session was lost.
    func suspended(topic: String, _ number: Int32) -> PartitionSlot? {
        guard unassignedCount > 0 else { return nil }
        for partition in partitions.slots
        where self[partition].phase == .suspended && self[partition].number == number
            && self[partition].topicText == topic
        {
            return partition
        }
        return nil
    }

    /// One past the last offset that is open, or was, of logs that this partition had before: a log that was only cut
    /// still has some of these records. 0: there are none.
    func detachedEnd(topic: String, _ number: Int32) -> Int64 {
        guard unassignedCount > 0 else { return 0 }
        var end: Int64 = 0
        for partition in partitions.slots
        where self[partition].phase == .detached && self[partition].number == number
            && self[partition].topicText == topic
        {
            end = max(end, self[partition].sentEnd, self[partition].ledger.highestReceived + 1)
        }
        return end
    }

    /// Detached assignments that are over, since nothing of them is open, and suspended ones that were not given back
    /// in time.
    func endedUnassigned(nowNs: Int64) -> (over: [PartitionID], late: [PartitionID]) {
        var over: [PartitionID] = []
        var late: [PartitionID] = []
        for partition in partitions.slots {
            switch self[partition].phase {
            case .detached:
                if self[partition].open == 0, self[partition].firstAdmitting == .none {
                    over.append(self[partition].id)
                }
            case .suspended:
                if nowNs - self[partition].suspendedNs >= settings.suspendedLimitNs {
                    late.append(self[partition].id)
                }
            case .active, .draining, .leaving, .left:
                break
            }
        }
        return (over, late)
    }

    // MARK: How it stands

    /// When a commit, or the end of a suspended partition, is due; `nil`: none is.
    var nextDeadlineNs: Int64? {
        var next: Int64?
        for partition in partitions.slots where self[partition].wantsCommit {
            let flight = self[partition].flight
            guard commits[flight].partitions.isEmpty else { continue }
            let dueNs = max(
                self[partition].isUrgent ? 0 : commits[flight].nextNs, self[partition].commits.untilNs)
            next = min(next ?? .max, dueNs)
        }
        guard unassignedCount > 0 else { return next }
        for partition in partitions.slots where self[partition].phase == .suspended {
            next = min(next ?? .max, self[partition].suspendedNs + settings.suspendedLimitNs)
        }
        return next
    }
}
