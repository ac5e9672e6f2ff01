import PushRecords

/// Says whether a notification may go now, and why not: its app was taken out or is paused, nothing connects to its
/// host, or Apple refuses the app's credential, or refuses it for this topic. Knows how long each app has been held for
/// each cause.
///
/// A call that changes something returns what the machine must look at again: apps whose waiting notifications are to
/// be held, or a probe that is a notification like any other again.
struct CircuitBreakers: ~Copyable {
    /// The same thing is told about an app no more often.
    static let eventPauseNs: Int64 = 10_000_000_000

    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    struct App {
        /// Something below, or an open circuit: what is to be sent has to be looked at.
        var isGated = false
        var isRemoved = false
        var isPaused: Bool
        /// Place in `credentials`.
        var credential = 0
        /// Open circuits of its topics.
        var openTopics = 0
        /// Of its host.
        var host = HostCircuit()
        var holdings = Holdings()
        var nextFaultEventNs: Int64 = 0
    }

    /// By `AppIndex`.
    private(set) var apps: [App] = []
    private(set) var credentials: [CredentialCircuit] = []
    /// The open ones.
    private(set) var topics: [TopicCircuit] = []
    /// When the next app without a connection is held; `Int64.max`: never.
    private(set) var nextCutOffNs = Int64.max

    // MARK: May it go

    /// Why this notification may not be sent now; `nil`: it may. It may become a circuit's probe.
    @inline(__always)
    mutating func causeToHold(
        _ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64
    ) -> HeldCause? {
        let app = Int(store[slot].app)
        return apps[app].isGated ? gatedCause(slot, app, in: store, nowNs: nowNs) : nil
    }

    /// Some of what is to be sent may have to be held: `causeToHold` says which.
    @inline(__always)
    func isGated(_ app: Int) -> Bool { apps[app].isGated }

    private mutating func gatedCause(
        _ slot: NotificationSlot, _ app: Int, in store: borrowing NotificationStore, nowNs: Int64
    ) -> HeldCause? {
        if apps[app].isRemoved { return .removed }
        if apps[app].isPaused { return .paused }
        if apps[app].host.isShut { return .unreachable }
        if isProbe(slot, in: store) { return nil }
        let id = store.id(of: slot)
        if apps[app].host.isCutOff { return apps[app].host.admits(id, nowNs: nowNs) ? nil : .unreachable }
        let credential = apps[app].credential
        if credentials[credential].circuit.isOpen {
            return credentials[credential].circuit.admits(id, nowNs: nowNs) ? nil : .credential
        }
        if let topic = topicCircuit(of: slot, in: store) {
            return topics[topic].circuit.admits(id, nowNs: nowNs) ? nil : .topic
        }
        return nil
    }

    /// Whether all of an app is held, but for a probe.
    func isClosed(_ app: Int) -> Bool {
        apps[app].isRemoved || apps[app].isPaused || apps[app].host.isCutOff
            || credentials[apps[app].credential].circuit.isOpen
    }

    /// Writes down what `causeToHold` is to know about the app without looking further.
    private mutating func refreshGate(of app: Int) { apps[app].isGated = isClosed(app) || apps[app].openTopics > 0 }

    /// The open circuit of a notification's topic.
    func topicCircuit(of slot: NotificationSlot, in store: borrowing NotificationStore) -> Int? {
        let app = Int(store[slot].app)
        guard apps[app].openTopics > 0, store.hasBody(store[slot].record) else { return nil }
        let topic = store[bodyOf: store[slot].record].topic
        return topics.firstIndex { circuit in
            circuit.app == app && circuit.topic.withUnsafeBytes { BytesHash.isEqual($0, topic) }
        }
    }

    // MARK: Apps

    mutating func addApp(_ route: AppRoute) {
        apps.append(App(isPaused: route.isPaused))
        let app = apps.count - 1
        apps[app].credential = credentialIndex(of: route, app: app)
        refreshGate(of: app)
    }

    /// A reload has this for it.
    mutating func replace(_ app: Int, by route: AppRoute) {
        if apps[app].isPaused, !route.isPaused { endHolding(.paused, of: app) }
        apps[app].isPaused = route.isPaused
    }

    /// A reload took it out of the configuration, and so its transport away.
    mutating func remove(_ app: Int) {
        apps[app].isRemoved = true
        apps[app].host.remove()
    }

