import PushRecords

/// Decides whether a notification may be sent now. While an app is paused or removed, none of its notifications may be
/// sent. While the circuit breaker of its host, its credential or a topic is open, only the circuit's probes may be
/// sent.
///
/// Circuits open and close during calls of these methods. Check `mustCheck` afterwards: if it is true, waiting
/// notifications may have to be deferred.
struct CircuitBreakers: ~Copyable {
    /// How long an app may be without a usable connection before the circuit of its host opens.
    static let cutOffNs: Int64 = 5_000_000_000

    // This type is not private, because the Swift 6.3.1 compiler crashes on a private type inside a `~Copyable` one.
    struct App {
        let index: AppIndex
        /// Whether the app is paused or removed, or has an open circuit. Its notifications are then checked one by one.
        private(set) var isGated: Bool
        var isRemoved = false { didSet { refreshGate() } }
        var isPaused: Bool { didSet { refreshGate() } }
        /// The open circuits of the app's host, credential and topics.
        var circuits: [CircuitName: Circuit] = [:] { didSet { refreshGate() } }
        /// When the circuit of the credential last closed, or the credential was replaced. Answers to earlier sends say
        /// nothing about the current credential.
        var credentialClosedNs = Int64.min
        /// The counts of deferrals, by `DeferralReason.rawValue`.
        var deferred = [DeferredCounts](repeating: DeferredCounts(), count: DeferralReason.allCases.count)

        /// Whether the host is reachable, as last reported by the transport. True before the first report.
        var isReachable = true
        /// Whether the transport accepts requests.
        var isConnected = false
        /// When the transport last began to accept requests.
        var connectedNs: Int64 = 0
        /// The time since which no usable connection can be made, or `nil` while one exists or may still be made.
        var unreachableNs: Int64?

        init(_ index: Int, isPaused: Bool) {
            self.index = AppIndex(index)
            self.isPaused = isPaused
            isGated = isPaused
        }

        private mutating func refreshGate() { isGated = isRemoved || isPaused || !circuits.isEmpty }

        var host: CircuitName { .connection(of: index) }
        var credential: CircuitName { .credential(of: index) }
        var hasOpenHost: Bool { circuits[host] != nil }
        var hasOpenCredential: Bool { circuits[credential] != nil }
        /// Whether Apple refuses the app's credential, for all topics or for some.
        var isCredentialRefused: Bool { circuits.count > (hasOpenHost ? 1 : 0) }
        /// Whether all of the app's notifications are deferred, except a probe.
        var isClosed: Bool { isGated && (isRemoved || isPaused || hasOpenHost || hasOpenCredential) }
    }

    /// The apps by `AppIndex`.
    var apps: [App] = []
    /// Whether circuits have changed, so that waiting notifications must be checked again.
    var mustCheck = false

    // MARK: Sending

    /// Returns why this notification may not be sent now, or `nil` if it may. The notification may become a circuit's
    /// probe. Call this if the app `isGated`.
    mutating func reasonToDefer(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64
    ) -> DeferralReason? {
        let app = Int(store[slot].app)
        if apps[app].isRemoved || apps[app].isPaused { return .paused }
        // Without a connection no probe can be sent.
        if apps[app].hasOpenHost, !apps[app].isConnected { return .unreachable }
        if circuit(probedBy: slot, in: store) != nil { return nil }
        var name: CircuitName? = apps[app].hasOpenHost ? apps[app].host : apps[app].credential
        if !apps[app].isClosed { name = openTopic(of: slot, in: store) }
        guard let name, apps[app].circuits[name]?.admits(store.id(of: slot), nowNs: nowNs) == false else { return nil }
        return name == apps[app].host ? .unreachable : .credential
    }

