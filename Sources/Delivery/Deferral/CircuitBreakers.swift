import PushRecords

/// Says whether a notification may be sent now, and why not: its app is paused or removed, or a circuit breaker is open
/// that protects its app's host, its credential or its topic. Counts how long each app has been deferred for each
/// reason.
///
/// Circuits open and close inside its calls. The machine then asks what follows from that: `takeOpened` says that
/// waiting notifications may have to be deferred, `takeFormerProbe` that one is no longer exempt.
struct CircuitBreakers: ~Copyable {
    /// The shortest time between two events about the same app.
    static let eventPauseNs: Int64 = 10_000_000_000
    /// An app without a connection, and none to be had, is cut off after this.
    static let cutOffNs: Int64 = 5_000_000_000
    /// Topics with a circuit of their own at once.
    static let topicLimit = 1_000

    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    struct App {
        /// It is paused or removed, or a circuit that protects it is open. What is to be sent has to be checked.
        var isGated = false
        var isRemoved = false
        var isPaused: Bool
        /// The circuit key of its credential.
        var credential: CircuitKey
        var deferred = [DeferredCounts](repeating: DeferredCounts(), count: DeferralReason.allCases.count)
        var nextFaultEventNs: Int64 = 0

        /// What its transport said last; true until it did.
        var isReachable = true
        /// Its transport takes requests.
        var isConnected = false
        /// Since when there is a connection, or was last.
        var connectedNs: Int64 = 0
        /// Since when it takes nothing while no connection can be made, or none is of use; `nil` if it does or may.
        var unreachableNs: Int64?
    }

    /// By `AppIndex`.
    private(set) var apps: [App] = []
    /// The open circuits, and those of hosts and credentials that were open or replaced before.
    private(set) var circuits: [Circuit] = []
    /// When the next app without a connection is cut off; `Int64.max` if none is due.
    private(set) var nextCutOffNs = Int64.max
    private var hasOpened = false
    private var formerProbes: [NotificationID] = []

    // MARK: May it be sent

    /// Why this notification may not be sent now; `nil` if it may. It may become a circuit's probe.
    @inline(__always)
    mutating func reasonToDefer(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64
    ) -> DeferralReason? {
        let app = Int(store[slot].app)
        return apps[app].isGated ? gatedReason(slot, app, in: store, nowNs: nowNs) : nil
    }

    /// Whether some of the app's notifications may have to be deferred.
    @inline(__always)
    func isGated(_ app: Int) -> Bool { apps[app].isGated }

    private mutating func gatedReason(
        _ slot: NotificationSlot, _ app: Int, in store: borrowing NotificationStore, nowNs: Int64
    ) -> DeferralReason? {
        if apps[app].isRemoved || apps[app].isPaused { return .paused }
        let host = openCircuit(.host(app: app))
        // There is no connection that a probe could try.
        if host != nil, !apps[app].isConnected { return .unreachable }
        if isProbe(slot, in: store) { return nil }
        let id = store.id(of: slot)
        if let host { return circuits[host].admits(id, nowNs: nowNs) ? nil : .unreachable }
        guard let refused = openCircuit(apps[app].credential) ?? topicCircuit(of: slot, in: store) else { return nil }
        return circuits[refused].admits(id, nowNs: nowNs) ? nil : .credential
    }

    /// Whether all of an app is deferred, except a probe.
    func isClosed(_ app: Int) -> Bool {
        apps[app].isRemoved || apps[app].isPaused || isCutOff(app) || openCircuit(apps[app].credential) != nil
    }

    private mutating func refreshGate(of app: Int) { apps[app].isGated = isClosed(app) || openTopics(app) > 0 }

    private func openCircuit(_ key: CircuitKey) -> Int? { circuits.firstIndex { $0.isOpen && $0.key == key } }

    /// The open circuit of a notification's topic.
    func topicCircuit(of slot: NotificationSlot, in store: borrowing NotificationStore) -> Int? {
        let app = Int(store[slot].app)
        guard apps[app].isGated, store.hasBody(store[slot].record) else { return nil }
        let topic = store[bodyOf: store[slot].record].topic
        return circuits.firstIndex { circuit in
            guard case .topic(let bytes, app) = circuit.key else { return false }
            return bytes.withUnsafeBytes { BytesHash.isEqual($0, topic) }
        }
    }

    /// Whether a circuit with this key protects the app.
    private func protects(_ key: CircuitKey, _ app: Int) -> Bool {
        switch key {
        case .host(let other), .topic(_, let other): other == app
        case .credential: apps[app].credential == key
        }
    }

