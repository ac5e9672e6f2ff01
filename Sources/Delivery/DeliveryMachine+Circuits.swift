package import PushRecords

extension DeliveryMachine {
    // MARK: Credentials

    /// The key or certificate with this number was replaced (`AppRoute.credential`): its circuits close at once.
    package mutating func credentialReplaced(_ credential: Int, now: DeliveryTime) {
        self.now = now
        guard credential != AppRoute.ownCredential else { return }
        for place in circuits.indices where circuits[place].credential == credential { replaceCredential(at: place) }
    }

    private mutating func replaceCredential(at place: Int) {
        if circuits[place].circuit.isOpen { closeCircuit(at: place) }
        circuits[place].circuit.replaced(now: now.ns)
        for index in topicCircuits.indices.reversed() where controls[topicCircuits[index].app].circuit == place {
            closeTopicCircuit(at: index)
        }
    }

    /// The place of the circuit of an app's credential, made where it is new.
    mutating func circuitPlace(of route: AppRoute, app: Int) -> Int {
        let owner = route.credential == AppRoute.ownCredential ? app : -1
        let known = circuits.firstIndex {
            $0.credential == route.credential && $0.environment == route.environment && $0.owner == owner
        }
        if let known { return known }
        circuits.append(
            CredentialCircuit(credential: route.credential, environment: route.environment, owner: owner))
        return circuits.count - 1
    }

    /// The transport was told so by a GOAWAY (`TransportEvent.credentialRefused`): nothing more of this credential is
    /// sent before a probe went well, with one app as with many. To be said before the fates of the same turn.
    package mutating func credentialRefused(_ app: AppIndex, _ reason: ReasonCode, now: DeliveryTime) {
        self.now = now
        let app = app.value
        tellFault(app, reason)
        let place = controls[app].circuit
        switch credentialFault(app, reason, handedNs: now.ns) {
        case .opened:
            holdWaiting(of: controls.map { $0.circuit == place })
        case .none:
            // The probe's connection ended so: no other answer to it will come.
            guard let probe = circuits[place].circuit.probe, notifications[probe.slot].state == .handed else { return }
            notifications[probe.slot].isProbe = false
            circuits[place].circuit.probeFailed(now: now.ns)
        case .outdated:
            break
        }
    }

    private mutating func tellFault(_ app: Int, _ reason: ReasonCode) {
        guard now.ns >= controls[app].nextFaultEventNs else { return }
        controls[app].nextFaultEventNs = now.ns + Self.eventPauseNs
        events.append(.credentialFault(app: AppIndex(app), reason: reason))
    }

    /// An answer that lays the blame on our credential: nothing more of it is resent before a probe went well.
    mutating func handleCredentialFault(_ slot: UInt32, _ reason: ReasonCode) {
        let app = Int(notifications[slot].app)
        tellFault(app, reason)
        let effect =
            reason.isOfTopic
            ? topicFault(slot, app, reason) : credentialFault(app, reason, handedNs: handedNs(slot))
        switch effect {
        case .outdated:
            resend(slot)
        case .none:
            retry(slot, delayMs: VerdictTable.shortDelayMs)
        case .opened:
            retry(slot, delayMs: VerdictTable.shortDelayMs)
            let place = controls[app].circuit
            holdWaiting(of: controls.map { $0.circuit == place })
        }
    }

    private mutating func credentialFault(_ app: Int, _ reason: ReasonCode, handedNs: Int64) -> Circuit.Effect {
        let place = controls[app].circuit
        let effect = circuits[place].circuit.fault(reason, handedNs: handedNs, now: now.ns)
        if case .opened = effect {
            counters.circuitsOpened &+= 1
            events.append(.circuitOpened(.credential(of: AppIndex(app)), reason: reason))
            for app in controls.indices where controls[app].circuit == place { refreshGate(of: app) }
        }
        return effect
    }

    private mutating func closeCircuit(at place: Int) {
        let probe = circuits[place].circuit.probe
        circuits[place].circuit.close(now: now.ns)
        guard let first = controls.indices.first(where: { controls[$0].circuit == place }) else { return }
        events.append(.circuitClosed(.credential(of: AppIndex(first))))
        for app in controls.indices where controls[app].circuit == place {
            endHolding(.credential, of: app)
            refreshGate(of: app)
        }
        forgetProbe(probe)
    }

