package import PushRecords

extension DeliveryMachine {
    // MARK: The configuration

    /// A reload of the configuration: these are all apps from now on.
    ///
    /// An app with the name and the environment of one that is there keeps its `AppIndex` and everything that is open
    /// for it; whatever else of its route differs holds from now on. One that is not named any more is gone: what is
    /// not at its transport is held, what is there ends as it does, and new records do not find it. The transport of a
    /// removed app may be told to close at once. When the retry records of a removed app come back, they are `invalid`
    /// unless it is there again.
    package mutating func replaceApps(_ routes: [AppRoute], now: DeliveryTime) -> AppMapping {
        self.now = now
        let mapping = enter(routes)
        for app in apps.indices {
            let probe = breakers.refresh(
                app, apps.route(app), ofMany: apps.areMany, nowNs: now.ns, journal: &journal)
            reconsider(probe)
        }
        room.setTotal(settings.mostOpen(streams: dispatch.capacity))
        breakers.endStrayProbes(in: store)
        for probe in breakers.closeLeft(nowNs: now.ns, journal: &journal) { reconsider(probe) }
        holdWaiting(of: breakers.gated)
        return mapping
    }

    /// Tells everybody of the apps that there are from now on.
    mutating func enter(_ routes: [AppRoute]) -> AppMapping {
        let known = apps.count
        let mapping = apps.replace(by: routes)
        for (route, index) in zip(routes, mapping.indexes) {
            if index.value < known {
                breakers.replace(index.value, by: route)
                dispatch.replace(index.value, by: route)
            } else {
                devices.addApp(sharing: apps.namesake(of: route))
                room.addApp()
                dispatch.addApp(route, weights: room.weights)
                breakers.addApp(route)
                let counters = DeliveryCounters.App(tiers: settings.tiers.count)
                journal.counters.apps.insert(counters, at: index.value)
            }
        }
        for app in mapping.removed {
            breakers.remove(app.value)
            dispatch.remove(app.value)
        }
        directory.replace(routes, indexes: mapping.indexes)
        return mapping
    }

    // MARK: Transports

    /// How many requests of this app may be unanswered at once (`TransportEvent.capacity`).
    package mutating func setCapacity(_ app: AppIndex, requests: Int, now: DeliveryTime) {
        self.now = now
        guard !apps.isRemoved(app.value) else { return }
        let wasConnected = dispatch.capacity(app.value) > 0
        dispatch.setCapacity(app.value, requests)
        if wasConnected != (requests > 0) {
            let probe = breakers.setConnected(
                app.value, requests > 0, ofMany: apps.areMany, nowNs: now.ns, journal: &journal)
            reconsider(probe)
        }
        room.setTotal(settings.mostOpen(streams: dispatch.capacity))
    }

    /// What the transport knows of the app's host: false when connecting to it failed, its connections end without an
    /// answer, or all of them allow no stream; true when one is connected that allows some, or, after ends without an
    /// answer, when one answered.
    ///
    /// With several apps, one that has had no room for `HostCircuit.cutOffNs` while no connection can be made, or
    /// none of use, is held, so that it takes no room from the others. A connection that comes meanwhile ends that only
    /// by an answer (or when it stays and nothing waits for one): one notification at a time may try it. With one app
    /// there is nobody to protect: it waits.
    package mutating func setReachable(_ app: AppIndex, _ isReachable: Bool, now: DeliveryTime) {
        self.now = now
        let probe = breakers.setReachable(
            app.value, isReachable, ofMany: apps.areMany, nowNs: now.ns, journal: &journal)
        reconsider(probe)
    }

    /// Apps that have had no connection for too long are held from now on.
    mutating func cutOff() {
        let isBusy = apps.indices.map { dispatch.handed($0) > 0 }
        holdWaiting(of: breakers.cutOff(isBusy: isBusy, nowNs: now.ns, journal: &journal))
    }

    // MARK: Credentials

    /// The key or certificate with this number was replaced (`AppRoute.credential`): its circuits close at once.
    package mutating func credentialReplaced(_ credential: Int, now: DeliveryTime) {
        self.now = now
        guard credential != AppRoute.ownCredential else { return }
        for index in breakers.circuits(of: credential) {
            reconsider(breakers.closeCredential(at: index, nowNs: now.ns, journal: &journal))
            breakers.replaceCredential(at: index, nowNs: now.ns)
            var probe: NotificationID?
            while breakers.closeTopic(ofCredentialAt: index, probe: &probe, journal: &journal) { reconsider(probe) }
        }
    }

    /// The transport was told so by a GOAWAY (`TransportEvent.credentialRefused`): nothing more of this credential is
    /// sent before a probe went well, with one app as with many. To be said before the completions of the same turn.
    package mutating func credentialRefused(_ app: AppIndex, _ reason: ReasonCode, now: DeliveryTime) {
        self.now = now
        let app = app.value
        breakers.tellFault(app, reason, nowNs: now.ns, journal: &journal)
        switch breakers.credentialFault(app, reason, handedNs: now.ns, nowNs: now.ns, journal: &journal) {
        case .opened: holdWaiting(of: breakers.sharing(app))
        case .none: breakers.probeRefused(app, in: store, nowNs: now.ns)
        case .outdated: break
        }
    }
}