    /// Whether a circuit opened since the last call: what waits is to be checked again.
    mutating func takeOpened() -> Bool {
        defer { hasOpened = false }
        return hasOpened
    }

    /// A notification that was a probe until its circuit closed: it may be behind another circuit.
    mutating func takeFormerProbe() -> NotificationID? { formerProbes.popLast() }

    // MARK: Apps

    mutating func addApp(_ route: AppRoute) {
        apps.append(App(isPaused: route.isPaused, credential: Self.credential(of: route, app: apps.count)))
        refreshGate(of: apps.count - 1)
    }

    /// A reload of the configuration has this route for an app.
    mutating func replace(_ app: Int, by route: AppRoute) {
        if apps[app].isPaused, !route.isPaused { endDeferral(.paused, of: app) }
        apps[app].isPaused = route.isPaused
        let credential = Self.credential(of: route, app: app)
        guard credential != apps[app].credential else { return }
        // Apple has not refused the new one yet.
        endDeferral(.credential, of: app)
        apps[app].credential = credential
    }

    /// A reload removed an app, and its transport with it.
    mutating func remove(_ app: Int) {
        apps[app].isRemoved = true
        apps[app].isReachable = true
        apps[app].isConnected = false
    }

    /// Ends a reload, after `addApp`, `replace` and `remove`.
    mutating func finishReload(in store: borrowing NotificationStore, journal: inout Journal) {
        for app in apps.indices { refreshHost(of: app, journal: &journal) }
        for index in circuits.indices {
            // The probe of an app that has another credential now says nothing about the old one.
            guard let probe = circuits[index].probe, !protects(circuits[index].key, Int(store[probe.slot].app)) else {
                continue
            }
            circuits[index].probeEnded()
        }
        // No answer could close the circuit of what no app uses any more.
        for index in circuits.indices.reversed() where circuits[index].isOpen {
            let key = circuits[index].key
            if !apps.indices.contains(where: { !apps[$0].isRemoved && protects(key, $0) }) {
                close(index, journal: &journal)
            }
        }
        for app in apps.indices { refreshGate(of: app) }
        hasOpened = true
    }

    private static func credential(of route: AppRoute, app: Int) -> CircuitKey {
        .credential(
            route.credential, route.environment, soleApp: route.credential == AppRoute.ownCredential ? app : -1)
    }

    /// Whether something of each app may have to be deferred.
    var gated: [Bool] { apps.map(\.isGated) }

    // MARK: Credentials and topics

    /// Apple refused the credential of an app, in an answer to this notification.
    ///
    /// - Parameter handedNs: when the try that was refused was handed out.
    mutating func fault(
        _ slot: NotificationSlot, _ reason: ReasonCode, handedNs: Int64, in store: borrowing NotificationStore,
        journal: inout Journal
    ) -> Circuit.Effect {
        let app = Int(store[slot].app)
        noteFault(app, reason, journal: &journal)
        guard reason.subject == .topic else {
            return fault(apps[app].credential, app, reason, handedNs: handedNs, journal: &journal)
        }
        let replacedNs = circuits.first { $0.key == apps[app].credential }?.replacedNs ?? .min
        if handedNs < replacedNs { return .outdated }
        guard store.hasBody(store[slot].record) else { return .none }
        let key = CircuitKey.topic(Array(store[bodyOf: store[slot].record].topic), app: app)
        return fault(key, app, reason, handedNs: handedNs, journal: &journal)
    }

    /// Apple refused the credential of an app without answering a request.
    mutating func fault(
        ofApp app: Int, _ reason: ReasonCode, in store: borrowing NotificationStore, journal: inout Journal
    ) {
        noteFault(app, reason, journal: &journal)
        let nowNs = journal.now.ns
        guard fault(apps[app].credential, app, reason, handedNs: nowNs, journal: &journal) == .none,
            let index = openCircuit(apps[app].credential), let probe = circuits[index].probe,
            case .handed = store[probe.slot].state
        else { return }
        // The probe's connection ended so: no other answer to it will come.
        circuits[index].probeFailed(nowNs: nowNs)
    }

    /// Logs that Apple does not accept an app's credential, not too often.
    private mutating func noteFault(_ app: Int, _ reason: ReasonCode, journal: inout Journal) {
        guard journal.now.ns >= apps[app].nextFaultEventNs else { return }
        apps[app].nextFaultEventNs = journal.now.ns + Self.eventPauseNs
        journal.events.append(.credentialFault(app: AppIndex(app), reason: reason))
    }

