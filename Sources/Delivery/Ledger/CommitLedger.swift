import PushRecords

/// For each partition: what was received, what of it is settled and may be committed, how far ahead may be sent, and
/// what the group has committed.
///
/// It decides nothing about a notification: the machine acts on what its methods return.
struct CommitLedger: ~Copyable {
    /// Longest pause after a reply, however slow replies are.
    static let widestPauseNs: Int64 = 1_000_000_000
    /// The shortest time between two deferrals of a partition's oldest notifications because its map is nearly full.
    static let shorteningPauseNs: Int64 = 100_000_000
    /// How long a suspended partition is kept once its group gave this worker partitions again, without it.
    static let passedOverNs: Int64 = 10_000_000_000

    private let inPlace = InPlace()
    /// Assignments by slot, each where it is for as long as it lives.
    private var places: [UnsafeMutablePointer<Partition>?] = []
    private var lastGeneration: UInt32 = 0
    var writer: CommitWriter
    /// By `CommitGroup`.
    var commits = [InFlightCommit(), InFlightCommit()]
    let settings: MachineSettings

    init(_ settings: MachineSettings) {
        self.settings = settings
        writer = CommitWriter(hashSeed: settings.hashSeed)
    }

    deinit {
        for partition in slots { remove(partition) }
    }

    // MARK: Slots

    /// The assignment in a slot that is in use.
    subscript(partition: PartitionSlot) -> Partition {
        @inline(__always) unsafeAddress { UnsafePointer(address(of: partition)) }
        @inline(__always) unsafeMutableAddress { address(of: partition) }
    }

    @inline(__always)
    func address(of partition: PartitionSlot) -> UnsafeMutablePointer<Partition> {
        places[Int(partition.number)].unsafelyUnwrapped
    }

    /// The slot of an assignment, unless it is gone.
    @inline(__always)
    func find(_ id: PartitionID) -> PartitionSlot? {
        guard let slot = find(id.slot), self[slot].id.generation == id.generation else { return nil }
        return slot
    }

    /// The slot itself, unless nothing is there.
    @inline(__always)
    func find(_ slot: PartitionSlot) -> PartitionSlot? {
        Int(slot.number) < places.count && places[Int(slot.number)] != nil ? slot : nil
    }

    /// Slots that are, or were, in use.
    var count: Int { places.count }

    /// Slots in use, in order.
    var slots: some Sequence<PartitionSlot> {
        let places = places
        return places.indices.lazy.filter { places[$0] != nil }.map { PartitionSlot(UInt32($0)) }
    }

    /// The name of the next assignment, whose slot is free.
    mutating func nextID() -> PartitionID {
        nextID(at: PartitionSlot(UInt32(places.firstIndex { $0 == nil } ?? places.count)))
    }

    /// The next name of what is at this slot.
    private mutating func nextID(at slot: PartitionSlot) -> PartitionID {
        lastGeneration += 1
        return PartitionID(slot: slot, generation: lastGeneration)
    }

    private mutating func insert(_ partition: consuming Partition) {
        let slot = Int(partition.id.slot.number)
        if slot == places.count { places.append(nil) }
        precondition(places[slot] == nil, "an assignment has a slot of its own")
        let pointer = UnsafeMutablePointer<Partition>.allocate(capacity: 1)
        pointer.initialize(to: partition)
        places[slot] = pointer
    }

    private func remove(_ partition: PartitionSlot) {
        address(of: partition).deinitialize(count: 1)
        address(of: partition).deallocate()
    }

    // MARK: Assignments

    /// Begins an assignment, which is read from now on.
    ///
    /// - Parameters:
    ///   - committed: the committed offset, if one is known.
    ///   - lastCommit: the commit that the group has, if it is believed.
    mutating func begin(
        _ id: PartitionID, topic: String, number: Int32, group: Int, tierDelayMs: Int64, committed: Int64?,
        map: CommitMap, lastCommit: LastCommit?, metadataLimit: Int? = nil
    ) {
        insert(
            Partition(
                id: id, topic: topic, number: number, group: group, tierDelayMs: tierDelayMs,
                ledger: PartitionLedger(committed: committed, map: map),
                horizon: SendHorizon(minimum: settings.horizonMargin),
                metadataLimit: metadataLimit ?? settings.metadataLimit))
        self[id.slot].lastCommit = lastCommit
    }

    /// Suspends a partition whose session was lost: without a horizon nothing more of it is sent.
    mutating func suspend(_ partition: PartitionSlot, nowNs: Int64) {
        self[partition].phase = .suspended
        self[partition].releaseNs = nowNs + settings.suspendedLimitNs
        self[partition].horizon.withdraw()
        // The group may have taken it without this worker hearing of it.
        if let pending = self[partition].pending { self[partition].keepUnconfirmed(pending.mark) }
        self[partition].pending = nil
    }

    /// Goes on with a suspended partition under a new name.
    ///
    /// - Parameter mark: the commit of this assignment that the group has.
    mutating func resume(_ partition: PartitionSlot, _ mark: LastCommit) -> PartitionID {
        let id = nextID(at: partition)
        self[partition].id = id
        self[partition].phase = .active
        self[partition].lastCommit = mark
        self[partition].unconfirmed = []
        self[partition].committed = mark.offset
        self[partition].commits = CommitBackoff()
        self[partition].mapEighths = 0
        self[partition].isDirty = true
        return id
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
        remove(partition)
        places[Int(partition.number)] = nil
    }

    /// The suspended assignment of a partition.
    func suspended(topic: String, _ number: Int32) -> PartitionSlot? {
        slots.first {
            self[$0].phase == .suspended && self[$0].number == number && self[$0].topicText == topic
        }
    }

