import PushRecords

/// Says whether a notification may be sent now, and why not: its app is paused or removed, or one of its circuit
/// breakers is open, that of its host, its credential or the notification's topic. Counts how long each app has been
/// deferred for each reason.
///
/// Circuits open and close inside its calls. `takeMustCheck` then says that waiting notifications may have to be
/// deferred.
struct CircuitBreakers: ~Copyable {
    /// The shortest time between two events about the same app.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// An app without a connection, and none to be had, is cut off after this.
    static let cutOffNs: Int64 = 5_000_000_000

    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    struct App {
        /// It is paused or removed, or one of its circuits is open. What is to be sent has to be checked.
        var isGated = false
        var isRemoved = false
        var isPaused: Bool
        // The circuits that are open.
        var host: Circuit?
        var credential: Circuit?
        var topics: [String: Circuit] = [:]
        /// When that of the credential closed last, or the credential was replaced: tries handed out before say
        /// nothing.
        var credentialClosedNs = Int64.min
        var deferred = [DeferredCounts](repeating: DeferredCounts(), count: DeferralReason.allCases.count)

        /// The latest report of its transport, true before the first.
        var isReachable = true
        /// Its transport takes requests.
        var isConnected = false
        /// Since when there is a connection, or was last.
        var connectedNs: Int64 = 0
        /// Since when it takes nothing while no connection can be made, or none is of use; `nil` if it does or may.
        var unreachableNs: Int64?

        /// Whether all of it is deferred, except a probe.
        var isClosed: Bool { isRemoved || isPaused || host != nil || credential != nil }

        subscript(name: CircuitName) -> Circuit? {
            get {
                switch name {
                case .connection: host
                case .credential: credential
                case .topic(let topic, _): topics[topic]
                }
            }
            set {
                switch name {
                case .connection: host = newValue
                case .credential: credential = newValue
                case .topic(let topic, _): topics[topic] = newValue
                }
            }
        }
    }

    /// By `AppIndex`.
    private(set) var apps: [App] = []
    /// When the next app without a connection is cut off; `Int64.max` if none is due.
    private(set) var nextCutOffNs = Int64.max
    private var mustCheck = false

    // MARK: May it be sent

    /// Why this notification may not be sent now; `nil` if it may. It may become a circuit's probe.
    @inline(__always)
    mutating func reasonToDefer(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64
    ) -> DeferralReason? {
        let app = Int(store[slot].app)
        return apps[app].isGated ? gatedReason(slot, app, in: store, nowNs: nowNs) : nil
    }

    private mutating func gatedReason(
        _ slot: NotificationSlot, _ app: Int, in store: borrowing NotificationStore, nowNs: Int64
    ) -> DeferralReason? {
        if apps[app].isRemoved || apps[app].isPaused { return .paused }
        // There is no connection that a probe could try.
        if apps[app].host != nil, !apps[app].isConnected { return .unreachable }
        if isProbe(slot, in: store) { return nil }
        let id = store.id(of: slot)
        if let isProbe = apps[app].host?.admits(id, nowNs: nowNs) { return isProbe ? nil : .unreachable }
        let name = apps[app].credential != nil ? .credential(of: AppIndex(app)) : openTopic(of: slot, in: store)
        guard let isProbe = name.flatMap({ apps[app][$0]?.admits(id, nowNs: nowNs) }) else { return nil }
        return isProbe ? nil : .credential
    }

    private mutating func refreshGate(of app: Int) {
        apps[app].isGated = apps[app].isClosed || !apps[app].topics.isEmpty
    }

