package import PushRecords

/// Decides everything between a Kafka record and its commit, and does nothing itself: records, completions and
/// acknowledgements go in, batches of requests, productions and commits come out.
///
/// It has no thread, clock, I/O or randomness of its own. Its owner calls it from one thread, in turns
/// (`DeliveryTurn`):
///
///     handle(completions), setCapacity, setReachable  // what the transports reported
///     advance(now)                                    // timers
///     assign, revoke, commitFinished                  // what the consumer groups reported
///     acknowledged                                    // what delivery reports brought
///     for each partition: room(for:) -> receive()     // read no more than there is room for
///     sends(now) { app, requests in … }               // post to the transports
///     recalls { app, ids in … }
///     for each topic that can be written:
///         while let next = nextProduction(for:) { withResult or withRetry { … produce … }; produced(next, to:) }
///     let commit = takeCommit(of: group, now)         // of each group; when not empty: commit, later commitFinished
///     takeEvents()
///     sleep until something comes, or nextDeadlineNs
///
/// Costs O(1) amortized per notification and allocates nothing per notification in the steady state. Closures given to
/// it must not call it.
///
/// Its parts own their state and do not know each other. What one of them finds out comes back as a value, and the
/// machine acts on it. One notification travels through these files: it is received and admitted
/// (`DeliveryMachine+Receiving`), waits for its turn and is sent, and comes back with a completion
/// (`DeliveryMachine+Sending`). Then it is decided, produced, acknowledged and settled (`DeliveryMachine+Settling`).
package struct DeliveryMachine: ~Copyable {
    /// Reads records into requests.
    var parser: RequestParser
    /// Finds the app that each request is for.
    var apps = AppDirectory([])
    /// Open notifications, their records and bytes, and how much may be open.
    var store: NotificationStore
    /// What was received and is settled, what may be committed, how far ahead of commits may be sent.
    var ledger: CommitLedger
    /// What waits to be sent, what may be sent now, and what is at the transports.
    var dispatch: Dispatch
    /// Decides the verdict of each answer, and the records to produce for notifications that ended.
    var settlement: Settlement
    /// The current time, and what happened.
    var journal: Journal

    package init(settings: MachineSettings, apps routes: [AppRoute]) {
        parser = RequestParser(copyHeaders: settings.copiedHeaders)
        store = NotificationStore(settings)
        ledger = CommitLedger(settings)
        dispatch = Dispatch(settings)
        settlement = Settlement(settings)
        journal = Journal(counters: DeliveryCounters(apps: 0, tiers: settings.tiers.count))
        _ = enter(routes)
    }

    /// The time of the current call.
    @inline(__always)
    var now: DeliveryTime {
        get { journal.now }
        set { journal.now = newValue }
    }

    /// What happened that a log should say; empties the list.
    package mutating func takeEvents() -> [DeliveryEvent] {
        guard !journal.events.isEmpty else { return [] }
        defer { journal.events.removeAll() }
        return journal.events
    }

    package var counters: DeliveryCounters { journal.counters }

    /// Monotonic time at which the machine has something to do by itself; `nil` if there is no such time.
    package var nextDeadlineNs: Int64? {
        var next = min(ledger.nextDeadlineNs ?? .max, dispatch.breakers.nextCutOffNs)
        next = min(next, dispatch.nextDeadlineNs(in: store, nowNs: now.ns) ?? .max)
        if apps.areMany {
            for partition in ledger.slots where ledger[partition].firstAdmitting != .none {
                // What waits beyond these times waits for room, which no time brings.
                let record = ledger[partition].firstAdmitting
                if let ns = admissionChangeNs(record), ns > now.ns { next = min(next, ns) }
            }
        }
        return next == .max ? nil : next
    }

    /// Runs the timers. To be called once a turn, and when `nextDeadlineNs` has come.
    package mutating func advance(now: DeliveryTime) {
        self.now = now
        if now.ns >= dispatch.breakers.nextCutOffNs {
            dispatch.breakers.cutOff(isBusy: apps.indices.map { dispatch.apps[$0].handed > 0 }, journal: &journal)
            followCircuits()
        }
        release(ledger.endedSuspensions(nowNs: now.ns), because: { .suspendedReleased($0) })
        while let slot = dispatch.nextBackedOff(in: &store, nowNs: now.ns) {
            dispatch.becomeReadyAgain(slot, in: &store, nowNs: now.ns)
        }
    }

    // MARK: The configuration

    /// A reload of the configuration: these are all apps from now on.
    ///
    /// An app with the name and the environment of an existing one keeps its `AppIndex` and everything that is open for
    /// it. An app that is no longer named is removed: what is not at its transport is deferred, what is there ends as
    /// it does, and new records do not find it. Its transport may close at once. When the retry records of a
    /// removed app come back, they are `invalid` unless it is there again.
    package mutating func replaceApps(_ routes: [AppRoute], now: DeliveryTime) -> AppMapping {
        self.now = now
        let mapping = enter(routes)
        dispatch.breakers.finishReload(journal: &journal)
        store.budget.setTotal(settlement.settings.mostOpen(streams: dispatch.capacity))
        followCircuits()
        return mapping
    }

    /// Tells every part which apps there are from now on.
    private mutating func enter(_ routes: [AppRoute]) -> AppMapping {
        let known = apps.count
        let mapping = apps.replace(by: routes)
        for (route, index) in zip(routes, mapping.indexes) {
            if index.value < known {
                dispatch.replace(index.value, by: route)
            } else {
                store.budget.addApp()
                dispatch.addApp(route, sharingQueuesOf: apps.namesake(of: route), weights: store.budget.weights)
                journal.counters.apps.insert(
                    DeliveryCounters.App(tiers: settlement.settings.tiers.count), at: index.value)
            }
        }
        for app in mapping.removed { dispatch.remove(app.value) }
        return mapping
    }

    // MARK: Transports

    /// How many requests of this app may be unanswered at once (`TransportEvent.capacity`).
    package mutating func setCapacity(_ app: AppIndex, requests: Int, now: DeliveryTime) {
        self.now = now
        guard !apps.isRemoved(app.value) else { return }
        let wasConnected = dispatch.apps[app.value].capacity > 0
        dispatch.setCapacity(app.value, requests)
        if wasConnected != (requests > 0) {
            dispatch.breakers.setConnected(app.value, requests > 0, journal: &journal)
            followCircuits()
        }
        store.budget.setTotal(settlement.settings.mostOpen(streams: dispatch.capacity))
    }

    /// Whether the transport reaches the app's host (`TransportEvent.reachable`).
    ///
    /// With several apps, one that has taken nothing for `CircuitBreakers.cutOffNs` while no connection can be made, or
    /// none of use, is deferred, so that it takes no room from the others. A connection that comes meanwhile ends that
    /// only by an answer (or when it stays and nothing waits for one): one notification at a time may try it. With one
    /// app there is no other to protect, so it waits.
    package mutating func setReachable(_ app: AppIndex, _ isReachable: Bool, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.setReachable(app.value, isReachable, journal: &journal)
        followCircuits()
    }

    /// The key or certificate of this app was replaced: its circuits close at once.
    package mutating func credentialReplaced(_ app: AppIndex, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.replaceCredential(of: app.value, journal: &journal)
        followCircuits()
    }

    /// A GOAWAY showed that the credential is refused (`TransportEvent.credentialRefused`): nothing more of it is sent
    /// before a probe went well, with one app as with many. To be called before the completions of the same turn.
    package mutating func credentialRefused(_ app: AppIndex, _ reason: ReasonCode, now: DeliveryTime) {
        self.now = now
        dispatch.breakers.fault(ofApp: app.value, reason, in: store, journal: &journal)
        followCircuits()
    }

    /// Defers what waits behind circuits that opened in a call of `dispatch.breakers`.
    mutating func followCircuits() {
        guard dispatch.breakers.takeMustCheck() else { return }
        for slot in store.slots where store[slot].state.isWaiting && store[slot].deferral == nil {
            if dispatch.breakers.apps[Int(store[slot].app)].isGated, let reason = reasonToDefer(slot) {
                deferToTier(slot, reason)
            }
        }
    }
}