    // MARK: Topics

    private mutating func topicFault(_ slot: UInt32, _ app: Int, _ reason: ReasonCode) -> Circuit.Effect {
        let handedNs = handedNs(slot)
        if handedNs < circuits[controls[app].circuit].circuit.replacedNs { return .outdated }
        guard topicCircuit(of: slot, app: app) == nil, topicCircuits.count < TopicCircuit.limit,
            let topic = records[notifications[slot].record].body?.pointee.topic
        else { return .none }
        var opened = TopicCircuit(app: app, topic: Array(topic))
        _ = opened.circuit.fault(reason, handedNs: handedNs, now: now.ns)
        topicCircuits.append(opened)
        controls[app].openTopics += 1
        refreshGate(of: app)
        counters.circuitsOpened &+= 1
        events.append(.circuitOpened(name(of: opened), reason: reason))
        return .opened
    }

    private mutating func closeTopicCircuit(at place: Int) {
        let closed = topicCircuits.remove(at: place)
        controls[closed.app].openTopics -= 1
        events.append(.circuitClosed(name(of: closed)))
        if controls[closed.app].openTopics == 0 { endHolding(.topic, of: closed.app) }
        refreshGate(of: closed.app)
        forgetProbe(closed.circuit.probe)
    }

    /// The open circuit of a notification's topic.
    func topicCircuit(of slot: UInt32, app: Int) -> Int? {
        guard controls[app].openTopics > 0, let body = records[notifications[slot].record].body else { return nil }
        return topicCircuits.firstIndex { circuit in
            circuit.app == app && circuit.topic.withUnsafeBytes { BytesHash.isEqual($0, body.pointee.topic) }
        }
    }

    private func name(of circuit: TopicCircuit) -> CircuitName {
        .topic(String(decoding: circuit.topic, as: UTF8.self), of: AppIndex(circuit.app))
    }

    // MARK: Probes

    /// The probe was answered: its circuit closes, or waits longer.
    mutating func settleProbe(_ slot: UInt32, fault: ReasonCode?) {
        guard let found = takeProbe(slot) else { return }
        switch found {
        case .credential(let place):
            if let fault, !fault.isOfTopic {
                circuits[place].circuit.probeFailed(now: now.ns)
            } else {
                closeCircuit(at: place)
            }
        case .topic(let place):
            if fault != nil {
                topicCircuits[place].circuit.probeFailed(now: now.ns)
            } else {
                closeTopicCircuit(at: place)
            }
        case .connection(let app):
            // Whatever it was: the transport says so as well.
            controls[app].isReachable = true
            watchConnection(of: app)
        }
    }

    /// A try came back without an answer: where that is what it was to bring, its app stays cut off.
    mutating func failTrial(_ slot: UInt32) {
        let app = Int(notifications[slot].app)
        guard
            controls[app].trial.probe
                == NotificationID(slot: slot, generation: notifications[slot].generation)
        else { return }
        notifications[slot].isProbe = false
        controls[app].trial.probeFailed(now: now.ns)
    }

    /// The probe ends without an answer: another one may try.
    mutating func endProbe(_ slot: UInt32) {
        switch takeProbe(slot) {
        case .credential(let place): circuits[place].circuit.probeEnded()
        case .topic(let place): topicCircuits[place].circuit.probeEnded()
        case .connection(let app): controls[app].trial.probeEnded()
        case nil: break
        }
    }

    /// An answer to a try that is no probe, and not the fault: it may say enough about the credential.
    mutating func noteGoodAnswer(_ slot: UInt32) {
        let place = controls[Int(notifications[slot].app)].circuit
        if circuits[place].circuit.isDisproved(byTryHandedNs: handedNs(slot)) { closeCircuit(at: place) }
    }

    /// Its circuit, closed by now, needs it no more: it is like any other again, and may be behind another circuit.
    private mutating func forgetProbe(_ probe: NotificationID?) {
        guard let probe, notifications[probe.slot].generation == probe.generation else { return }
        notifications[probe.slot].isProbe = false
        switch notifications[probe.slot].state {
        case .inLane, .ready, .backingOff, .behindReach:
            if let cause = causeToHold(probe.slot) { hold(probe.slot, cause) }
        case .free, .handed, .orphaned, .concluded:
            break
        }
    }

