import PushRecords

/// What was received of each partition, what of it is settled and may be committed, how far ahead may be sent, and what
/// the group was told.
///
/// It decides nothing about a notification. What a reply or a lost session means for those that wait is told to the
/// machine, which acts on it.
struct CommitLedger: ~Copyable {
    /// Longest pause after a reply, however slow replies are.
    private static let widestPauseNs: Int64 = 1_000_000_000
    /// How often a partition's oldest notifications may be held because its map is nearly full.
    private static let shorteningPauseNs: Int64 = 100_000_000

    private let inPlace = InPlace()
    private(set) var partitions = PartitionTable()
    private var writer: CommitWriter
    /// By `CommitGroup`.
    private(set) var flights = [CommitFlight(), CommitFlight()]
    /// Partitions that are detached or suspended (`Partition.isAssigned`).
    private(set) var unassignedCount = 0
    /// Partitions with records that are not wholly admitted.
    private(set) var admittingCount = 0
    /// Notifications of all partitions that wait for the reach beside their device queues.
    private(set) var besideQueues = 0
    let settings: MachineSettings

    init(_ settings: MachineSettings) {
        self.settings = settings
        writer = CommitWriter(hashSeed: settings.hashSeed)
    }

    // MARK: Assignments

    /// Begins an assignment, which is read from now on.
    ///
    /// - Parameters:
    ///   - committed: what is known to be committed of it; `nil`: nothing.
    ///   - lastCommit: that one; `nil`: there is none.
    mutating func begin(
        _ id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64, committed: Int64?,
        map: CommitMap, lastCommit: CommitMark?, metadataLimit: Int? = nil
    ) {
        partitions.insert(
            Partition(
                id: id, topic: topic, number: number, group: group, tierDelayMs: tierDelayMs,
                ledger: PartitionLedger(committed: committed, map: map), reach: Reach(minimum: settings.reachMargin),
                metadataLimit: metadataLimit ?? settings.metadataLimit))
        partitions[id.slot].lastCommit = lastCommit
    }

    /// The name of the next assignment.
    mutating func nextID() -> PartitionID { partitions.nextID() }

    /// Whether it counts as one that is read, where the room is shared; returns whether that is news.
    mutating func setShared(_ partition: PartitionSlot, _ isShared: Bool) -> Bool {
        guard partitions[partition].isShared != isShared else { return false }
        partitions[partition].isShared = isShared
        return true
    }

    /// The log it was read from is gone.
    mutating func detach(_ partition: PartitionSlot) {
        partitions[partition].phase = .detached
        partitions[partition].pending = nil
        unassignedCount += 1
    }

    /// Its session was lost.
    mutating func suspend(_ partition: PartitionSlot, in store: inout NotificationStore, nowNs: Int64) {
        partitions[partition].phase = .suspended
        partitions[partition].suspendedNs = nowNs
        partitions[partition].nameableFrom = 0
        partitions[partition].isSpanFull = false
        // Whether it was taken is not known: it may still come.
        if let pending = partitions[partition].pending { partitions[partition].keepUnconfirmed(pending.mark) }
        unassignedCount += 1
        partitions[partition].ledger.forEachOpen { _, record in store.endUnderWay(of: record) }
    }

    /// Share groups of all partitions, read or not.
    var groups: Set<Int> {
        var groups: Set<Int> = []
        for partition in partitions.slots { groups.insert(partitions[partition].group) }
        return groups
    }

    /// It goes on under a new name.
    ///
    /// - Parameter mark: of the commit of ours that the group has.
    mutating func resume(_ partition: PartitionSlot, _ mark: CommitMark, logEnd: Int64?) -> PartitionID {
        let id = partitions.nextID(at: partition)
        partitions[partition].id = id
        partitions[partition].phase = .active
        partitions[partition].pending = nil
        partitions[partition].lastCommit = mark
        partitions[partition].unconfirmed = []
        partitions[partition].commits = CommitStanding()
        partitions[partition].isDirty = true
        partitions[partition].reach = Reach(minimum: settings.reachMargin)
        if partitions[partition].committed != nil || mark.reach > .none {
            partitions[partition].committed = mark.offset
        }
        partitions[partition].ledger.resume(from: mark.offset, doubtBelow: mark.reach.cut(at: logEnd ?? .max))
        unassignedCount -= 1
        return id
    }

