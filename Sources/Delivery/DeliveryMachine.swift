package import PushRecords

/// Decides what happens to each notification from its Kafka record to the commit, without I/O. Its inputs are records,
/// completions and acknowledgements. Its outputs are batches of requests, records to produce, and commits.
///
/// The machine has no thread, clock or randomness. Its owner calls it from one thread, in turns (`DeliveryTurn`):
///
///     handle(completions), setCapacity, setReachable  // reports of the transports
///     advance(now)                                    // timers
///     assign, revoke, commitFinished                  // events of the consumer groups
///     acknowledged                                    // delivery reports
///     for each partition: room(for:) -> receive()     // read at most this many
///     sends(now) { app, requests in … }               // post to the transports
///     recalls { app, ids in … }
///     for each writable topic:
///         while let next = nextProduction(for:) { withResult or withRetry { … produce … }; produced(next, to:) }
///     let commit = takeCommit(of: group, now)         // for each group; if not empty: commit, later commitFinished
///     takeEvents()
///     sleep until an event, or nextDeadlineNs
///
/// In the steady state, each notification costs amortized O(1) time and no allocation. A closure that is passed to the
/// machine must not call the machine.
///
/// Each part owns its state and calls no other part except the store. A part returns values, and the machine acts on
/// them. A notification passes through three files: `DeliveryMachine+Receiving` (received, admitted),
/// `DeliveryMachine+Sending` (waiting, sent, completed) and `DeliveryMachine+Settling` (concluded, produced, settled).
package struct DeliveryMachine: ~Copyable {
    /// The parser that turns records into requests.
    var parser: RequestParser
    /// The directory that finds the app of each request.
    var apps = AppDirectory([])
    /// The open notifications, their records and bytes, and their limits.
    var store: NotificationStore
    /// The received, settled and committed records of each partition, and the send horizon.
    var ledger: CommitLedger
    /// The notifications that wait for a send or are in flight, and the circuit breakers.
    var dispatch: Dispatch
    /// The verdicts on answers, and the records to produce for concluded notifications.
    var settlement: Settlement
    /// The current time and what is known about its clock, counters and log events.
    var journal: Journal

    package init(settings: MachineSettings, apps routes: [AppRoute]) {
        parser = RequestParser(copyHeaders: settings.copiedHeaders)
        store = NotificationStore(settings)
        ledger = CommitLedger(settings)
        dispatch = Dispatch(settings)
        settlement = Settlement(settings)
        journal = Journal(counters: DeliveryCounters(apps: 0, tiers: settings.tierDelaysMs.count))
        _ = replaceApps(routes, now: now)
    }

    /// The time that the owner passed most recently.
    @inline(__always)
    var now: DeliveryTime {
        get { journal.now }
        set { journal.now = newValue }
    }

    /// Returns and removes the events to log.
    package mutating func takeEvents() -> [DeliveryEvent] {
        defer { journal.events = [] }
        return journal.events
    }

    package var counters: DeliveryCounters { journal.counters }

    /// The monotonic time at which the next turn is due, or `nil` if the machine waits only for events.
    package var nextDeadlineNs: Int64? {
        var next = min(ledger.nextDeadlineNs ?? .max, dispatch.breakers.nextCutOffNs)
        next = min(next, dispatch.nextDeadlineNs(in: store, nowNs: now.ns) ?? .max)
        if apps.areMany {
            for partition in ledger.slots where ledger[partition].firstAdmitting != .none {
                // After the time from `admissionChangeNs`, the record waits only for events and needs no timer.
                let record = ledger[partition].firstAdmitting
                if let ns = admissionChangeNs(record), ns > now.ns { next = min(next, ns) }
            }
        }
        return next == .max ? nil : next
    }

    /// Runs the timers. Call this once a turn, and at `nextDeadlineNs`.
    package mutating func advance(now: DeliveryTime) {
        self.now = now
        if now.ns >= dispatch.breakers.nextCutOffNs {
            dispatch.breakers.cutOff(isBusy: apps.indices.map { dispatch.apps[$0].handed > 0 }, journal: &journal)
            followCircuits()
        }
        release(ledger.endedSuspensions(nowNs: now.ns))
        while let slot = dispatch.nextBackedOff(in: &store, nowNs: now.ns) {
            dispatch.becomeReadyAgain(slot, in: &store, nowNs: now.ns)
        }
    }

    // MARK: The configuration

    /// Sets all apps, at the start and after a reload of the configuration.
    ///
    /// An app with the name and environment of an existing one keeps its `AppIndex` and its open notifications. An app
    /// that is missing is removed: its waiting notifications are deferred, its sends in flight are completed, and new
    /// records do not find it. Its transport may close immediately. A retry record of a removed app is `invalid` unless
    /// `AppDirectory.findApp` finds another app when the record is read.
    package mutating func replaceApps(_ routes: [AppRoute], now: DeliveryTime) -> AppMapping {
        self.now = now
        let known = apps.count
        let mapping = apps.replace(by: routes)
        for (route, index) in zip(routes, mapping.indexes) {
            if index.value < known {
                dispatch.replace(index.value, by: route)
            } else {
                store.budget.addApp()
                dispatch.addApp(
                    route, sharingQueuesOf: apps.namesake(of: route),
                    weights: store.budget.notifications.groups.map(\.weight))
                journal.counters.apps.insert(DeliveryCounters.App(tiers: settlement.tiers.count), at: index.value)
            }
        }
        for app in mapping.removed { dispatch.remove(app.value) }
        dispatch.breakers.finishReload(journal: &journal)
        store.budget.notifications.setTotal(settlement.settings.mostOpen(streams: dispatch.capacity))
        followCircuits()
        return mapping
    }

    // MARK: Transports

    /// Sets how many requests of this app may be unanswered at once (`TransportEvent.capacity`).
    package mutating func setCapacity(_ app: AppIndex, requests: Int, now: DeliveryTime) {
        self.now = now
        guard !dispatch.breakers.apps[app.value].isRemoved else { return }
        let wasConnected = dispatch.apps[app.value].capacity > 0
        dispatch.setCapacity(app.value, requests)
        if wasConnected != (requests > 0) {
            dispatch.breakers.setConnected(app.value, requests > 0, journal: &journal)
            followCircuits()
        }
        store.budget.notifications.setTotal(settlement.settings.mostOpen(streams: dispatch.capacity))
    }

    /// Sets whether the transport reaches the app's host (`TransportEvent.reachable`).
    ///
    /// If several apps are configured, and an app had no usable connection for `CircuitBreakers.cutOffNs`, the app's
    /// notifications are deferred and do not use the budget of other apps. While the app is connected, one of its
    /// notifications at a time is sent as a probe. Normal sending resumes when a probe is answered, or when the
    /// transport reports the host as reachable. If only one app is configured, its notifications wait.
    package mutating func setReachable(_ app: AppIndex, _ isReachable: Bool, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.setReachable(app.value, isReachable, journal: &journal)
        followCircuits()
    }

    /// Closes the circuits of this app's credential and topics, because the app's key or certificate was replaced.
    package mutating func credentialReplaced(_ app: AppIndex, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.replaceCredential(of: app.value, journal: &journal)
        followCircuits()
    }

    /// Opens the circuit of an app's credential, because APNs refused the credential with a GOAWAY or a TLS alert
    /// (`TransportEvent.credentialRefused`). While the circuit is open, the app sends only probes. Call this before the
    /// completions of the same turn.
    package mutating func credentialRefused(_ app: AppIndex, _ reason: ReasonCode, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.fault(ofApp: app.value, reason, in: store, journal: &journal)
        followCircuits()
    }

    /// Checks all waiting notifications if circuits have changed, and defers those that may not be sent any more.
    mutating func followCircuits() {
        guard dispatch.breakers.mustCheck else { return }
        dispatch.breakers.mustCheck = false
        for slot in store.slots where store[slot].state.isWaiting && store[slot].deferral == nil {
            if let reason = reasonToDefer(slot) { deferToTier(slot, reason) }
        }
    }
}
