import PushRecords

extension DeliveryMachine {
    /// A reload of the configuration: these are all apps from now on.
    ///
    /// An app with the name and the environment of one that is there keeps its `AppIndex` and everything that is open
    /// for it; whatever else of its route differs holds from now on. One that is not named any more is gone: what is
    /// not at its transport is held, what is there ends as it does, and new records do not find it. The transport of a
    /// removed app may be told to close at once. When the retry records of a removed app come back, they are `invalid`
    /// unless it is there again.
    package mutating func replaceApps(_ routes: [AppRoute], now: DeliveryTime) -> AppMapping {
        self.now = now
        var mapping = AppMapping(indexes: [], added: [], removed: [])
        var isKept = [Bool](repeating: false, count: controls.count)
        for route in routes {
            let known = isKept.indices.first { app in
                !isKept[app] && !controls[app].isRemoved && controls[app].route.name == route.name
                    && controls[app].route.environment == route.environment
            }
            if let known {
                isKept[known] = true
                if controls[known].route.isPaused, !route.isPaused { endHolding(.paused, of: known) }
                controls[known].take(route)
                mapping.indexes.append(AppIndex(known))
            } else {
                addApp(route)
                mapping.indexes.append(AppIndex(controls.count - 1))
                mapping.added.append(AppIndex(controls.count - 1))
            }
        }
        for app in isKept.indices where !isKept[app] && !controls[app].isRemoved {
            controls[app].isRemoved = true
            controls[app].capacity = 0
            mapping.removed.append(AppIndex(app))
        }
        liveApps = routes.count
        directory.replace(routes, indexes: mapping.indexes)
        for app in controls.indices {
            if !controls[app].isRemoved { controls[app].circuit = circuitPlace(of: controls[app].route, app: app) }
            watchConnection(of: app)
            refreshConcurrency(of: app)
            refreshGate(of: app)
        }
        refreshOpenLimit()
        endStrayProbes()
        refreshRateLimits()
        holdWaiting(of: apps.map(\.isGated))
        return mapping
    }

    mutating func addApp(_ route: AppRoute) {
        var queue = ReadyQueues()
        for group in shares.groups { queue.addGroup(weight: group.weight) }
        queues.append(queue)
        recallLists.append([])
        counters.apps.insert(DeliveryCounters.App(tiers: settings.tiers.count), at: apps.count)
        apps.append(AppState())
        controls.append(AppControl(route))
        let app = controls.count - 1
        let first = controls.firstIndex { $0.route.name == route.name && $0.route.environment == route.environment }
        apps[app].laneApp = Int32(first ?? app)
        controls[app].circuit = circuitPlace(of: route, app: app)
        refreshGate(of: app)
        refreshRateLimits()
    }

    private mutating func refreshRateLimits() {
        rateLimitedApps = 0
        for app in apps.indices {
            apps[app].isRateLimited = controls[app].rateLimit.isLimiting && !controls[app].isRemoved
            if apps[app].isRateLimited { rateLimitedApps += 1 }
        }
    }

    /// How many requests of this app may be unanswered at once (`TransportEvent.capacity`).
    package mutating func setCapacity(_ app: AppIndex, requests: Int) {
        guard !controls[app.value].isRemoved else { return }
        let hadNone = controls[app.value].capacity == 0
        controls[app.value].capacity = max(0, requests)
        if requests > 0 { controls[app.value].lastCapacity = requests }
        if hadNone != (requests <= 0) {
            if hadNone { controls[app.value].connectedNs = now.ns }
            watchConnection(of: app.value)
        }
        refreshConcurrency(of: app.value)
        refreshOpenLimit()
    }

    /// No more is held open than keeps the connections busy: what cannot be sent soon waits in Kafka, where it costs
    /// nothing, rather than in memory and in the caches.
    private mutating func refreshOpenLimit() {
        let streams = controls.reduce(0) { $0 + $1.capacity }
        shares.setTotal(min(settings.maxOpen, Self.openAtLeast + Self.openPerStream * streams))
    }

    mutating func refreshConcurrency(of app: Int) {
        let capacity = controls[app].capacity
        apps[app].concurrency = min(
            capacity, controls[app].throttle.limit, controls[app].environmentGuard.limit(of: capacity))
    }

    // MARK: How it goes

    /// An answer of APNs, for those who look at all of them.
    @inline(__always)
    mutating func watchAnswer(_ app: Int, status: UInt16, reason: ReasonCode) {
        let change = controls[app].environmentGuard.answered(
            isBad: reason.isBadToken, isProof: status == 200 || status == 410)
        switch change {
        case .none: break
        case .proven, .tripped, .released: tellGuard(change, of: app)
        }
        watchTry(app, isFailure: status >= 500)
    }

    /// The end of a try: answered, or lost with its connection.
    @inline(__always)
    mutating func watchTry(_ app: Int, isFailure: Bool) {
        let isChanged = controls[app].throttle.answered(
            isFailure: isFailure, outstanding: apps[app].outstanding + 1, capacity: controls[app].lastCapacity)
        if isChanged { refreshConcurrency(of: app) }
    }

    private mutating func tellGuard(_ change: EnvironmentGuard.Change, of app: Int) {
        refreshConcurrency(of: app)
        switch change {
        case .tripped:
            counters.guardsTripped &+= 1
            events.append(.guardTripped(AppIndex(app), held: controls[app].route.guardHolds))
        case .released:
            events.append(.guardReleased(AppIndex(app)))
        case .none, .proven:
            break
        }
    }
}

extension ReasonCode {
    /// What Apple says of a token of the other environment, or of another app.
    var isBadToken: Bool {
        switch self {
        case .badDeviceToken, .deviceTokenNotForTopic: true
        default: false
        }
    }
}