    private mutating func fault(
        _ key: CircuitKey, _ app: Int, _ reason: ReasonCode, handedNs: Int64, journal: inout Journal
    ) -> Circuit.Effect {
        guard let index = index(of: key) else { return .none }
        let effect = circuits[index].fault(reason, handedNs: handedNs, nowNs: journal.now.ns)
        guard effect == .opened else { return effect }
        circuits[index].namingApp = apps.indices.first { protects(key, $0) } ?? app
        journal.counters.circuitsOpened &+= 1
        journal.events.append(.circuitOpened(Self.name(of: circuits[index]), reason: reason))
        for app in apps.indices where protects(key, app) { refreshGate(of: app) }
        hasOpened = true
        return effect
    }

    /// The place of the circuit with this key, which is made where there is none; `nil` if there are too many.
    private mutating func index(of key: CircuitKey) -> Int? {
        if let known = circuits.firstIndex(where: { $0.key == key }) { return known }
        if case .topic = key, circuits.count(where: { $0.key.isTopic }) >= Self.topicLimit { return nil }
        circuits.append(Circuit(key))
        return circuits.count - 1
    }

    private mutating func close(_ index: Int, journal: inout Journal) {
        let circuit = circuits[index]
        if let probe = circuit.probe { formerProbes.append(probe) }
        journal.events.append(.circuitClosed(Self.name(of: circuit)))
        if circuit.key.isTopic { circuits.remove(at: index) } else { circuits[index].close(nowNs: journal.now.ns) }
        for app in apps.indices where protects(circuit.key, app) {
            if case .host = circuit.key {
                endDeferral(.unreachable, of: app)
            } else if openCircuit(apps[app].credential) == nil, openTopics(app) == 0 {
                endDeferral(.credential, of: app)
            }
            refreshGate(of: app)
        }
    }

    private static func name(of circuit: Circuit) -> CircuitName {
        switch circuit.key {
        case .host(let app): .connection(of: AppIndex(app))
        case .credential: .credential(of: AppIndex(circuit.namingApp))
        case .topic(let topic, let app): .topic(String(decoding: topic, as: UTF8.self), of: AppIndex(app))
        }
    }

    /// The key or certificate with this number was replaced: its circuits close, and those of its apps' topics.
    mutating func replaceCredential(_ number: Int, journal: inout Journal) {
        for app in apps.indices where apps[app].credential.isCredential(number) {
            guard let index = index(of: apps[app].credential) else { continue }
            if circuits[index].isOpen { close(index, journal: &journal) }
            circuits[index].replaced(nowNs: journal.now.ns)
        }
        for index in circuits.indices.reversed() {
            guard case .topic(_, let app) = circuits[index].key, apps[app].credential.isCredential(number) else {
                continue
            }
            close(index, journal: &journal)
        }
    }

    // MARK: Probes