    /// The open circuit of a notification's topic.
    func openTopic(of slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitName? {
        let app = Int(store[slot].app)
        guard !apps[app].topics.isEmpty, store.hasBody(store[slot].record) else { return nil }
        let topic = String(decoding: store[bodyOf: store[slot].record].headers.topic, as: UTF8.self)
        return apps[app].topics[topic] != nil ? .topic(topic, of: AppIndex(app)) : nil
    }

    /// Whether circuits changed since the last call so that what waits is to be checked again.
    mutating func takeMustCheck() -> Bool {
        defer { mustCheck = false }
        return mustCheck
    }

    // MARK: Apps

    mutating func addApp(_ route: AppRoute) {
        apps.append(App(isPaused: route.isPaused))
        refreshGate(of: apps.count - 1)
    }

    /// A reload of the configuration has this route for an app.
    mutating func replace(_ app: Int, by route: AppRoute) {
        if apps[app].isPaused, !route.isPaused { endDeferral(.paused, of: app) }
        apps[app].isPaused = route.isPaused
    }

    /// A reload removed an app, and its transport with it.
    mutating func remove(_ app: Int) {
        apps[app].isRemoved = true
        apps[app].isReachable = true
        apps[app].isConnected = false
    }

    /// Ends a reload, after `addApp`, `replace` and `remove`.
    mutating func finishReload(journal: inout Journal) {
        for app in apps.indices {
            refreshHost(of: app, journal: &journal)
            // No answer can close the circuits of a removed app.
            if apps[app].isRemoved { closeCredential(of: app, journal: &journal) }
            refreshGate(of: app)
        }
        mustCheck = true
    }

    // MARK: Credentials and topics

    /// Apple refused the credential of an app, in an answer to this notification.
    ///
    /// - Parameter handedNs: when the try that was refused was handed out.
    /// - Returns: whether that says something of the credential: what was handed out before its circuit closed does
    ///   not.
    mutating func fault(
        _ slot: NotificationSlot, _ reason: ReasonCode, handedNs: Int64, in store: borrowing NotificationStore,
        journal: inout Journal
    ) -> Bool {
        let app = Int(store[slot].app)
        guard handedNs >= apps[app].credentialClosedNs else { return false }
        var name = CircuitName.credential(of: AppIndex(app))
        if reason.subject == .topic {
            guard store.hasBody(store[slot].record) else { return true }
            let topic = String(decoding: store[bodyOf: store[slot].record].headers.topic, as: UTF8.self)
            name = .topic(topic, of: AppIndex(app))
        }
        open(name, app, reason, handedNs: handedNs, journal: &journal)
        return true
    }

    /// Apple refused the credential of an app without answering a request.
    mutating func fault(
        ofApp app: Int, _ reason: ReasonCode, in store: borrowing NotificationStore, journal: inout Journal
    ) {
        let probe = apps[app].credential?.probe
        open(.credential(of: AppIndex(app)), app, reason, handedNs: journal.now.ns, journal: &journal)
        // The probe's connection ended so: no other answer to it will come.
        if let probe, case .handed = store[probe.slot].state {
            apps[app].credential?.probeFailed(nowNs: journal.now.ns)
        }
    }

    private mutating func open(
        _ name: CircuitName, _ app: Int, _ reason: ReasonCode, handedNs: Int64, journal: inout Journal
    ) {
        guard apps[app][name] == nil else {
            apps[app][name]?.fault(handedNs: handedNs)
            return
        }
        apps[app][name] = Circuit(handedNs: handedNs, nowNs: journal.now.ns)
        journal.counters.circuitsOpened &+= 1
        journal.events.append(.circuitOpened(name, reason: reason))
        refreshGate(of: app)
        mustCheck = true
    }

    private mutating func close(_ name: CircuitName, of app: Int, journal: inout Journal) {
        // What was a probe may be behind another circuit.
        if apps[app][name]?.probe != nil { mustCheck = true }
        apps[app][name] = nil
        if case .credential = name { apps[app].credentialClosedNs = journal.now.ns }
        journal.events.append(.circuitClosed(name))
        if case .connection = name {
            endDeferral(.unreachable, of: app)
        } else if apps[app].credential == nil, apps[app].topics.isEmpty {
            endDeferral(.credential, of: app)
        }
        refreshGate(of: app)
    }

    private mutating func closeCredential(of app: Int, journal: inout Journal) {
        if apps[app].credential != nil { close(.credential(of: AppIndex(app)), of: app, journal: &journal) }
        for topic in apps[app].topics.keys { close(.topic(topic, of: AppIndex(app)), of: app, journal: &journal) }
    }

    /// The key or certificate of an app was replaced: its circuits close, and those of its topics.
    mutating func replaceCredential(of app: Int, journal: inout Journal) {
        closeCredential(of: app, journal: &journal)
        apps[app].credentialClosedNs = journal.now.ns
    }

    // MARK: Probes

    /// Whether an open circuit lets this notification try, and waits for its answer.
    @inline(__always)
    func isProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        circuit(probedBy: slot, in: store) != nil
    }