    /// After a reload, with the route that an app has now: its circuit may be another one.
    ///
    /// - Returns: a probe that is one no more.
    mutating func refresh(
        _ app: Int, _ route: AppRoute, ofMany: Bool, nowNs: Int64, journal: inout Journal
    ) -> NotificationID? {
        if !apps[app].isRemoved {
            let credential = credentialIndex(of: route, app: app)
            // Another credential was not refused yet.
            if credential != apps[app].credential { endHolding(.credential, of: app) }
            apps[app].credential = credential
        }
        let probe = refreshHost(of: app, ofMany: ofMany, nowNs: nowNs, journal: &journal)
        refreshGate(of: app)
        return probe
    }

    /// Whether something of each app may have to be held.
    var gated: [Bool] { apps.map(\.isGated) }

    /// After a reload: the probe of an app that has another credential by now says nothing about the old one.
    mutating func endStrayProbes(in store: borrowing NotificationStore) {
        for credential in credentials.indices {
            guard let probe = credentials[credential].circuit.probe,
                apps[Int(store[probe.slot].app)].credential != credential
            else { continue }
            credentials[credential].circuit.probeEnded()
        }
    }

    /// After a reload: the open circuit of a credential that no app has any more closes, since no answer will end it.
    ///
    /// - Returns: probes that are none any more.
    mutating func closeLeft(nowNs: Int64, journal: inout Journal) -> [NotificationID] {
        var probes = credentials.indices.compactMap { credential in
            let isUsed = apps.contains { $0.credential == credential && !$0.isRemoved }
            return isUsed ? nil : closeCredential(at: credential, nowNs: nowNs, journal: &journal)
        }
        // They would count towards the limit for ever: nothing of a removed app is sent that could close them.
        for topic in topics.indices.reversed() where apps[topics[topic].app].isRemoved {
            if let probe = closeTopicCircuit(at: topic, journal: &journal) { probes.append(probe) }
        }
        return probes
    }

    /// The place of the circuit of an app's credential, made where it is new.
    private mutating func credentialIndex(of route: AppRoute, app: Int) -> Int {
        let soleApp = route.credential == AppRoute.ownCredential ? app : -1
        let known = credentials.firstIndex {
            $0.credential == route.credential && $0.environment == route.environment && $0.soleApp == soleApp
        }
        if let known { return known }
        credentials.append(
            CredentialCircuit(credential: route.credential, environment: route.environment, soleApp: soleApp))
        return credentials.count - 1
    }

    // MARK: Credentials

    /// The circuits of the key or certificate with this number.
    func circuits(of credential: Int) -> [Int] {
        credentials.indices.filter { credentials[$0].credential == credential }
    }

    /// The apps whose credential has the circuit of this app's.
    func sharing(_ app: Int) -> [Bool] {
        let credential = apps[app].credential
        return apps.map { $0.credential == credential }
    }

    /// Closes a circuit, if it is open.
    ///
    /// - Returns: its probe, which is one no more.
    mutating func closeCredential(at credential: Int, nowNs: Int64, journal: inout Journal) -> NotificationID? {
        credentials[credential].circuit.isOpen ? closeCircuit(at: credential, nowNs: nowNs, journal: &journal) : nil
    }

    /// The circuit's credential is another one from now on.
    mutating func replaceCredential(at credential: Int, nowNs: Int64) {
        credentials[credential].circuit.replaced(nowNs: nowNs)
    }

    /// Closes an open circuit of a topic of the apps with this circuit, the last one; false: there is none.
    ///
    /// - Parameter probe: its probe, which is one no more.
    mutating func closeTopic(
        ofCredentialAt credential: Int, probe: inout NotificationID?, journal: inout Journal
    ) -> Bool {
        guard let index = topics.lastIndex(where: { apps[$0.app].credential == credential }) else { return false }
        probe = closeTopicCircuit(at: index, journal: &journal)
        return true
    }

    /// Tells that Apple does not accept an app's credential, not too often.
    mutating func tellFault(_ app: Int, _ reason: ReasonCode, nowNs: Int64, journal: inout Journal) {
        guard nowNs >= apps[app].nextFaultEventNs else { return }
        apps[app].nextFaultEventNs = nowNs + Self.eventPauseNs
        journal.events.append(.credentialFault(app: AppIndex(app), reason: reason))
    }