    /// Returns the circuit of a notification's topic, or `nil` if the notification has no bytes.
    private func topic(of slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitName? {
        guard store.hasBody(store[slot].record) else { return nil }
        let topic = String(decoding: store[bodyOf: store[slot].record].headers.topic, as: UTF8.self)
        return .topic(topic, of: AppIndex(Int(store[slot].app)))
    }

    /// Returns the open circuit of a notification's topic, if there is one.
    func openTopic(of slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitName? {
        topic(of: slot, in: store).flatMap { apps[Int(store[slot].app)].circuits[$0] != nil ? $0 : nil }
    }

    // MARK: Apps

    mutating func addApp(_ route: AppRoute) { apps.append(App(apps.count, isPaused: route.isPaused)) }

    /// Applies the reloaded configuration of an app.
    mutating func replace(_ app: Int, by route: AppRoute) {
        if apps[app].isPaused, !route.isPaused { endDeferral(.paused, of: app) }
        apps[app].isPaused = route.isPaused
    }

    /// Marks an app as removed by a reload, and as not connected. The caller closes the app's transport.
    mutating func remove(_ app: Int) {
        apps[app].isRemoved = true
        apps[app].isReachable = true
        apps[app].isConnected = false
    }

    /// Updates all circuits at the end of a reload, after the calls of `addApp`, `replace` and `remove`.
    mutating func finishReload(journal: inout Journal) {
        for app in apps.indices {
            refreshHost(of: app, journal: &journal)
            // No answer can close the circuits of a removed app.
            if apps[app].isRemoved { closeCredential(of: app, journal: &journal) }
        }
        mustCheck = true
    }

    // MARK: Credentials and topics

    /// Records that Apple refused the credential of the app in an answer to this notification.
    ///
    /// - Parameter handedNs: When the refused send was handed to the transport.
    /// - Returns: Whether the answer concerns the current credential. It does not if the send was handed out before the
    ///   credential's circuit last closed, or before the credential was replaced.
    mutating func fault(
        _ slot: NotificationSlot, _ reason: ReasonCode, handedNs: Int64, in store: borrowing NotificationStore,
        journal: inout Journal
    ) -> Bool {
        let app = Int(store[slot].app)
        guard handedNs >= apps[app].credentialClosedNs else { return false }
        if let name = reason.subject == .topic ? topic(of: slot, in: store) : apps[app].credential {
            open(name, app, reason, handedNs: handedNs, journal: &journal)
        }
        return true
    }

    /// Records that Apple refused the credential of an app in a GOAWAY or a TLS alert.
    mutating func fault(
        ofApp app: Int, _ reason: ReasonCode, in store: borrowing NotificationStore, journal: inout Journal
    ) {
        let name = apps[app].credential
        let probe = apps[app].circuits[name]?.probe
        open(name, app, reason, handedNs: journal.now.ns, journal: &journal)
        // The refusal probably ended the probe's connection, so it counts as the answer to the probe.
        if let probe, case .handed = store[probe.slot].state {
            apps[app].circuits[name]?.probeFailed(nowNs: journal.now.ns)
        }
    }

    private mutating func open(
        _ name: CircuitName, _ app: Int, _ reason: ReasonCode, handedNs: Int64, journal: inout Journal
    ) {
        guard apps[app].circuits[name] == nil else {
            apps[app].circuits[name]?.fault(handedNs: handedNs)
            return
        }
        apps[app].circuits[name] = Circuit(handedNs: handedNs, nowNs: journal.now.ns)
        journal.counters.circuitsOpened &+= 1
        journal.events.append(.circuitOpened(name, reason: reason))
        mustCheck = true
    }

    private mutating func close(_ name: CircuitName, of app: Int, journal: inout Journal) {
        // Check all waiting notifications again, because another open circuit may now block the former probe.
        if apps[app].circuits[name]?.probe != nil { mustCheck = true }
        apps[app].circuits[name] = nil
        if name == apps[app].credential { apps[app].credentialClosedNs = journal.now.ns }
        journal.events.append(.circuitClosed(name))
        if name == apps[app].host {
            endDeferral(.unreachable, of: app)
        } else if !apps[app].isCredentialRefused {
            endDeferral(.credential, of: app)
        }
    }

    private mutating func closeCredential(of app: Int, journal: inout Journal) {
        for name in apps[app].circuits.keys where name != apps[app].host { close(name, of: app, journal: &journal) }
    }

    /// Closes the circuits of an app's credential and topics, because the app's key or certificate was replaced.
    mutating func replaceCredential(of app: Int, journal: inout Journal) {
        closeCredential(of: app, journal: &journal)
        apps[app].credentialClosedNs = journal.now.ns
    }

    // MARK: Probes

    /// Returns the open circuit whose probe this notification is, if there is one.
    @inline(__always)
    func circuit(probedBy slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitName? {
        let app = Int(store[slot].app)
        guard app >= 0, apps[app].isGated else { return nil }
        let id = store.id(of: slot)
        return apps[app].circuits.first { $0.value.probe == id }?.key
    }

    /// Evaluates an answer of APNs for an app with open circuits, and closes the circuits whose fault it disproves.
    ///
    /// - Parameter handedNs: When the answered send was handed to the transport.
    mutating func note(
        _ completion: Completion, _ verdict: Verdict, for slot: NotificationSlot, handedNs: Int64,
        in store: borrowing NotificationStore, journal: inout Journal
    ) {
        let app = Int(store[slot].app)
        // An overloaded server, or a proxy, may not have checked the credential.
        let isOfCredential =
            completion.reason.subject != .ourTokens && !AnswerOrigin.isHostFailure(completion.status, completion.reason)
        if let name = circuit(probedBy: slot, in: store) {
            switch verdict {
            case .credentialFault: settleProbe(name, of: app, fault: completion.reason, journal: &journal)
            // Apple refused the credential or the topic, but the probe is resent once before the refusal counts.
            case .resend where completion.status == 403 || completion.reason.subject == .topic: break
            case .accept, .unregister, .reject, .resend, .retry:
                if isOfCredential || name == apps[app].host {
                    settleProbe(name, of: app, fault: nil, journal: &journal)
                } else {
                    apps[app].circuits[name]?.probePostponed(nowNs: journal.now.ns)
                }
            }
        }
        // Answers to probes count too, because a probe of the app's host has also tested the credential.
        guard apps[app].isGated, verdict != .credentialFault, completion.status != 403, isOfCredential else { return }
        var disproved = [apps[app].credential]
        // Only a 200 shows that the topic is accepted. APNs may send any other answer before it checks the topic.
        if completion.status == 200, let topic = topic(of: slot, in: store) { disproved.append(topic) }
        for name in disproved where apps[app].circuits[name]?.isDisproved(byTryHandedNs: handedNs) == true {
            close(name, of: app, journal: &journal)
        }
    }

    /// Handles the answer to a probe. Closes the probed circuit, or doubles the delay before the next probe.
    private mutating func settleProbe(_ name: CircuitName, of app: Int, fault: ReasonCode?, journal: inout Journal) {
        if name == apps[app].host {
            // Any answer shows that the host is reachable. The transport will report this too.
            setReachable(app, true, journal: &journal)
        } else if fault == nil || name == apps[app].credential && fault?.subject == .topic {
            // A refused topic shows that the credential is accepted.
            close(name, of: app, journal: &journal)
        } else {
            apps[app].circuits[name]?.probeFailed(nowNs: journal.now.ns)
        }
    }

    /// Handles a send that ended without an answer. If the send was the probe of a host, the host's circuit stays open,
    /// and the delay before the next probe doubles.
    mutating func failHostProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64) {
        guard let name = circuit(probedBy: slot, in: store), case .connection(let app) = name else { return }
        apps[app.value].circuits[name]?.probeFailed(nowNs: nowNs)
    }

    /// Lets another notification become the probe, if this one was the probe and will not be sent or answered any more.
    @inline(__always)
    mutating func endProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        if let name = circuit(probedBy: slot, in: store) { apps[Int(store[slot].app)].circuits[name]?.probe = nil }
    }

    // MARK: Hosts

    /// Stores whether the transport reaches the app's host.
    mutating func setReachable(_ app: Int, _ isReachable: Bool, journal: inout Journal) {
        if !apps[app].isRemoved { apps[app].isReachable = isReachable }
        refreshHost(of: app, journal: &journal)
    }

    /// Stores whether the transport accepts requests.
    mutating func setConnected(_ app: Int, _ isConnected: Bool, journal: inout Journal) {
        apps[app].isConnected = isConnected
        if isConnected { apps[app].connectedNs = journal.now.ns }
        refreshHost(of: app, journal: &journal)
    }

    /// Whether several apps are configured, so that an app without a connection must not use the budget of the others.
    private var protectsOthers: Bool { apps.count { !$0.isRemoved } > 1 }

    private mutating func refreshHost(of app: Int, journal: inout Journal) {
        if apps[app].isReachable {
            apps[app].unreachableNs = nil
        } else if apps[app].unreachableNs == nil, !apps[app].isConnected {
            apps[app].unreachableNs = journal.now.ns
        }
        if apps[app].isReachable || !protectsOthers, apps[app].hasOpenHost {
            close(apps[app].host, of: app, journal: &journal)
        }
    }

    /// When the next host circuit opens, or `Int64.max` if none is due.
    var nextCutOffNs: Int64 {
        protectsOthers ? apps.indices.reduce(.max) { min($0, cutOffDueNs($1) ?? .max) } : .max
    }

    /// Returns when the circuit of an app's host will open, or `nil` if it is open already or the host is reachable.
    private func cutOffDueNs(_ app: Int) -> Int64? {
        guard let unreachableNs = apps[app].unreachableNs, !apps[app].hasOpenHost else { return nil }
        // The wait of `cutOffNs` starts again with each new connection.
        return (apps[app].isConnected ? max(unreachableNs, apps[app].connectedNs) : unreachableNs) + Self.cutOffNs
    }

    /// Opens the host circuits that are due (`nextCutOffNs`).
    ///
    /// - Parameter isBusy: For each app, whether its transport has unanswered requests.
    mutating func cutOff(isBusy: [Bool], journal: inout Journal) {
        for app in apps.indices {
            guard let dueNs = cutOffDueNs(app), journal.now.ns >= dueNs else { continue }
            if apps[app].isConnected, !isBusy[app] {
                // A connection that stays open without unanswered requests shows no fault of the host.
                apps[app].unreachableNs = nil
            } else {
                open(apps[app].host, app, .none, handedNs: journal.now.ns, journal: &journal)
            }
        }
    }

    /// Records that notifications of this app are no longer deferred for this reason.
    mutating func endDeferral(_ reason: DeferralReason, of app: Int) {
        apps[app].deferred[Int(reason.rawValue)].firstNs = nil
    }
}
