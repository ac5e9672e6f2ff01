import PushRecords

/// What waits to be sent, and what is at the transports: of each app how many requests may be unanswered at once, how
/// many are, the queues for a free one, and what is asked back. And what is sent again after a pause.
struct Dispatch: ~Copyable {
    /// The order of the notifications of each device.
    var devices: DeviceQueues
    /// What may be sent now.
    var breakers = CircuitBreakers()

    /// How long what came back too often waits.
    static let backOffNs: Int64 = 1_000_000_000

    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    struct App {
        /// How many requests may be unanswered at once: the least of what its transport, throttle and guard allow.
        var concurrency = 0
        var outstanding = 0
        /// Suspects at its transport, beside those.
        var quarantined = 0
        var ready = ReadyQueues()
        /// The latest capacity of its transport.
        var capacity = 0
        /// The last one that was not 0.
        var lastCapacity = 1
        var throttle = Throttle()
        var environmentGuard: EnvironmentGuard
        /// While the guard is tripped: a bad token is not the end of a notification.
        var holdsBadTokens: Bool
        var rateLimit: RateLimit
        /// What is asked back of its transport.
        var recalls: [NotificationID] = []

        init(_ route: AppRoute) {
            environmentGuard = EnvironmentGuard(isOff: route.guardPolicy == .off)
            holdsBadTokens = route.guardPolicy == .hold
            rateLimit = RateLimit(perSecond: route.rateLimit)
        }

        /// Requests at its transport.
        var handed: Int { outstanding + quarantined }
    }

    /// By `AppIndex`.
    private(set) var apps: [App] = []
    private(set) var backingOff = NotificationList()

    init(_ settings: MachineSettings = MachineSettings()) {
        devices = DeviceQueues(seed: settings.hashSeed, limit: settings.deviceQueueLimit)
    }

    // MARK: Apps

    /// - Parameters:
    ///   - queueApp: an earlier app whose device queues it shares; `nil` if it has its own.
    ///   - weights: those of the share groups that there are.
    mutating func addApp(_ route: AppRoute, sharingQueuesOf queueApp: Int? = nil, weights: [Int]) {
        devices.addApp(sharing: queueApp)
        breakers.addApp(route)
        apps.append(App(route))
        for weight in weights { apps[apps.count - 1].ready.addGroup(weight: weight) }
    }

    /// A reload has this for it.
    mutating func replace(_ app: Int, by route: AppRoute) {
        breakers.replace(app, by: route)
        apps[app].environmentGuard.isOff = route.guardPolicy == .off
        apps[app].holdsBadTokens = route.guardPolicy == .hold
        if apps[app].rateLimit.perSecond != route.rateLimit {
            apps[app].rateLimit = RateLimit(perSecond: route.rateLimit)
        }
        refreshConcurrency(of: app)
    }

    /// A reload took it out of the configuration, and so its transport away.
    mutating func remove(_ app: Int) {
        breakers.remove(app)
        apps[app].capacity = 0
        refreshConcurrency(of: app)
    }

    mutating func addGroup(weight: Int) {
        for app in apps.indices { apps[app].ready.addGroup(weight: weight) }
    }

    mutating func setWeight(_ weight: Int, of group: Int) {
        for app in apps.indices { apps[app].ready.setWeight(weight, of: group) }
    }

    // MARK: How many at once

    /// What the transport of an app takes.
    mutating func setCapacity(_ app: Int, _ capacity: Int) {
        apps[app].capacity = max(0, capacity)
        if capacity > 0 { apps[app].lastCapacity = capacity }
        refreshConcurrency(of: app)
    }

    /// What the transports of all apps take.
    var capacity: Int { apps.reduce(0) { $0 + $1.capacity } }

    private mutating func refreshConcurrency(of app: Int) {
        let capacity = apps[app].capacity
        apps[app].concurrency = min(
            capacity, apps[app].throttle.limit, apps[app].environmentGuard.limit(of: capacity))
    }

    /// Shows an answer of APNs to the guard and the throttle.
    ///
    /// - Parameter isUndecided: the other environment has been asked about the token as well, or is to be.
    @inline(__always)
    mutating func watchAnswer(
        _ app: Int, status: UInt16, reason: ReasonCode, isUndecided: Bool, journal: inout Journal
    ) {
        if !isUndecided {
            let isProof = status == 200 || status == 410
            watchToken(app, isBad: reason.subject == .badToken, isProof: isProof, journal: &journal)
        }
        watchTry(app, isFailure: AnswerOrigin.isHostFailure(status, reason))
    }

    /// What APNs thinks of a token, when that is known.
    @inline(__always)
    mutating func watchToken(_ app: Int, isBad: Bool, isProof: Bool, journal: inout Journal) {
        let wasTripped = apps[app].environmentGuard.isTripped
        guard apps[app].environmentGuard.answered(isBad: isBad, isProof: isProof) else { return }
        refreshConcurrency(of: app)
        guard apps[app].environmentGuard.isTripped != wasTripped else { return }
        if wasTripped {
            journal.events.append(.guardReleased(AppIndex(app)))
        } else {
            journal.counters.guardsTripped &+= 1
            journal.events.append(.guardTripped(AppIndex(app), held: apps[app].holdsBadTokens))
        }
    }

    /// The end of a try: answered, or lost with its connection.
    @inline(__always)
    mutating func watchTry(_ app: Int, isFailure: Bool) {
        let isChanged = apps[app].throttle.answered(
            isFailure: isFailure, outstanding: apps[app].outstanding + 1, capacity: apps[app].lastCapacity)
        if isChanged { refreshConcurrency(of: app) }
    }

