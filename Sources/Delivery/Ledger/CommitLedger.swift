import PushRecords

/// The received, settled and committed records of each partition, and each partition's send horizon.
///
/// The ledger makes no decisions about notifications. The machine acts on the values that the ledger returns.
struct CommitLedger: ~Copyable {
    /// The maximum time by which a slow reply to a commit delays the group's next commit.
    static let widestPauseNs: Int64 = 1_000_000_000
    /// The number of settled notifications that shortens the commit interval.
    static let busySettled = 200
    /// The shortened interval.
    static let busyIntervalNs: Int64 = 20_000_000
    /// The minimum time between two deferrals of a partition's oldest notifications because its commit map is nearly
    /// full.
    static let shorteningPauseNs: Int64 = 100_000_000
    /// How long a suspended partition is retained after an assignment of its group that does not contain it.
    static let passedOverNs: Int64 = 10_000_000_000

    private let inPlace = InPlace()
    /// The assignments by slot. Each has a fixed address while it exists.
    private var places: [UnsafeMutablePointer<Partition>?] = []
    private var lastGeneration: UInt32 = 0
    var map = CommitMapWriter()
    /// The latest commit of each group, by `CommitGroup`.
    var commits = [InFlightCommit(), InFlightCommit()]
    let settings: MachineSettings

    init(_ settings: MachineSettings) { self.settings = settings }

    deinit {
        for partition in slots { remove(partition) }
    }

    // MARK: Slots

    /// The assignment in a slot. The slot must be in use.
    subscript(partition: PartitionSlot) -> Partition {
        @inline(__always) unsafeAddress { UnsafePointer(address(of: partition)) }
        @inline(__always) unsafeMutableAddress { address(of: partition) }
    }

    @inline(__always)
    func address(of partition: PartitionSlot) -> UnsafeMutablePointer<Partition> {
        places[Int(partition.number)].unsafelyUnwrapped
    }

    /// Returns the slot of an assignment, or `nil` if the assignment has ended.
    @inline(__always)
    func find(_ id: PartitionID) -> PartitionSlot? {
        guard let slot = find(id.slot), self[slot].id.generation == id.generation else { return nil }
        return slot
    }

    /// Returns the slot, or `nil` if no assignment uses it.
    @inline(__always)
    func find(_ slot: PartitionSlot) -> PartitionSlot? {
        Int(slot.number) < places.count && places[Int(slot.number)] != nil ? slot : nil
    }

    /// The number of slots that are or were in use.
    var count: Int { places.count }

    /// The slots in use, in order.
    var slots: some Sequence<PartitionSlot> {
        let places = places
        return places.indices.lazy.filter { places[$0] != nil }.map { PartitionSlot(UInt32($0)) }
    }

    /// Returns the id of the next assignment, in a free slot.
    mutating func nextID() -> PartitionID {
        nextID(at: PartitionSlot(UInt32(places.firstIndex { $0 == nil } ?? places.count)))
    }

    /// Returns a new id for the assignment in this slot.
    private mutating func nextID(at slot: PartitionSlot) -> PartitionID {
        lastGeneration += 1
        return PartitionID(slot: slot, generation: lastGeneration)
    }

    private func remove(_ partition: PartitionSlot) {
        address(of: partition).deinitialize(count: 1)
        address(of: partition).deallocate()
    }

    // MARK: Assignments

    /// Begins an assignment in the slot of its id. The partition's records are read from now on.
    mutating func begin(_ partition: consuming Partition) {
        let slot = Int(partition.id.slot.number)
        if slot == places.count { places.append(nil) }
        precondition(places[slot] == nil, "The slot of a new assignment must be free")
        let place = UnsafeMutablePointer<Partition>.allocate(capacity: 1)
        place.initialize(to: partition)
        places[slot] = place
    }

    /// Suspends a partition after its group's session was lost. Withdraws the send horizon, so that no more
    /// notifications of the partition are sent.
    mutating func suspend(_ partition: PartitionSlot, nowNs: Int64) {
        self[partition].phase = .suspended
        self[partition].releaseNs = nowNs + settings.suspendedLimitNs
        self[partition].horizon.withdraw()
        // The group coordinator may have stored the commit in flight, although its reply may never arrive.
        if let pending = self[partition].pending { self[partition].keepUnconfirmed(pending.mark) }
        self[partition].pending = nil
    }

    /// Resumes a suspended partition with a new id.
    ///
    /// - Parameter mark: The group's current commit of the partition, as returned by `Partition.mark`.
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

    /// Ends an assignment. Records with unanswered sends remain in the store until their completions.
    mutating func forget(_ partition: PartitionSlot, in store: inout NotificationStore) {
        self[partition].offsets.forEachOpen { _, record in
            if store[record].handed > 0 {
                store[record].partition = .none
            } else {
                store.giveBack(record)
            }
        }
        remove(partition)
        places[Int(partition.number)] = nil
    }

    /// Returns the suspended assignment of a partition.
    func suspended(topic: String, _ number: Int32) -> PartitionSlot? {
        slots.first {
            self[$0].phase == .suspended && self[$0].number == number && self[$0].topicText == topic
        }
    }

    /// Shortens the retention of the group's suspended partitions. The worker has received an assignment of the group,
    /// which may have given the partitions to other workers.
    mutating func shortenSuspensions(flight: Int, nowNs: Int64) {
        for partition in slots where self[partition].flight == flight {
            self[partition].releaseNs = min(self[partition].releaseNs, nowNs + Self.passedOverNs)
        }
    }

    /// Returns the suspended partitions whose retention has ended.
    func endedSuspensions(nowNs: Int64) -> [PartitionID] {
        slots.filter { self[$0].phase == .suspended && nowNs >= self[$0].releaseNs }.map { self[$0].id }
    }

    /// Returns whether the partition of a notification is neither released nor being given up.
    func isSending(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        find(store[recordOf: slot].partition).map { !self[$0].isLeaving } ?? false
    }

    // MARK: The horizon

    /// Checks the leases, and returns the partitions whose lease ended or began again.
    ///
    /// A worker that was disconnected from its group without noticing must not send while its successor does. Without a
    /// recent acknowledged commit, notifications therefore wait until a commit is acknowledged.
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

    /// The earliest time at which a commit is due or a suspended partition's retention ends, or `nil` if there is none.
    var nextDeadlineNs: Int64? {
        var next: Int64?
        for partition in slots {
            if self[partition].wantsCommit, !commits[self[partition].flight].isInFlight {
                next = min(next ?? .max, max(dueNs(partition), self[partition].commits.untilNs))
            } else if self[partition].phase == .suspended {
                next = min(next ?? .max, self[partition].releaseNs)
            }
        }
        return next
    }
}