    @inline(__always)
    private func circuit(probedBy slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitName? {
        let app = Int(store[slot].app)
        guard app >= 0, apps[app].isGated else { return nil }
        let id = store.id(of: slot)
        if apps[app].host?.probe == id { return .connection(of: AppIndex(app)) }
        if apps[app].credential?.probe == id { return .credential(of: AppIndex(app)) }
        return apps[app].topics.first { $0.value.probe == id }.map { .topic($0.key, of: AppIndex(app)) }
    }

    /// An answer of APNs for an app that is gated: it may tell that a circuit has to close.
    ///
    /// - Parameter handedNs: when the try that was answered was handed out.
    mutating func note(
        _ completion: Completion, _ verdict: Verdict, for slot: NotificationSlot, handedNs: Int64,
        in store: borrowing NotificationStore, journal: inout Journal
    ) {
        let app = Int(store[slot].app)
        // An overloaded server, or one that is not APNs, may not have looked at the credential.
        let isOfCredential =
            completion.reason.subject != .ourTokens && !AnswerOrigin.isHostFailure(completion.status, completion.reason)
        if let name = circuit(probedBy: slot, in: store) {
            switch verdict {
            case .credentialFault: settleProbe(name, of: app, fault: completion.reason, journal: &journal)
            // Its credential was refused, but not for the last time: it tries again.
            case .resend where completion.status == 403 || completion.reason.subject == .topic: break
            case .accept, .unregister, .reject, .resend, .retry:
                if isOfCredential || name == .connection(of: AppIndex(app)) {
                    settleProbe(name, of: app, fault: nil, journal: &journal)
                } else {
                    apps[app][name]?.probePostponed(nowNs: journal.now.ns)
                }
            }
        }
        // This holds for a probe as well: one that tried the host of an app that was cut off has tried its credential.
        guard apps[app].isGated, verdict != .credentialFault, completion.status != 403, isOfCredential else { return }
        if apps[app].credential?.isDisproved(byTryHandedNs: handedNs) == true {
            close(.credential(of: AppIndex(app)), of: app, journal: &journal)
        }
        // Any other answer than 200 may come from before APNs looked at the topic.
        if completion.status == 200, let name = openTopic(of: slot, in: store),
            apps[app][name]?.isDisproved(byTryHandedNs: handedNs) == true
        {
            close(name, of: app, journal: &journal)
        }
    }

    /// The probe was answered: its circuit closes, or waits longer.
    private mutating func settleProbe(_ name: CircuitName, of app: Int, fault: ReasonCode?, journal: inout Journal) {
        if case .connection = name {
            // Whatever the answer was: the transport will say so as well.
            setReachable(app, true, journal: &journal)
        } else if fault == nil || name == .credential(of: AppIndex(app)) && fault?.subject == .topic {
            // A fault of the topic shows that the credential is accepted.
            close(name, of: app, journal: &journal)
        } else {
            apps[app][name]?.probeFailed(nowNs: journal.now.ns)
        }
    }

    /// A try came back without an answer: if it was the probe of its app's host, the app stays cut off.
    mutating func failHostProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64) {
        guard case .connection(let app) = circuit(probedBy: slot, in: store) else { return }
        apps[app.value].host?.probeFailed(nowNs: nowNs)
    }

