import PushRecords

/// For each app, the notifications that wait for a stream, the number of notifications in flight, and the requests to
/// recall. For all apps together, the device queues and the notifications that wait for a pause to end.
struct Dispatch: ~Copyable {
    /// The queues of devices.
    var devices: DeviceQueues
    /// The circuit breakers of hosts, credentials and topics.
    var breakers = CircuitBreakers()

    /// The pause before each resend beyond `DeliveryMachine.quickTries`, and before the next send to a device for which
    /// APNs reported too many notifications.
    static let backOffNs: Int64 = 1_000_000_000

    // This type is not private, because the Swift 6.3.1 compiler crashes on a private type inside a `~Copyable` one.
    struct App {
        var outstanding = 0
        /// The number of suspects handed to the app's transport. `outstanding` does not include them.
        var quarantined = 0
        var ready = ReadyQueues()
        /// The latest capacity that the app's transport reported.
        var capacity = 0
        /// The latest capacity above 0 that the app's transport reported.
        var lastCapacity = 1
        var throttle = Throttle()
        var environmentGuard: EnvironmentGuard
        /// Whether notifications with bad tokens move to a retry tier while the environment guard is tripped.
        var holdsBadTokens: Bool
        var rateLimit: RateLimit
        /// The requests to recall from the app's transport.
        var recalls: [NotificationID] = []

        init(_ route: AppRoute) {
            environmentGuard = EnvironmentGuard(isOff: route.guardPolicy == .off)
            holdsBadTokens = route.guardPolicy == .hold
            rateLimit = RateLimit(perSecond: route.rateLimit)
        }

        /// The maximum number of requests in flight: the minimum of what the transport, the throttle and the
        /// environment guard allow.
        @inline(__always)
        var concurrency: Int { min(capacity, throttle.limit, environmentGuard.limit(of: capacity)) }

        /// The number of all unanswered requests at the app's transport.
        var handed: Int { outstanding + quarantined }
    }

    /// The apps by `AppIndex`.
    var apps: [App] = []
    private(set) var backingOff = Notification.List()

    init(_ settings: MachineSettings = MachineSettings()) {
        devices = DeviceQueues(seed: settings.hashSeed, limit: settings.deviceQueueLimit)
    }

    // MARK: Apps

    /// - Parameters:
    ///   - queueApp: An earlier app whose device queues the new app shares, or `nil` for separate queues.
    ///   - weights: The weights of all topic groups.
    mutating func addApp(_ route: AppRoute, sharingQueuesOf queueApp: Int? = nil, weights: [Int]) {
        devices.addApp(sharing: queueApp)
        breakers.addApp(route)
        apps.append(App(route))
        for (group, weight) in weights.enumerated() { apps[apps.count - 1].ready.setWeight(weight, of: group) }
    }

    /// Applies the reloaded configuration of an app.
    mutating func replace(_ app: Int, by route: AppRoute) {
        breakers.replace(app, by: route)
        apps[app].environmentGuard.isOff = route.guardPolicy == .off
        apps[app].holdsBadTokens = route.guardPolicy == .hold
        if apps[app].rateLimit.perSecond != route.rateLimit {
            apps[app].rateLimit = RateLimit(perSecond: route.rateLimit)
        }
    }

    /// Marks an app as removed by a reload and sets its capacity to 0. The caller closes the app's transport.
    mutating func remove(_ app: Int) {
        breakers.remove(app)
        apps[app].capacity = 0
    }

    /// Sets the weight of a topic group, or adds the next group.
    mutating func setWeight(_ weight: Int, of group: Int) {
        for app in apps.indices { apps[app].ready.setWeight(weight, of: group) }
    }

    // MARK: Concurrency

    /// Sets the capacity that the transport of an app reported.
    mutating func setCapacity(_ app: Int, _ capacity: Int) {
        apps[app].capacity = max(0, capacity)
        if capacity > 0 { apps[app].lastCapacity = capacity }
    }

    /// The sum of the capacities of all transports.
    var capacity: Int { apps.reduce(0) { $0 + $1.capacity } }

    /// Passes an answer of APNs to the environment guard and the throttle.
    ///
    /// - Parameter isUndecided: Whether the token was or may be tried in the other environment too. The environment
    ///   guard then ignores this answer.
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