    /// After a reload: the probe of an app that has another credential by now says nothing about the old one.
    mutating func endStrayProbes() {
        for place in circuits.indices {
            guard let probe = circuits[place].circuit.probe,
                controls[Int(notifications[probe.slot].app)].circuit != place
            else { continue }
            endProbe(probe.slot)
        }
    }

    private enum ProbePlace { case credential(Int), topic(Int), connection(Int) }

    private mutating func takeProbe(_ slot: UInt32) -> ProbePlace? {
        notifications[slot].isProbe = false
        let id = NotificationID(slot: slot, generation: notifications[slot].generation)
        if let place = circuits.firstIndex(where: { $0.circuit.probe == id }) { return .credential(place) }
        if let place = topicCircuits.firstIndex(where: { $0.circuit.probe == id }) { return .topic(place) }
        let app = Int(notifications[slot].app)
        if controls[app].trial.probe == id { return .connection(app) }
        return nil
    }

    /// When it was handed out last, to the millisecond.
    private func handedNs(_ slot: UInt32) -> Int64 { now.ns - handedForMs(slot) * 1_000_000 }

    // MARK: Hosts

    /// What the transport knows of the app's host: false when connecting to it failed, its connections end without an
    /// answer, or all of them allow no stream; true when one is connected that allows some, or, after ends without an
    /// answer, when one answered.
    ///
    /// With several apps, one that has had no room for `cutOffNs` while no connection can be made, or none of use, is
    /// held, so that it takes no room from the others. A connection that comes meanwhile ends that only by an answer (or
    /// when it stays and nothing waits for one): one notification at a time may try it. With one app there is nobody to
    /// protect: it waits.
    package mutating func setReachable(_ app: AppIndex, _ isReachable: Bool, now: DeliveryTime) {
        self.now = now
        controls[app.value].isReachable = isReachable
        watchConnection(of: app.value)
    }

    /// To be called when something changed that says whether the app can send.
    mutating func watchConnection(of app: Int) {
        let isReachable = controls[app].isReachable || controls[app].isRemoved
        if isReachable {
            controls[app].unreachableNs = nil
        } else if controls[app].unreachableNs == nil, controls[app].capacity == 0 {
            controls[app].unreachableNs = now.ns
        }
        if controls[app].isCutOff, isReachable || liveApps == 1 {
            let probe = controls[app].trial.probe
            controls[app].isCutOff = false
            controls[app].trial.close(now: now.ns)
            events.append(.circuitClosed(.connection(of: AppIndex(app))))
            endHolding(.unreachable, of: app)
            refreshGate(of: app)
            forgetProbe(probe)
        }
        nextCutOffNs = .max
        guard liveApps > 1 else { return }
        for control in controls where !control.isCutOff {
            if let sinceNs = control.unreachableNs { nextCutOffNs = min(nextCutOffNs, sinceNs + Self.cutOffNs) }
        }
    }

    /// `nextCutOffNs` has come.
    mutating func cutOff() {
        nextCutOffNs = .max
        var isChosen = [Bool](repeating: false, count: controls.count)
        for app in controls.indices where !controls[app].isCutOff {
            guard let sinceNs = controls[app].unreachableNs else { continue }
            guard now.ns - sinceNs >= Self.cutOffNs else {
                nextCutOffNs = min(nextCutOffNs, sinceNs + Self.cutOffNs)
                continue
            }
            if controls[app].capacity > 0 {
                // What becomes of this connection says more than what became of those before.
                guard now.ns - controls[app].connectedNs >= Self.cutOffNs else {
                    nextCutOffNs = min(nextCutOffNs, controls[app].connectedNs + Self.cutOffNs)
                    continue
                }
                guard apps[app].handed > 0 else {
                    controls[app].unreachableNs = nil
                    continue
                }
            }
            controls[app].isCutOff = true
            _ = controls[app].trial.fault(.none, handedNs: now.ns, now: now.ns)
            isChosen[app] = true
            counters.circuitsOpened &+= 1
            events.append(.circuitOpened(.connection(of: AppIndex(app)), reason: .none))
            refreshGate(of: app)
        }
        holdWaiting(of: isChosen)
    }
}

extension ReasonCode {
    /// The key is for other topics; it may well be accepted for those.
    fileprivate var isOfTopic: Bool {
        switch self {
        case .topicMismatch: true
        default: false
        }
    }
}