    /// Whether a bad token of this app may be one of the other environment, and is tried again.
    func doubtsBadTokens(_ app: Int) -> Bool { apps[app].environmentGuard.isTripped && apps[app].holdsBadTokens }

    // MARK: Waiting

    /// It waits for a free stream; those that were sent before go first.
    mutating func becomeReady(_ slot: NotificationSlot, first: Bool, in store: inout NotificationStore, nowNs: Int64) {
        store[slot].state = .ready
        if !first { store[slot].sinceNs = nowNs }
        let app = Int(store[slot].app)
        let group = Int(store[recordOf: slot].group)
        if first {
            apps[app].ready.prepend(slot, group: group, in: &store)
        } else {
            apps[app].ready.append(slot, group: group, in: &store)
        }
    }

    /// It is to be sent again, before what was never sent. One that APNs refused goes behind that: if its next refusal
    /// ends the connection, others have been answered first.
    mutating func becomeReadyAgain(_ slot: NotificationSlot, in store: inout NotificationStore, nowNs: Int64) {
        becomeReady(slot, first: store[slot].tries.refusals == 0, in: &store, nowNs: nowNs)
    }

    /// It waits before it is ready. All wait equally long, so that the list is in the order of their times.
    mutating func backOff(_ slot: NotificationSlot, in store: inout NotificationStore, nowNs: Int64) {
        store[slot].state = .backingOff(untilNs: nowNs + Self.backOffNs)
        backingOff.append(slot, in: &store)
    }

    /// Takes one whose pause is over out of the list.
    mutating func nextBackedOff(in store: inout NotificationStore, nowNs: Int64) -> NotificationSlot? {
        guard let untilNs = nextBackedOffNs(in: store), untilNs <= nowNs else { return nil }
        let slot = backingOff.head
        backingOff.remove(slot, from: &store)
        return slot
    }

    private func nextBackedOffNs(in store: borrowing NotificationStore) -> Int64? {
        guard !backingOff.isEmpty, case .backingOff(let untilNs) = store[backingOff.head].state else { return nil }
        return untilNs
    }

    /// Out of the list it waits in: it is ready, or backs off.
    mutating func remove(_ slot: NotificationSlot, from store: inout NotificationStore) {
        if store[slot].state == .ready {
            let group = Int(store[recordOf: slot].group)
            apps[Int(store[slot].app)].ready.remove(slot, group: group, from: &store)
        } else {
            backingOff.remove(slot, from: &store)
        }
    }

    /// Since when the one that has waited longest for a stream of this app waits, nearly.
    func oldestNs(_ app: Int, in store: borrowing NotificationStore) -> Int64? { apps[app].ready.oldestNs(in: store) }

    // MARK: Handing out

    /// Places of all apps.
    var indices: Range<Int> { apps.indices }

    /// How many of what waits may be handed to this app's transport now, and how many with suspects, which have room of
    /// their own.
    @inline(__always)
    func freeStreams(_ app: Int, nowNs: Int64) -> (free: Int, most: Int)? {
        let free = apps[app].concurrency - apps[app].outstanding
        guard free > 0, apps[app].ready.count > 0 else { return nil }
        guard apps[app].rateLimit.isLimiting else { return (free, .max) }
        let allowed = min(free, apps[app].rateLimit.allowance(nowNs))
        return allowed > 0 ? (allowed, allowed) : nil
    }

    /// The next one that waits for a stream, which it does no more.
    @inline(__always)
    mutating func next(_ app: Int, from store: inout NotificationStore) -> NotificationSlot? {
        apps[app].ready.removeFirst(from: &store)
    }

    /// Whether more could be handed to this app's transport than waits.
    func isIdle(_ app: Int) -> Bool { apps[app].ready.count == 0 && apps[app].outstanding < apps[app].concurrency }

    /// So many were handed out, suspects among them.
    mutating func handed(_ app: Int, _ count: Int, suspects: Int, nowNs: Int64) {
        apps[app].outstanding += count - suspects
        apps[app].quarantined += suspects
        apps[app].rateLimit.take(count, nowNs)
    }

    /// One came back.
    @inline(__always)
    mutating func cameBack(_ app: Int, isSuspect: Bool) {
        if isSuspect { apps[app].quarantined -= 1 } else { apps[app].outstanding -= 1 }
        precondition(apps[app].quarantined | apps[app].outstanding >= 0, "what came back was handed out")
    }

    // MARK: Asking back

    mutating func recall(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        apps[Int(store[slot].app)].recalls.append(store.id(of: slot))
    }

    /// What is to be taken back from transports; empties the lists.
    mutating func takeRecalls(_ body: (AppIndex, [NotificationID]) -> Void) {
        for app in apps.indices where !apps[app].recalls.isEmpty {
            body(AppIndex(app), apps[app].recalls)
            apps[app].recalls.removeAll()
        }
    }

    // MARK: How it stands

    /// When something that waits may go by itself, if ever.
    func nextDeadlineNs(in store: borrowing NotificationStore, nowNs: Int64) -> Int64? {
        var next = nextBackedOffNs(in: store)
        for app in apps.indices where apps[app].rateLimit.isLimiting {
            guard apps[app].ready.count > 0, apps[app].outstanding < apps[app].concurrency else { continue }
            next = min(next ?? .max, apps[app].rateLimit.dueNs(nowNs))
        }
        return next
    }
}