    /// Apple refused the credential of an app. When its circuit opened, what waits of the apps with it is to be held.
    ///
    /// - Parameter handedNs: when the try that was answered so was handed out.
    mutating func credentialFault(
        _ app: Int, _ reason: ReasonCode, handedNs: Int64, nowNs: Int64, journal: inout Journal
    ) -> Circuit.Effect {
        let credential = apps[app].credential
        let effect = credentials[credential].circuit.fault(reason, handedNs: handedNs, nowNs: nowNs)
        if case .opened = effect {
            journal.counters.circuitsOpened &+= 1
            let first = apps.firstIndex { $0.credential == credential } ?? app
            credentials[credential].name = first
            journal.events.append(.circuitOpened(.credential(of: AppIndex(first)), reason: reason))
            for app in apps.indices where apps[app].credential == credential { refreshGate(of: app) }
        }
        return effect
    }

    /// The credential was refused without an answer: that is so of its circuit's probe, if it is under way.
    mutating func probeRefused(_ app: Int, in store: borrowing NotificationStore, nowNs: Int64) {
        let credential = apps[app].credential
        // The probe's connection ended so: no other answer to it will come.
        guard let probe = credentials[credential].circuit.probe, store[probe.slot].state == .handed else { return }
        credentials[credential].circuit.probeFailed(nowNs: nowNs)
    }

    private mutating func closeCircuit(at credential: Int, nowNs: Int64, journal: inout Journal) -> NotificationID? {
        let probe = credentials[credential].circuit.probe
        credentials[credential].circuit.close(nowNs: nowNs)
        journal.events.append(.circuitClosed(.credential(of: AppIndex(credentials[credential].name))))
        for app in apps.indices where apps[app].credential == credential {
            endHolding(.credential, of: app)
            refreshGate(of: app)
        }
        return probe
    }

    // MARK: Topics

    /// Apple refused the credential of an app for the topic of this notification. When the topic's circuit opened, what
    /// waits of the apps with that credential is to be looked at.
    mutating func topicFault(
        _ slot: NotificationSlot, _ reason: ReasonCode, handedNs: Int64, in store: borrowing NotificationStore,
        nowNs: Int64,
        journal: inout Journal
    ) -> Circuit.Effect {
        let app = Int(store[slot].app)
        if handedNs < credentials[apps[app].credential].circuit.replacedNs { return .outdated }
        if let known = topicCircuit(of: slot, in: store) {
            return topics[known].circuit.fault(reason, handedNs: handedNs, nowNs: nowNs)
        }
        guard topics.count < TopicCircuit.limit, store.hasBody(store[slot].record) else { return .none }
        var opened = TopicCircuit(app: app, topic: Array(store[bodyOf: store[slot].record].topic))
        _ = opened.circuit.fault(reason, handedNs: handedNs, nowNs: nowNs)
        topics.append(opened)
        apps[app].openTopics += 1
        refreshGate(of: app)
        journal.counters.circuitsOpened &+= 1
        journal.events.append(.circuitOpened(name(of: opened), reason: reason))
        return .opened
    }

    private mutating func closeTopicCircuit(at topic: Int, journal: inout Journal) -> NotificationID? {
        let closed = topics.remove(at: topic)
        apps[closed.app].openTopics -= 1
        journal.events.append(.circuitClosed(name(of: closed)))
        if apps[closed.app].openTopics == 0 { endHolding(.topic, of: closed.app) }
        refreshGate(of: closed.app)
        return closed.circuit.probe
    }

    private func name(of circuit: TopicCircuit) -> CircuitName {
        .topic(String(decoding: circuit.topic, as: UTF8.self), of: AppIndex(circuit.app))
    }

    // MARK: Probes

    /// A circuit, by its index among its kind.
    // Not private: Swift 6.3.1 crashes on a private type inside a ~Copyable one.
    enum CircuitIndex { case credential(Int), topic(Int), connection(app: Int) }