    /// It is decided, goes another way, or is gone: if a circuit waits for its answer, another one may try.
    @inline(__always)
    mutating func endProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        if let name = circuit(probedBy: slot, in: store) { apps[Int(store[slot].app)][name]?.probeEnded() }
    }

    // MARK: Hosts

    /// The transport says whether it reaches the app's host.
    mutating func setReachable(_ app: Int, _ isReachable: Bool, journal: inout Journal) {
        if !apps[app].isRemoved { apps[app].isReachable = isReachable }
        refreshHost(of: app, journal: &journal)
    }

    /// The transport takes requests from now on, or no more.
    mutating func setConnected(_ app: Int, _ isConnected: Bool, journal: inout Journal) {
        apps[app].isConnected = isConnected
        if isConnected { apps[app].connectedNs = journal.now.ns }
        refreshHost(of: app, journal: &journal)
    }

    /// With one app there is no other to protect.
    private var protectsOthers: Bool { apps.count { !$0.isRemoved } > 1 }

    private mutating func refreshHost(of app: Int, journal: inout Journal) {
        if apps[app].isReachable {
            apps[app].unreachableNs = nil
        } else if apps[app].unreachableNs == nil, !apps[app].isConnected {
            apps[app].unreachableNs = journal.now.ns
        }
        if apps[app].isReachable || !protectsOthers, apps[app].host != nil {
            close(.connection(of: AppIndex(app)), of: app, journal: &journal)
        }
        refreshNextCutOff()
    }

    private mutating func refreshNextCutOff() {
        nextCutOffNs = protectsOthers ? apps.indices.compactMap { cutOffDueNs($0) }.min() ?? .max : .max
    }

    /// When an app is to be cut off; `nil` if it is not to be, or is.
    private func cutOffDueNs(_ app: Int) -> Int64? {
        guard let unreachableNs = apps[app].unreachableNs, apps[app].host == nil else { return nil }
        // What becomes of a connection says more than what became of those before it.
        return (apps[app].isConnected ? max(unreachableNs, apps[app].connectedNs) : unreachableNs) + Self.cutOffNs
    }

    /// Cuts off the apps for which that is due (`nextCutOffNs`).
    ///
    /// - Parameter isBusy: for each app, whether something is at its transport.
    mutating func cutOff(isBusy: [Bool], journal: inout Journal) {
        for app in apps.indices {
            guard let dueNs = cutOffDueNs(app), journal.now.ns >= dueNs else { continue }
            if apps[app].isConnected, !isBusy[app] {
                // A connection that stays, with nothing that waits for an answer, is all one can ask of a host.
                apps[app].unreachableNs = nil
            } else {
                open(.connection(of: AppIndex(app)), app, .none, handedNs: journal.now.ns, journal: &journal)
            }
        }
        refreshNextCutOff()
    }

    // MARK: How long

    /// One of an app is deferred now.
    ///
    /// - Parameters:
    ///   - pauseNs: after so long without another one, a sporadic reason starts anew.
    ///   - roundNs: how long a deferred notification takes to come back.
    /// - Returns: how long the reason has lasted, and how many were deferred before in this round.
    mutating func note(
        _ reason: DeferralReason, of app: Int, pauseNs: Int64, roundNs: Int64, journal: inout Journal
    ) -> (forNs: Int64, before: Int) {
        let noted = apps[app].deferred[Int(reason.rawValue)].note(
            journal.now.ns, pauseNs: reason.isSporadic ? pauseNs : nil, roundNs: roundNs)
        if noted.isNews { journal.events.append(.held(app: AppIndex(app), reason)) }
        return (noted.forNs, noted.before)
    }

    /// A reason that began has ended.
    mutating func endDeferral(_ reason: DeferralReason, of app: Int) { apps[app].deferred[Int(reason.rawValue)].end() }
}