    /// Begins to give a partition up; `nil`: it is not one that is read.
    mutating func beginLeaving(_ id: PartitionID) -> PartitionSlot? {
        guard let partition = partitions.find(id), partitions[partition].phase == .active else { return nil }
        partitions[partition].phase = .draining
        partitions[partition].isDirty = true
        return partition
    }

    /// What is open below the first that its last commit can name, whatever settles, is held rather than dropped.
    mutating func holdUnnameable(_ partition: PartitionSlot, in store: borrowing NotificationStore) {
        let budget = CommitMapWriter.budget(characters: partitions[partition].metadataLimit)
        partitions[partition].nameableFrom = firstNameable(partition, budget: budget, in: store) ?? 0
    }

    /// Its last commit goes out now.
    mutating func stopWaiting(_ id: PartitionID) {
        guard let partition = partitions.find(id), partitions[partition].phase == .draining else { return }
        partitions[partition].phase = .leaving
    }

    /// It has left if nothing was ever read or committed: there is nothing to say.
    mutating func leaveUnread(_ id: PartitionID) {
        guard let partition = partitions.find(id), partitions[partition].ledger.committable == nil else { return }
        partitions[partition].phase = .left
    }

    /// It is given up now, whatever is open; `nil`: it is gone.
    mutating func beginRelease(_ id: PartitionID) -> PartitionSlot? {
        guard let partition = partitions.find(id) else { return nil }
        if !partitions[partition].isAssigned { unassignedCount -= 1 }
        partitions[partition].phase = .left
        return partition
    }