    /// The group gave this worker a partition: those that it does not give back are released soon.
    mutating func shortenSuspensions(flight: Int, nowNs: Int64) {
        for partition in slots where self[partition].flight == flight {
            self[partition].releaseNs = min(self[partition].releaseNs, nowNs + Self.passedOverNs)
        }
    }

    /// Suspended partitions that were not given back in time.
    func endedSuspensions(nowNs: Int64) -> [PartitionID] {
        slots.filter { self[$0].phase == .suspended && nowNs >= self[$0].releaseNs }.map { self[$0].id }
    }

    // MARK: Received

    /// Enters a record with one notification where it is open.
    ///
    /// - Returns: the record, and which of its indexes are settled; `nil` if it is not open.
    mutating func receive(
        _ partition: PartitionSlot, _ offset: Int64, in store: inout NotificationStore
    ) -> (record: RecordSlot, settledIndexes: [Range<Int64>])? {
        guard let settledIndexes = self[partition].ledger.receive(offset, record: store.takeRecord()) else {
            self[partition].isDirty = true
            return nil
        }
        let record = self[partition].ledger.lastRecord
        store[record].partition = partition
        store[record].group = Int32(self[partition].group)
        store[record].offset = offset
        store[record].position = self[partition].ledger.lastPosition
        store[record].count = 1
        return (record, settledIndexes)
    }

    // MARK: Records that are not wholly admitted

    /// Puts a record that could not be admitted wholly behind those of its partition that wait already.
    mutating func waitForAdmission(_ record: RecordSlot, _ partition: PartitionSlot, in store: inout NotificationStore)
    {
        if self[partition].firstAdmitting == .none {
            self[partition].firstAdmitting = record
        } else {
            store[self[partition].lastAdmitting].nextAdmitting = record
        }
        self[partition].lastAdmitting = record
    }

    /// Removes the first record that waits for admission.
    mutating func finishAdmission(_ partition: PartitionSlot, in store: inout NotificationStore) {
        let record = self[partition].firstAdmitting
        self[partition].firstAdmitting = store[record].nextAdmitting
        store[record].nextAdmitting = .none
        if self[partition].firstAdmitting == .none { self[partition].lastAdmitting = .none }
    }

    // MARK: Settled

    /// Enters a record as settled, and gives it back, once all of it is.
    mutating func finish(_ record: RecordSlot, in store: inout NotificationStore) {
        guard store[record].isAdmitted, store[record].unsettled == 0, !store[record].isDropped,
            store[record].nextAdmitting == .none,
            let partition = find(store[record].partition),
            self[partition].firstAdmitting != record
        else { return }
        if store[record].count > 1 { self[partition].fanOuts -= 1 }
        self[partition].ledger.settle(store[record].position) { store[$0].position = $1 }
        self[partition].isDirty = true
        store.giveBack(record)
    }

    /// Whether the partition of a notification is not being given up.
    func isSending(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        find(store[recordOf: slot].partition).map { !self[$0].isLeaving } ?? false
    }

    // MARK: The horizon

    /// Puts a notification behind those that wait for an acknowledged commit to name a higher horizon.
    mutating func waitForHorizon(
        _ slot: NotificationSlot, _ partition: PartitionSlot, in store: inout NotificationStore
    ) {
        if self[partition].behindHorizon.isEmpty {
            self[partition].horizon.advance(to: store[recordOf: slot].offset)
        }
        store[slot].state = .behindHorizon
        self[partition].behindHorizon.append(slot, in: &store)
    }

    /// Sorts what waits for the horizon by record: what passed it, and could not be sent before the lease ended, came
    /// back behind others.
    mutating func sortBehindHorizon(_ partition: PartitionSlot, in store: inout NotificationStore) {
        var waiting: [(offset: Int64, index: Int32, slot: NotificationSlot)] = []
        var isSorted = true
        var next = self[partition].behindHorizon.head
        while next != .none {
            let place = (store[recordOf: next].offset, store[next].index, next)
            if let last = waiting.last, place < last { isSorted = false }
            waiting.append(place)
            next = store[next].next
        }
        guard !isSorted else { return }
        waiting.sort { $0 < $1 }
        self[partition].behindHorizon = NotificationList()
        for each in waiting { self[partition].behindHorizon.append(each.slot, in: &store) }
    }

    /// Removes the partitions' leases that ended, and returns the partitions whose lease ended or began.
    ///
    /// A worker that was cut off from its group without noticing must not send what its successor sends unmarked:
    /// unless an acknowledged commit is young enough, notifications wait for the next one.
    mutating func renewLeases(nowNs: Int64) -> [PartitionSlot] {
        guard settings.leaseNs != .max else { return [] }
        var changed: [PartitionSlot] = []
        for partition in slots {
            let isStale = commits[self[partition].flight].provenNs.map { nowNs - $0 >= settings.leaseNs } ?? false
            guard isStale != self[partition].horizon.isStale else { continue }
            self[partition].horizon.isStale = isStale
            changed.append(partition)
        }
        return changed
    }

    // MARK: Status

    /// When a commit, or the release of a suspended partition, is due.
    var nextDeadlineNs: Int64? {
        var next: Int64?
        for partition in slots {
            if self[partition].wantsCommit, !commits[self[partition].flight].isInFlight {
                let nextNs = self[partition].isUrgent ? 0 : commits[self[partition].flight].nextNs
                next = min(next ?? .max, max(nextNs, self[partition].commits.untilNs))
            } else if self[partition].phase == .suspended {
                next = min(next ?? .max, self[partition].releaseNs)
            }
        }
        return next
    }
}
