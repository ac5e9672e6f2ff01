import PushRecords

/// Decides everything between a Kafka record and its commit, and does nothing itself: records, fates and
/// acknowledgements go in, batches of requests, productions and commits come out.
///
/// It has no thread, clock, I/O or chance of its own; whoever owns it calls it from one thread. A turn of the owner:
///
///     advance(now)                                    // timers
///     for each partition: room(for:) -> receive()     // read no more than there is room for
///     handle(fates), setCapacity, acknowledged        // what the mailbox and the delivery reports brought
///     sends(now) { app, requests in … }               // post to the transports
///     recalls { app, ids in … }
///     for each topic that can be written:
///         while let next = nextProduction(for:) { withResult or withRetry { … produce … }; produced(next) }
///     let commit = takeCommit(of: group, now)         // of each group; when not empty: commit, later commitFinished
///     takeEvents()
///     sleep until something comes, or nextDeadlineNs
///
/// Costs O(1) amortized per notification and allocates nothing per notification in the steady state. Closures given to
/// it must not call it.
package struct DeliveryMachine: ~Copyable {
    /// How long a record waits for its app's share of the room before it is held: counted from when the oldest unsent
    /// notification of that app became ready.
    static let shareWaitNs: Int64 = 5_000_000_000
    /// How long a notification with expiration 0 may be tried.
    static let nowOrNeverMs: Int64 = 30_000
    /// Connections that died under a notification before it is a suspect.
    static let suspectDeaths: UInt8 = 3
    /// Refusals by APNs to process it, in a row, before it is a suspect; and before it is held, those that it met alone
    /// included.
    static let suspectRefusals: UInt8 = 6
    static let heldRefusals: UInt8 = 10
    /// Tries that came to nothing in a row before the next one waits.
    static let quickTries: UInt8 = 3
    /// Dead letters of a partition that may wait while their topic cannot be written; then it is read no further.
    static let unwrittenDeadLetters = 100
    static let backOffNs: Int64 = 1_000_000_000
    /// A device that is sent one after the other takes them no faster than one in so long, as far as is known beforehand.
    static let laneStepMs: Int64 = 50
    /// The same thing is told about an app no more often.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// Tokens of a fan-out admitted before the next record has its turn.
    static let admissionPiece = 256

    /// Notifications open at once, `maxOpen` permitting: so many, and so many for each request that the connections take
    /// at once. One is on the connection, one waits to follow it, one waits for Kafka to acknowledge its result.
    static let openAtLeast = 1_000
    static let openPerStream = 3

    /// Once an app's notifications have been held for so long, they go to the tier of 15 minutes.
    static let longHoldingNs: Int64 = 300_000_000_000
    /// An app without a connection, and none to be had, is held after this.
    static let cutOffNs: Int64 = 5_000_000_000

    let settings: DeliverySettings
    let verdicts: VerdictTable
    var tiers: RetryTiers
    var directory: AppDirectory
    var parser: RequestParser

    var notifications: Slab<Notification>
    var records: Slab<Record>
    var blocks: BlockStore
    var texts = InternedTexts()
    /// `apns-unique-id` (development only), by slot.
    var uniqueIDs: [UInt32: String] = [:]
    let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 8)

    var lanes = LaneTable()
    var queues: [ReadyQueues] = []
    /// By `AppIndex`, as `controls`, `queues` and `recallLists`.
    var apps: [AppState] = []
    var controls: [AppControl] = []
    /// Apps that were not taken out of the configuration.
    var liveApps = 0
    var circuits: [CredentialCircuit] = []
    /// The open ones.
    var topicCircuits: [TopicCircuit] = []
    /// When the next app without a connection is held; `Int64.max`: never.
    var nextCutOffNs = Int64.max
    var shares: Shares
    var byteShares: Shares
    /// Share group of each request topic; all tiers are group 0.
    var groups: [String: Int] = [:]
    var backingOff = NotificationList()
    var slowedLanes = SlowedLanes()
    /// Apps with a `rate_limit`.
    var rateLimitedApps = 0

    /// By slot of `PartitionID`.
    var partitions: [UnsafeMutablePointer<Partition>?] = []
    var lastEpoch: UInt32 = 0
    /// Partitions that are detached or suspended (`Partition.isAssigned`).
    var unassignedCount = 0
    /// Partitions with records that are not wholly admitted.
    var admittingCount = 0
    /// Notifications of all partitions that wait for the reach beside their lanes.
    var besideLanes = 0

    var productions: ProductionQueues
    var recallLists: [[NotificationID]] = []
    var events: [DeliveryEvent] = []

    var mapWriter = CommitMapWriter()
    /// By `CommitGroup`.
    var flights = [CommitFlight(), CommitFlight()]

    /// As last told.
    var now = DeliveryTime(ns: 0, wallMs: 0)
    var recordBytesMean = 1_024
    /// By `takeBytes`.
    var countedBytes = 0
    package internal(set) var counters: DeliveryCounters

    package init(settings: DeliverySettings, apps routes: [AppRoute]) {
        self.settings = settings
        verdicts = VerdictTable(overrides: settings.verdicts)
        tiers = RetryTiers(settings.tiers)
        productions = ProductionQueues(tiers: settings.tiers.count)
        directory = AppDirectory(routes)
        parser = RequestParser(copyHeaders: settings.copiedHeaders)
        notifications = Slab(capacity: 1_024, empty: Notification())
        records = Slab(capacity: 1_024, empty: Record())
        blocks = BlockStore(idleLimit: max(1 << 20, settings.maxOpenBytes / 4))
        shares = Shares(total: min(settings.maxOpen, Self.openAtLeast))
        byteShares = Shares(total: settings.maxOpenBytes)
        counters = DeliveryCounters(apps: 0, tiers: settings.tiers.count)
        _ = addGroup(weight: 1)
        liveApps = routes.count
        for route in routes { addApp(route) }
    }

    deinit {
        var slot: UInt32 = 0
        while slot < UInt32(notifications.capacity) {
            if notifications[slot].state != .free, notifications[slot].tokenBlockSize > 0 {
                UnsafeMutableRawPointer(mutating: notifications[slot].token.baseAddress)?.deallocate()
            }
            slot += 1
        }
        for index in 0..<records.capacity {
            records.base[index].body.map { UnsafeMutableRawPointer($0).deallocate() }
            records.base[index].settledIndexes?.deallocate()
            records.base[index].lentIndexes?.deallocate()
        }
        for partition in partitions {
            partition?.deinitialize(count: 1)
            partition?.deallocate()
        }
        scratch.deallocate()
        for flight in flights { flight.deallocate() }
    }

    // MARK: Partitions

    /// The assignment, unless it is gone.
    @inline(__always)
    func find(_ id: PartitionID) -> UnsafeMutablePointer<Partition>? {
        guard Int(id.slot) < partitions.count, let partition = partitions[Int(id.slot)],
            partition.pointee.id.epoch == id.epoch
        else { return nil }
        return partition
    }

    // MARK: Events and state

    /// What happened that a log should say; empties the list.
    package mutating func takeEvents() -> [DeliveryEvent] {
        guard !events.isEmpty else { return [] }
        defer { events.removeAll() }
        return events
    }

    /// Monotonic time at which the machine has something to do by itself; `nil`: nothing before something happens.
    package var nextDeadlineNs: Int64? {
        var next: Int64?
        func consider(_ ns: Int64) { next = min(next ?? .max, ns) }
        for case let partition? in partitions where partition.pointee.wantsCommit {
            let place = partition.pointee.flight
            guard flights[place].partitions.isEmpty else { continue }
            consider(
                max(partition.pointee.isUrgent ? 0 : flights[place].nextNs, partition.pointee.commits.untilNs))
        }
        if unassignedCount > 0 {
            for case let partition? in partitions where partition.pointee.phase == .suspended {
                consider(partition.pointee.suspendedNs + settings.suspendedLimitNs)
            }
        }
        if !backingOff.isEmpty { consider(notifications[backingOff.head].due) }
        if nextCutOffNs != .max { consider(nextCutOffNs) }
        if rateLimitedApps > 0 {
            for app in apps.indices
            where apps[app].isRateLimited && queues[app].count > 0 && apps[app].outstanding < apps[app].concurrency {
                consider(controls[app].rateLimit.dueNs(now.ns))
            }
        }
        if admittingCount > 0, liveApps > 1 {
            for case let partition? in partitions where partition.pointee.firstAdmitting != noSlot {
                // What waits for longer than that waits for room.
                if let ns = shareWaitEndNs(partition.pointee.firstAdmitting), ns > now.ns { consider(ns) }
            }
        }
        return next
    }

    /// Timers: to be called once a turn, and when `nextDeadlineNs` has come.
    package mutating func advance(now: DeliveryTime) {
        self.now = now
        if now.ns >= nextCutOffNs { cutOff() }
        if !slowedLanes.isEmpty { slowedLanes.expire(now.ns) }
        if unassignedCount > 0 { endUnassigned() }
        while !backingOff.isEmpty, notifications[backingOff.head].due <= now.ns {
            let slot = backingOff.head
            backingOff.remove(slot, from: &notifications)
            becomeReady(slot, first: goesFirst(slot))
        }
    }
}