    /// Forgets an assignment. Records with something on a connection outlive it.
    mutating func forget(_ partition: PartitionSlot, in store: inout NotificationStore) {
        partitions[partition].ledger.forEachOpen { _, record in
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
        partitions[partition].ledger.reset()
        // Nothing is sent before the offset that is right now was committed; a commit in flight says nothing.
        partitions[partition].reach = Reach(minimum: settings.reachMargin)
        partitions[partition].pending = nil
        // It does not go on from what was committed before, should it be lost and come back.
        partitions[partition].lastCommit = nil
        partitions[partition].unconfirmed = []
    }

    /// Open records that do not come again below this offset, although the partition is read again.
    func passedOver(_ partition: PartitionSlot, below offset: Int64) -> [RecordSlot] {
        partitions[partition].ledger.isRereading ? partitions[partition].ledger.passedOver(below: offset) : []
    }

    /// Enters a record.
    mutating func receive(
        _ partition: PartitionSlot, _ offset: Int64, in store: inout NotificationStore
    ) -> PartitionLedger.Arrival {
        let arrival = partitions[partition].ledger.receive(offset, record: store.takeRecord())
        if case .settledBefore = arrival { partitions[partition].isDirty = true }
        return arrival
    }

    /// It has more than one notification.
    mutating func countFanOut(_ partition: PartitionSlot) { partitions[partition].fanOuts += 1 }

    /// One notification of a record is admitted.
    mutating func countOpen(of record: RecordSlot, in store: borrowing NotificationStore) {
        if let partition = partitions.find(store[record].partition) { partitions[partition].open += 1 }
    }

    mutating func countDeadLetter(of record: RecordSlot, in store: borrowing NotificationStore) {
        guard let partition = partitions.find(store[record].partition) else { return }
        partitions[partition].deadLetters += 1
    }

    // MARK: Records that are not wholly admitted

    /// Puts a record that could not be admitted wholly behind those of its partition that wait already.
    mutating func waitForAdmission(_ record: RecordSlot, _ partition: PartitionSlot, in store: inout NotificationStore)
    {
        if partitions[partition].firstAdmitting == .none {
            partitions[partition].firstAdmitting = record
            admittingCount += 1
        } else {
            store[partitions[partition].lastAdmitting].nextAdmitting = record
        }
        partitions[partition].lastAdmitting = record
    }

    /// The first of those that wait is admitted.
    mutating func finishAdmission(_ partition: PartitionSlot, in store: inout NotificationStore) {
        let record = partitions[partition].firstAdmitting
        partitions[partition].firstAdmitting = store[record].nextAdmitting
        store[record].nextAdmitting = .none
        if partitions[partition].firstAdmitting == .none {
            partitions[partition].lastAdmitting = .none
            admittingCount -= 1
        }
    }

    /// Takes one that waits out, for good; `nil`: none does.
    mutating func dropWaiting(_ partition: PartitionSlot, in store: inout NotificationStore) -> RecordSlot? {
        let record = partitions[partition].firstAdmitting
        guard record != .none else { return nil }
        finishAdmission(partition, in: &store)
        store[record].drop()
        return record
    }

    // MARK: Settled

    /// A notification of this record settled: the next commit says more.
    mutating func noteSettled(of record: RecordSlot, in store: borrowing NotificationStore) {
        if let partition = partitions.find(store[record].partition) {
            partitions[partition].isDirty = true
        }
    }

    /// A notification is gone, settled or dropped.
    mutating func countGone(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        guard let partition = partitions.find(store[recordOf: slot].partition) else { return }
        precondition(partitions[partition].open > 0, "what is gone was open")
        partitions[partition].open -= 1
        if store[slot].isDeadLetter { partitions[partition].deadLetters -= 1 }
    }

    /// Enters a record as settled, and gives it back, once all of it is.
    mutating func finish(_ record: RecordSlot, in store: inout NotificationStore) {
        guard store[record].isAdmitted, store[record].unsettled == 0, !store[record].isDropped,
            store[record].nextAdmitting == .none,
            let partition = partitions.find(store[record].partition),
            partitions[partition].firstAdmitting != record
        else { return }
        if store[record].count > 1 { partitions[partition].fanOuts -= 1 }
        partitions[partition].ledger.settle(store[record].position) { store[$0].position = $1 }
        partitions[partition].isDirty = true
        store.giveBack(record)
    }

    // MARK: The reach

    /// Whether a notification may be sent, or moved to a tier.
    @inline(__always)
    func reachAllows(_ slot: NotificationSlot, _ partition: PartitionSlot, in store: borrowing NotificationStore)
        -> Bool
    {
        partitions[partition].reach.allows(store[recordOf: slot].offset, store[slot].index)
    }

    /// It is sent, or moved: no later commit may say that it cannot have been.
    @inline(__always)
    mutating func advanceReach(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: borrowing NotificationStore
    ) {
        partitions[partition].reach.advance(to: store[recordOf: slot].offset, store[slot].index)
    }

    /// A record is to be admitted further: the next commit is to name it.
    mutating func raiseReach(to record: RecordSlot, _ partition: PartitionSlot, in store: borrowing NotificationStore) {
        partitions[partition].reach.advance(to: store[record].offset, store[record].cursor.index)
    }

    /// Whoever could read what is open of this log was told, or never will be.
    mutating func allowAll(_ partition: PartitionSlot) { partitions[partition].reach.allowAll() }

    /// It waits until an acknowledged commit names a reach above its record.
    mutating func waitForReach(_ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore)
    {
        if partitions[partition].behindReach.isEmpty { advanceReach(slot, partition, in: store) }
        queueBehindReach(slot, partition, in: &store)
    }

    /// As `waitForReach`, of one behind others.
    mutating func queueBehindReach(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        store.move(slot, to: .behindReach)
        partitions[partition].behindReach.append(slot, in: &store)
    }

    /// What waits beside its device queue stands in the order of its records again: what passed the reach, and could
    /// not be sent before the lease was over, came back behind others.
    mutating func orderBehindReach(_ partition: PartitionSlot, in store: inout NotificationStore) {
        func position(_ slot: NotificationSlot) -> (Int64, Int32) { (store[recordOf: slot].offset, store[slot].index) }
        var waiting: [NotificationSlot] = []
        var isInOrder = true
        var next = partitions[partition].behindReach.head
        while next != .none {
            if let last = waiting.last, position(next) < position(last) { isInOrder = false }
            waiting.append(next)
            next = store[next].next
        }
        guard !isInOrder else { return }
        waiting.sort { position($0) < position($1) }
        partitions[partition].behindReach = NotificationList()
        for slot in waiting { partitions[partition].behindReach.append(slot, in: &store) }
    }

    /// It waits beside its device queue, of which it is no member.
    mutating func markBesideQueue(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        guard !store[slot].isBesideQueue else { return }
        store[slot].isBesideQueue = true
        partitions[partition].besideQueues += 1
        besideQueues += 1
    }

    /// It no longer waits for the reach.
    mutating func leaveReach(_ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore) {
        partitions[partition].behindReach.remove(slot, from: &store)
        guard store[slot].isBesideQueue else { return }
        precondition(partitions[partition].besideQueues > 0, "who leaves the list beside its device queue was in it")
        store[slot].isBesideQueue = false
        partitions[partition].besideQueues -= 1
        besideQueues -= 1
    }

    /// A worker that was cut off from its group and does not know it must not send what its successor sends unmarked:
    /// without an acknowledged commit that is young enough, what is to be sent waits for the next one.
    ///
    /// - Returns: the partitions for which that is so now, or is so no more.
    mutating func renewLeases(nowNs: Int64) -> [PartitionSlot] {
        guard settings.leaseNs != .max else { return [] }
        var changed: [PartitionSlot] = []
        for partition in partitions.slots where partitions[partition].phase != .detached {
            let isStale = flights[partitions[partition].flight].provenNs.map { nowNs - $0 >= settings.leaseNs } ?? false
            guard isStale != partitions[partition].reach.isStale else { continue }
            partitions[partition].reach.isStale = isStale
            changed.append(partition)
        }
        return changed
    }

    // MARK: Commits

    /// Begins what this group is to commit now, if anything.
    ///
    /// - Returns: the partitions of which it is.
    mutating func takeCommit(
        of group: CommitGroup, in store: borrowing NotificationStore, nowNs: Int64, journal: inout Journal
    ) -> [PartitionID] {
        let flight = group.rawValue
        guard flights[flight].partitions.isEmpty else { return [] }
        var isTime = false
        var alone: PartitionSlot?
        for partition in partitions.slots where isReadyToCommit(partition, flight, nowNs) {
            guard nowNs >= flights[flight].nextNs || partitions[partition].isUrgent else { continue }
            if !partitions[partition].commits.isAlone {
                isTime = true
            } else if alone == nil || partition > flights[flight].lastAlone {
                // The next one in turn: the first above the last, else the first of all.
                if let alone, alone > flights[flight].lastAlone { continue }
                alone = partition
            }
        }
        if let alone, !isTime || !flights[flight].isAlone {
            flights[flight].begin(nowNs, intervalNs: nil)
            flights[flight].lastAlone = alone
            flights[flight].append(writer.entry(of: &partitions[alone], in: store, journal: &journal))
        } else if isTime {
            flights[flight].begin(nowNs, intervalNs: settings.commitIntervalNs)
            for partition in partitions.slots where isReadyToCommit(partition, flight, nowNs) {
                guard !partitions[partition].commits.isAlone else { continue }
                flights[flight].append(writer.entry(of: &partitions[partition], in: store, journal: &journal))
            }
        } else {
            return []
        }
        journal.counters.commits &+= 1
        return flights[flight].partitions
    }

    /// The commit that was begun, as it is to be sent.
    func entries(of group: CommitGroup) -> [PartitionCommit] { flights[group.rawValue].entries }

    private func isReadyToCommit(_ partition: PartitionSlot, _ flight: Int, _ nowNs: Int64) -> Bool {
        partitions[partition].flight == flight && nowNs >= partitions[partition].commits.untilNs
            && partitions[partition].wantsCommit
    }

    /// The number by which the commits of an assignment are known as its own.
    func owner(of id: PartitionID) -> Int64 { writer.owner(of: id) }

    // MARK: Replies

    /// What a reply means for what waits of a partition.
    enum Reply {
        case nothing
        /// Its reach may have moved, and so may what waits for it.
        case acknowledged(PartitionSlot)
        /// Nobody can be told where it stands.
        case impossible(PartitionSlot)
    }

    /// A reply came: `replied` for each of these partitions, then `endReply`. When replies slow down, so do commits:
    /// the pause is as long as the reply took, but no longer than `widestPauseNs`.
    mutating func beginReply(of group: CommitGroup, nowNs: Int64) -> [PartitionID] {
        let flight = group.rawValue
        guard !flights[flight].partitions.isEmpty else { return [] }
        if !flights[flight].isAlone {
            let replyNs = nowNs - flights[flight].sentNs
            flights[flight].nextNs = max(flights[flight].nextNs, nowNs + min(replyNs, Self.widestPauseNs))
        }
        return flights[flight].partitions
    }

    mutating func endReply(of group: CommitGroup) {
        flights[group.rawValue].partitions.removeAll(keepingCapacity: true)
    }

    /// Characters of the longest metadata among the commits of these that are under way.
    func longestPending(_ ids: [PartitionID]) -> Int {
        var longest = 0
        for id in ids {
            guard let partition = partitions.find(id) else { continue }
            longest = max(longest, partitions[partition].pending?.characters ?? 0)
        }
        return longest
    }

    /// - Parameter longest: the broker refuses all for the sake of one: metadata that is much shorter is not to blame.
    mutating func replied(
        _ id: PartitionID, _ outcome: CommitOutcome, longest: Int, nowNs: Int64, journal: inout Journal
    ) -> Reply {
        guard let partition = partitions.find(id), let pending = partitions[partition].pending else { return .nothing }
        let flight = partitions[partition].flight
        partitions[partition].pending = nil
        if outcome != .acknowledged { partitions[partition].keepUnconfirmed(pending.mark) }
        switch outcome {
        case .acknowledged:
            flights[flight].provenNs = flights[flight].sentNs
            return partitions[partition].acknowledge(pending, journal: &journal) ? .acknowledged(partition) : .nothing
        case .metadataTooLarge:
            partitions[partition].isDirty = true
            flights[flight].nextNs = nowNs
            guard pending.characters * 2 > longest else { return .nothing }
            journal.events.append(.metadataRefused(id, characters: pending.characters))
            partitions[partition].halveMetadata(of: pending, nowNs: nowNs, journal: &journal)
        case .refused:
            partitions[partition].refuse(isImpossible: false, nowNs: nowNs, journal: &journal)
        case .refusedByGroup:
            partitions[partition].refuse(
                isImpossible: false, longestPauseNs: CommitStanding.groupPauseNs, nowNs: nowNs, journal: &journal)
        case .impossible:
            partitions[partition].refuse(isImpossible: true, nowNs: nowNs, journal: &journal)
            return .impossible(partition)
        case .unattributed:
            partitions[partition].isDirty = true
            partitions[partition].commits.askAlone()
        }
        return .nothing
    }

    // MARK: What a map can name

    /// Looks how full the map of the last commit was. While it is nearly full nothing more is read of the partition.
    ///
    /// - Returns: below what offset the oldest that wait are to be held, so that half of the map would do.
    mutating func shortenSpan(
        _ id: PartitionID, mayHold: Bool, in store: borrowing NotificationStore, nowNs: Int64
    ) -> Int64? {
        guard let partition = partitions.find(id), partitions[partition].phase == .active else { return nil }
        let eighths = partitions[partition].mapEighths
        partitions[partition].isSpanFull = eighths >= (partitions[partition].isSpanFull ? 6 : 7)
        guard eighths >= 6, mayHold, nowNs >= partitions[partition].nextShorteningNs else { return nil }
        partitions[partition].nextShorteningNs = nowNs + Self.shorteningPauseNs
        let budget = CommitMapWriter.budget(characters: partitions[partition].metadataLimit) / 2
        return firstNameable(partition, budget: budget, in: store)
    }

    /// What is open below it has to settle for a map within `budget` bytes to name all.
    private func firstNameable(
        _ partition: PartitionSlot, budget: Int, in store: borrowing NotificationStore
    ) -> Int64? {
        partitions[partition].ledger.firstNameable(budget: budget) { record in
            let count = Int(store[record].count)
            guard count > 1, store[record].cursor.index > 0 || store[record].hasSettledIndexes
            else { return 0 }
            // Each index that stays open parts two runs.
            let open = Int(store[record].unsettled) + max(0, count - Int(store[record].cursor.index))
            return 8 + min(count / 8 + 1, 6 * (open + 1))
        }
    }

    // MARK: How it stands

    /// When a commit, or the end of a suspended partition, is due; `nil`: none is.
    var nextDeadlineNs: Int64? {
        var next: Int64?
        for partition in partitions.slots where partitions[partition].wantsCommit {
            let flight = partitions[partition].flight
            guard flights[flight].partitions.isEmpty else { continue }
            let dueNs = max(
                partitions[partition].isUrgent ? 0 : flights[flight].nextNs, partitions[partition].commits.untilNs)
            next = min(next ?? .max, dueNs)
        }
        guard unassignedCount > 0 else { return next }
        for partition in partitions.slots where partitions[partition].phase == .suspended {
            next = min(next ?? .max, partitions[partition].suspendedNs + settings.suspendedLimitNs)
        }
        return next
    }
}