    /// Whether an open circuit lets this notification try, and waits for its answer. Only the circuit knows.
    @inline(__always)
    func isProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        mayBeProbe(slot, in: store) && circuit(probedBy: slot, in: store) != nil
    }

    /// False of nearly all: no circuit is open that could stop it.
    @inline(__always)
    private func mayBeProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        let app = Int(store[slot].app)
        return app >= 0 && apps[app].isGated
    }

    /// The circuit that waits for its answer: one of its own app's.
    private func circuit(probedBy slot: NotificationSlot, in store: borrowing NotificationStore) -> CircuitIndex? {
        let id = store.id(of: slot)
        let app = Int(store[slot].app)
        let credential = apps[app].credential
        if credentials[credential].circuit.probe == id { return .credential(credential) }
        if apps[app].host.trial == id { return .connection(app: app) }
        guard apps[app].openTopics > 0 else { return nil }
        return topics.firstIndex { $0.app == app && $0.circuit.probe == id }.map { .topic($0) }
    }

    /// The probe was answered: its circuit closes, or waits longer.
    ///
    /// - Returns: a probe that is one no more.
    mutating func settleProbe(
        _ slot: NotificationSlot, fault: ReasonCode?, in store: borrowing NotificationStore, ofMany: Bool, nowNs: Int64,
        journal: inout Journal
    ) -> NotificationID? {
        switch circuit(probedBy: slot, in: store) {
        case .credential(let credential):
            guard let fault, fault.subject != .topic else {
                return closeCircuit(at: credential, nowNs: nowNs, journal: &journal)
            }
            credentials[credential].circuit.probeFailed(nowNs: nowNs)
        case .topic(let topic):
            if fault == nil { return closeTopicCircuit(at: topic, journal: &journal) }
            topics[topic].circuit.probeFailed(nowNs: nowNs)
        case .connection(let app):
            // Whatever it was: the transport says so as well.
            return setReachable(app, true, ofMany: ofMany, nowNs: nowNs, journal: &journal)
        case nil: break
        }
        return nil
    }

    /// Whether it is what tries the host of its app, which was cut off.
    func isTrial(_ slot: NotificationSlot, in store: borrowing NotificationStore) -> Bool {
        apps[Int(store[slot].app)].host.trial == store.id(of: slot)
    }

    /// The answer to a probe of a credential or topic says nothing of it: another one tries, later.
    mutating func postponeProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64) {
        switch circuit(probedBy: slot, in: store) {
        case .credential(let credential): credentials[credential].circuit.probePostponed(nowNs: nowNs)
        case .topic(let topic): topics[topic].circuit.probePostponed(nowNs: nowNs)
        case .connection, nil: break
        }
    }

    /// A try came back without an answer: where that is what it was to bring, its app stays cut off.
    mutating func failTrial(_ slot: NotificationSlot, in store: borrowing NotificationStore, nowNs: Int64) {
        if isTrial(slot, in: store) { apps[Int(store[slot].app)].host.trialFailed(nowNs: nowNs) }
    }

    /// It is decided, goes another way, or is gone: where a circuit waits for its answer, another one may try.
    @inline(__always)
    mutating func endProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        if mayBeProbe(slot, in: store) { endGatedProbe(slot, in: store) }
    }

    private mutating func endGatedProbe(_ slot: NotificationSlot, in store: borrowing NotificationStore) {
        switch circuit(probedBy: slot, in: store) {
        case .credential(let credential): credentials[credential].circuit.probeEnded()
        case .topic(let topic): topics[topic].circuit.probeEnded()
        case .connection(let app): apps[app].host.trialEnded()
        case nil: break
        }
    }

    /// An answer to a try that is no probe, and not the fault: it may say enough about the credential.
    ///
    /// - Returns: a probe that is one no more.
    mutating func noteGoodAnswer(
        _ app: Int, handedNs: Int64, nowNs: Int64, journal: inout Journal
    ) -> NotificationID? {
        let credential = apps[app].credential
        guard credentials[credential].circuit.isDisproved(byTryHandedNs: handedNs) else { return nil }
        return closeCircuit(at: credential, nowNs: nowNs, journal: &journal)
    }

    /// APNs took one, which is a probe no more if it was one: it may say enough about its topic.
    ///
    /// - Returns: a probe that is one no more.
    mutating func noteAccepted(
        _ slot: NotificationSlot, handedNs: Int64, in store: borrowing NotificationStore, journal: inout Journal
    ) -> NotificationID? {
        guard let topic = topicCircuit(of: slot, in: store),
            topics[topic].circuit.isDisproved(byTryHandedNs: handedNs)
        else { return nil }
        return closeTopicCircuit(at: topic, journal: &journal)
    }

    // MARK: Hosts

    /// What the transport knows of the app's host.
    ///
    /// - Parameter ofMany: there are other apps to protect.
    /// - Returns: a probe that is one no more.
    mutating func setReachable(
        _ app: Int, _ isReachable: Bool, ofMany: Bool, nowNs: Int64, journal: inout Journal
    ) -> NotificationID? {
        if !apps[app].isRemoved { apps[app].host.setReachable(isReachable) }
        return refreshHost(of: app, ofMany: ofMany, nowNs: nowNs, journal: &journal)
    }

    /// Its transport takes something now, or nothing any more.
    ///
    /// - Returns: a probe that is one no more.
    mutating func setConnected(
        _ app: Int, _ isConnected: Bool, ofMany: Bool, nowNs: Int64, journal: inout Journal
    ) -> NotificationID? {
        apps[app].host.setConnected(isConnected, nowNs: nowNs)
        return refreshHost(of: app, ofMany: ofMany, nowNs: nowNs, journal: &journal)
    }

    /// To be called when something changed that says whether the app can send.
    private mutating func refreshHost(
        of app: Int, ofMany: Bool, nowNs: Int64, journal: inout Journal
    ) -> NotificationID? {
        var trial = apps[app].host.trial
        if apps[app].host.refresh(ofMany: ofMany, nowNs: nowNs) {
            journal.events.append(.circuitClosed(.connection(of: AppIndex(app))))
            endHolding(.unreachable, of: app)
            refreshGate(of: app)
        } else {
            trial = nil
        }
        refreshNextCutOff(ofMany: ofMany)
        return trial
    }

    private mutating func refreshNextCutOff(ofMany: Bool) {
        nextCutOffNs = .max
        guard ofMany else { return }
        for app in apps.indices {
            if let dueNs = apps[app].host.cutOffDueNs { nextCutOffNs = min(nextCutOffNs, dueNs) }
        }
    }

    /// `nextCutOffNs` has come.
    ///
    /// - Parameter isBusy: of each app, whether something is at its transport.
    /// - Returns: of each app, whether it is cut off from now on: what waits of it is to be held.
    mutating func cutOff(isBusy: [Bool], nowNs: Int64, journal: inout Journal) -> [Bool] {
        var isChosen = [Bool](repeating: false, count: apps.count)
        for app in apps.indices where apps[app].host.cutOff(isBusy: isBusy[app], nowNs: nowNs) {
            isChosen[app] = true
            journal.counters.circuitsOpened &+= 1
            journal.events.append(.circuitOpened(.connection(of: AppIndex(app)), reason: .none))
            refreshGate(of: app)
        }
        refreshNextCutOff(ofMany: true)
        return isChosen
    }

    // MARK: How long

    /// One of an app is held now.
    ///
    /// - Parameter roundNs: what is held comes back after so long.
    /// - Returns: how long that has been so, and how many were held before in this round.
    mutating func note(
        _ cause: HeldCause, of app: Int, pauseNs: Int64, roundNs: Int64, nowNs: Int64, journal: inout Journal
    ) -> (forNs: Int64, before: Int) {
        let holding = apps[app].holdings.note(
            cause, nowNs, pauseNs: pauseNs, eventPauseNs: Self.eventPauseNs, roundNs: roundNs)
        if holding.isNews { journal.events.append(.held(app: AppIndex(app), cause)) }
        return (holding.forNs, holding.before)
    }

    /// A cause that began and ended.
    mutating func endHolding(_ cause: HeldCause, of app: Int) { apps[app].holdings.end(cause) }

    /// As `endHolding`, of every app.
    mutating func endHolding(_ cause: HeldCause) {
        for app in apps.indices { endHolding(cause, of: app) }
    }

    /// Since when notifications of an app are held, for whatever cause; `nil`: none are.
    func heldSinceNs(_ app: Int, pauseNs: Int64, nowNs: Int64) -> Int64? {
        apps[app].holdings.sinceNs(pauseNs: pauseNs, nowNs: nowNs)
    }

    // MARK: How it stands

    func isCutOff(_ app: Int) -> Bool { apps[app].host.isCutOff }
    func openTopics(_ app: Int) -> Int { apps[app].openTopics }

    /// The circuit of an app's credential, where that is open and matters.
    func openCircuit(_ app: Int) -> Circuit? {
        let circuit = credentials[apps[app].credential].circuit
        return circuit.isOpen && !apps[app].isRemoved ? circuit : nil
    }
}