    /// Reports to the environment guard whether a device token was bad.
    @inline(__always)
    mutating func watchToken(_ app: Int, isBad: Bool, isProof: Bool, journal: inout Journal) {
        let wasTripped = apps[app].environmentGuard.isTripped
        apps[app].environmentGuard.answered(isBad: isBad, isProof: isProof)
        guard apps[app].environmentGuard.isTripped != wasTripped else { return }
        if wasTripped {
            journal.events.append(.guardReleased(AppIndex(app)))
        } else {
            journal.counters.guardsTripped &+= 1
            journal.events.append(.guardTripped(AppIndex(app), held: apps[app].holdsBadTokens))
        }
    }

    /// Reports the end of a send to the throttle: an answer, or a lost connection.
    @inline(__always)
    mutating func watchTry(_ app: Int, isFailure: Bool) {
        apps[app].throttle.answered(
            isFailure: isFailure, outstanding: apps[app].outstanding + 1, capacity: apps[app].lastCapacity)
    }

    /// Returns whether a bad token of this app may belong to the other environment. Its notification is then retried.
    func doubtsBadTokens(_ app: Int) -> Bool { apps[app].environmentGuard.isTripped && apps[app].holdsBadTokens }

    // MARK: Waiting

    /// Adds a notification to those of its app that wait for a free stream. If `first` is true, it is sent before the
    /// others of its app and topic group.
    mutating func becomeReady(_ slot: NotificationSlot, first: Bool, in store: inout NotificationStore, nowNs: Int64) {
        store[slot].state = .ready
        if !first { store[slot].sinceNs = nowNs }
        let group = Int(store[recordOf: slot].group)
        apps[Int(store[slot].app)].ready.insert(slot, group: group, first: first, in: &store)
    }

    /// Queues a notification for a resend, before the others of its app and topic group. A notification that APNs
    /// refused to process is queued last instead, because its next refusal may close the connection, and APNs should
    /// answer the others first.
    mutating func becomeReadyAgain(_ slot: NotificationSlot, in store: inout NotificationStore, nowNs: Int64) {
        becomeReady(slot, first: store[slot].tries.refusals == 0, in: &store, nowNs: nowNs)
    }

    /// Starts the pause of a notification before its next send. All pauses have the same length, so the list is sorted.
    mutating func backOff(_ slot: NotificationSlot, in store: inout NotificationStore, nowNs: Int64) {
        store[slot].state = .backingOff(untilNs: nowNs + Self.backOffNs)
        backingOff.append(slot, in: &store)
    }

    /// Removes and returns a notification whose pause has ended.
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

    /// Removes a notification that waits for a stream or for the end of its pause.
    mutating func remove(_ slot: NotificationSlot, from store: inout NotificationStore) {
        if store[slot].state == .ready {
            let group = Int(store[recordOf: slot].group)
            apps[Int(store[slot].app)].ready.remove(slot, group: group, from: &store)
        } else {
            backingOff.remove(slot, from: &store)
        }
    }

    // MARK: Sending

    /// Returns how many notifications the app may send now, or `nil` if none:
    /// - `free`: on its free streams.
    /// - `most`: in total, with the suspects, which use the quarantine connection. Unlimited without a rate limit.
    ///
    /// A rate limit bounds both numbers.
    @inline(__always)
    func freeStreams(_ app: Int, nowNs: Int64) -> (free: Int, most: Int)? {
        let free = apps[app].concurrency - apps[app].outstanding
        guard free > 0, apps[app].ready.count > 0 else { return nil }
        guard apps[app].rateLimit.isLimiting else { return (free, .max) }
        let allowed = min(free, apps[app].rateLimit.allowance(nowNs))
        return allowed > 0 ? (allowed, allowed) : nil
    }

    /// Returns whether the app has a free stream and no notification waits for one.
    func isIdle(_ app: Int) -> Bool { apps[app].ready.count == 0 && apps[app].outstanding < apps[app].concurrency }

    /// Counts notifications that were handed to the transport. `suspects` is the number of suspects among them.
    mutating func handed(_ app: Int, _ count: Int, suspects: Int, nowNs: Int64) {
        apps[app].outstanding += count - suspects
        apps[app].quarantined += suspects
        apps[app].rateLimit.take(count, nowNs)
    }