    /// Whether an open circuit lets this notification try, and waits for its answer.
    @inline(__always)
    func isProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        circuit(probedBy: slot, in: store) != nil
    }

    @inline(__always)
    private func circuit(probedBy slot: NotificationSlot, in store: borrowing NotificationStore) -> Int? {
        let app = Int(store[slot].app)
        // That is so of nearly all notifications: no circuit is open that could stop it.
        guard app >= 0, apps[app].isGated else { return nil }
        return openCircuit(probedBy: store.id(of: slot), app)
    }

    private func openCircuit(probedBy id: NotificationID, _ app: Int) -> Int? {
        circuits.firstIndex { $0.probe == id && protects($0.key, app) }
    }

    /// An answer of APNs for an app that is gated: it may tell that a circuit has to close.
    ///
    /// - Parameter handedNs: when the try that was answered was handed out.
    mutating func note(
        _ completion: Completion, _ verdict: Verdict, for slot: NotificationSlot, handedNs: Int64,
        in store: borrowing NotificationStore, journal: inout Journal
    ) {
        // An overloaded server, or one that is not APNs, may not have looked at the credential.
        let isOfCredential =
            completion.reason.subject != .ourTokens && !AnswerOrigin.isHostFailure(completion.status, completion.reason)
        if let index = circuit(probedBy: slot, in: store) {
            switch verdict {
            case .credentialFault: settleProbe(index, fault: completion.reason, journal: &journal)
            // Its credential was refused, but not for the last time: it tries again.
            case .resend where completion.status == 403 || completion.reason.subject == .topic: break
            case .accept, .unregister, .reject, .resend, .retry:
                if isOfCredential || circuits[index].key.isHost {
                    settleProbe(index, fault: nil, journal: &journal)
                } else {
                    circuits[index].probePostponed(nowNs: journal.now.ns)
                }
            }
        }
        // This holds for a probe as well: one that tried the host of an app that was cut off has tried its credential.
        let app = Int(store[slot].app)
        guard isGated(app), verdict != .credentialFault, completion.status != 403, isOfCredential else { return }
        if let index = openCircuit(apps[app].credential), circuits[index].isDisproved(byTryHandedNs: handedNs) {
            close(index, journal: &journal)
        }
        // Any other answer than 200 may come from before APNs looked at the topic.
        if completion.status == 200, let index = topicCircuit(of: slot, in: store),
            circuits[index].isDisproved(byTryHandedNs: handedNs)
        {
            close(index, journal: &journal)
        }
    }

    /// The probe was answered: its circuit closes, or waits longer.
    private mutating func settleProbe(_ index: Int, fault: ReasonCode?, journal: inout Journal) {
        switch circuits[index].key {
        // Whatever the answer was: the transport will say so as well.
        case .host(let app): setReachable(app, true, journal: &journal)
        // A fault of the topic shows that the credential is accepted.
        case .credential where fault?.subject == .topic: close(index, journal: &journal)
        case .credential, .topic:
            if fault == nil {
                close(index, journal: &journal)
            } else {
                circuits[index].probeFailed(nowNs: journal.now.ns)
            }
        }
    }

    /// A try came back without an answer: if it was the probe of its app's host, the app stays cut off.
    mutating func failHostProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64) {
        guard let index = circuit(probedBy: slot, in: store), circuits[index].key.isHost else { return }
        circuits[index].probeFailed(nowNs: nowNs)
    }

    /// It is decided, goes another way, or is gone: if a circuit waits for its answer, another one may try.
    @inline(__always)
    mutating func endProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        if let index = circuit(probedBy: slot, in: store) { circuits[index].probeEnded() }
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
        if apps[app].isReachable || !protectsOthers, let index = openCircuit(.host(app: app)) {
            close(index, journal: &journal)
        }
        refreshNextCutOff()
    }

    private mutating func refreshNextCutOff() {
        nextCutOffNs = protectsOthers ? apps.indices.compactMap { cutOffDueNs($0) }.min() ?? .max : .max
    }

    /// When an app is to be cut off; `nil` if it is not to be, or is.
    private func cutOffDueNs(_ app: Int) -> Int64? {
        guard let unreachableNs = apps[app].unreachableNs, !isCutOff(app) else { return nil }
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
                _ = fault(.host(app: app), app, .none, handedNs: journal.now.ns, journal: &journal)
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
            journal.now.ns, pauseNs: reason.isSporadic ? pauseNs : nil, eventPauseNs: Self.eventPauseNs,
            roundNs: roundNs)
        if noted.isNews { journal.events.append(.held(app: AppIndex(app), reason)) }
        return (noted.forNs, noted.before)
    }

    /// A reason that began has ended.
    mutating func endDeferral(_ reason: DeferralReason, of app: Int) { apps[app].deferred[Int(reason.rawValue)].end() }

    /// Since when notifications of an app are deferred, for whatever reason; `nil` if none are.
    func deferredSinceNs(_ app: Int, pauseNs: Int64, nowNs: Int64) -> Int64? {
        DeferralReason.allCases.compactMap { reason in
            let counts = apps[app].deferred[Int(reason.rawValue)]
            return reason.isSporadic && nowNs - counts.lastNs > pauseNs ? nil : counts.firstNs
        }.min()
    }

    // MARK: Status

    func isCutOff(_ app: Int) -> Bool { openCircuit(.host(app: app)) != nil }

    func openTopics(_ app: Int) -> Int {
        circuits.count { if case .topic(_, app) = $0.key { true } else { false } }
    }

    /// The open circuit of an app's credential, unless the app was removed.
    func credentialCircuit(_ app: Int) -> Circuit? {
        apps[app].isRemoved ? nil : openCircuit(apps[app].credential).map { circuits[$0] }
    }

    /// Notifications whose answers circuits wait for.
    var probes: [NotificationID] { circuits.compactMap(\.probe) }
}

extension CircuitKey {
    fileprivate var isTopic: Bool { if case .topic = self { true } else { false } }
    fileprivate var isHost: Bool { if case .host = self { true } else { false } }

    fileprivate func isCredential(_ number: Int) -> Bool {
        if case .credential(number, _, _) = self { true } else { false }
    }
}
