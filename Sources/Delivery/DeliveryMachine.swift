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
    /// An app's oldest unsent notification makes others wait no longer than this before they are held.
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
    static let backOffNs: Int64 = 1_000_000_000
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
    /// Partitions with records that are not wholly admitted.
    var admittingCount = 0

    var productions: ProductionQueues
    var recallLists: [[NotificationID]] = []
    var events: [DeliveryEvent] = []

    var mapWriter = CommitMapWriter()
    /// By `CommitGroup`.
    var flights = [CommitFlight(), CommitFlight()]

    /// As last told.
    var now = DeliveryTime(ns: 0, wallMs: 0)
    var recordBytesMean = 1_024
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
        }
        for partition in partitions {
            partition?.deinitialize(count: 1)
            partition?.deallocate()
        }
        scratch.deallocate()
        for flight in flights { flight.deallocate() }
    }

    // MARK: Partitions

    /// Begins an assignment.
    ///
    /// - Parameters:
    ///   - committedOffset: as read from the group at assignment; `nil`: there is none.
    ///   - metadata: of that commit, as the broker has it; of damaged or foreign bytes nothing is believed (there is an
    ///     event), but that records from there on may have been sent.
    ///   - logEnd: the partition's high watermark (not its last stable offset), asked of its leader after the
    ///     assignment came, where the answer is known: no record from there on can have been read, and so sent, by an
    ///     owner before, although the reach it left behind is ahead of the log. `nil`: unknown, all below the reach may
    ///     have been.
    package mutating func assign(
        topic: String, partition number: Int32, role: PartitionRole, committedOffset: Int64?,
        metadata: UnsafeRawBufferPointer, logEnd: Int64? = nil
    ) -> PartitionID {
        let slot = partitions.firstIndex { $0 == nil } ?? partitions.count
        if slot == partitions.count { partitions.append(nil) }
        lastEpoch += 1
        let id = PartitionID(slot: UInt32(slot), epoch: lastEpoch)

        var map = CommitMap()
        if let base = committedOffset, !metadata.isEmpty {
            if let read = CommitMap(metadata: metadata, base: base) {
                map = read
                if let reach = map.reach, let logEnd { map.reach = min(reach, max(logEnd, base)) }
            } else {
                // Whoever wrote that may have sent what is above his offset.
                map.reach = min(logEnd ?? .max, base + Reach.maximum)
                events.append(.metadataIgnored(id))
            }
        }
        let group: Int
        let tierDelayMs: Int64
        switch role {
        case .requests(let weight):
            group = groups[topic] ?? addGroup(weight: weight)
            groups[topic] = group
            shares.setWeight(weight, of: group)
            byteShares.setWeight(weight, of: group)
            for app in queues.indices { queues[app].setWeight(weight, of: group) }
            tierDelayMs = 0
        case .retry(let delayMs):
            precondition(delayMs > 0, "a retry tier has a delay")
            group = 0
            tierDelayMs = delayMs
        }
        shares.addPartitions(1, to: group)
        byteShares.addPartitions(1, to: group)
        let pointer = UnsafeMutablePointer<Partition>.allocate(capacity: 1)
        pointer.initialize(
            to: Partition(
                id: id, topic: topic, number: number, group: group, tierDelayMs: tierDelayMs,
                ledger: PartitionLedger(committed: committedOffset, map: map),
                reach: Reach(minimum: settings.reachMargin), metadataLimit: settings.metadataLimit))
        partitions[slot] = pointer
        return id
    }

    private mutating func addGroup(weight: Int) -> Int {
        for app in queues.indices { queues[app].addGroup(weight: weight) }
        _ = byteShares.addGroup(weight: weight)
        return shares.addGroup(weight: weight)
    }

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
            consider(max(partition.pointee.isUrgent ? 0 : flights[place].nextNs, flights[place].pauseNs))
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
        while !backingOff.isEmpty, notifications[backingOff.head].due <= now.ns {
            let slot = backingOff.head
            backingOff.remove(slot, from: &notifications)
            becomeReady(slot, first: true)
        }
    }
}