    /// Counts the completion of one of the app's sends.
    @inline(__always)
    mutating func cameBack(_ app: Int, isSuspect: Bool) {
        if isSuspect { apps[app].quarantined -= 1 } else { apps[app].outstanding -= 1 }
        precondition(apps[app].quarantined | apps[app].outstanding >= 0, "A send must have exactly one completion")
    }

    /// Recalls a notification from its app's transport, if the notification was handed to the transport.
    mutating func recallHanded(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        guard case .handed = store[slot].state else { return }
        apps[Int(store[slot].app)].recalls.append(store.id(of: slot))
    }

    // MARK: Timers

    /// Returns when a pause ends or a rate limit allows a send, or `nil` if no notification waits for either.
    func nextDeadlineNs(in store: borrowing NotificationStore, nowNs: Int64) -> Int64? {
        var next = nextBackedOffNs(in: store)
        for app in apps.indices where apps[app].rateLimit.isLimiting {
            guard apps[app].ready.count > 0, apps[app].outstanding < apps[app].concurrency else { continue }
            next = min(next ?? .max, apps[app].rateLimit.dueNs(nowNs))
        }
        return next
    }
}

extension Dispatch {
    /// The notifications of one app that wait for a free stream, with a queue for each topic group (a request topic, or
    /// all retry topics). Streams are assigned by weight (stride scheduling): each queue has a clock that advances more
    /// slowly with a higher weight, and the queue with the earliest clock is next.
    struct ReadyQueues {
        struct Queue {
            var list = Notification.List()
            var clock: UInt64 = 0
            var stride: UInt64 = ReadyQueues.unit
        }
        private static let unit: UInt64 = 1 << 20

        private(set) var queues: [Queue] = []
        /// A bit for each queue, 64 per word, set if the queue is not empty. Only queues with a set bit are searched.
        private(set) var occupied: [UInt64] = []
        /// The clock of the queue from which the last notification was taken.
        private var clock: UInt64 = 0
        private(set) var count = 0

        /// Sets the weight of a topic group, or adds the next group.
        mutating func setWeight(_ weight: Int, of group: Int) {
            if group == queues.count { queues.append(Queue()) }
            if queues.count > 64 * occupied.count { occupied.append(0) }
            queues[group].stride = max(1, Self.unit / UInt64(max(1, weight)))
        }

        /// Adds a notification to its queue, before all others if `first` is true.
        @inline(__always)
        mutating func insert(_ slot: NotificationSlot, group: Int, first: Bool, in store: inout NotificationStore) {
            count += 1
            if queues[group].list.isEmpty {
                queues[group].clock = max(queues[group].clock, clock)
                occupied[group >> 6] |= 1 << UInt64(group & 63)
            }
            if first {
                queues[group].list.prepend(slot, in: &store)
            } else {
                queues[group].list.append(slot, in: &store)
            }
        }

        @inline(__always)
        mutating func remove(_ slot: NotificationSlot, group: Int, from store: inout NotificationStore) {
            queues[group].list.remove(slot, from: &store)
            count -= 1
            if queues[group].list.isEmpty { occupied[group >> 6] &= ~(1 << UInt64(group & 63)) }
        }

        mutating func removeFirst(from store: inout NotificationStore) -> NotificationSlot? {
            guard count > 0 else { return nil }
            var next = -1
            for word in occupied.indices {
                var left = occupied[word]
                while left != 0 {
                    let group = word << 6 | left.trailingZeroBitCount
                    left &= left &- 1
                    if next < 0 || queues[group].clock < queues[next].clock { next = group }
                }
            }
            clock = queues[next].clock
            queues[next].clock += queues[next].stride
            let slot = queues[next].list.head
            remove(slot, group: next, from: &store)
            return slot
        }

        /// Returns when the longest-waiting head of a queue began to wait, or `nil` if all queues are empty. A
        /// notification behind a head may have begun to wait earlier.
        func oldestNs(in store: borrowing NotificationStore) -> Int64? {
            var oldest: Int64?
            for queue in queues where !queue.list.isEmpty {
                oldest = min(oldest ?? .max, store[queue.list.head].sinceNs)
            }
            return oldest
        }
    }
}
