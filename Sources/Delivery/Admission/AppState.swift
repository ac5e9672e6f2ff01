import PushRecords

/// What every notification of an app asks of it.
struct AppState {
    /// How many requests may be unanswered at once: the least of what its transport, throttle and guard allow.
    var concurrency = 0
    var outstanding = 0
    /// Suspects at its transport, beside those.
    var quarantined = 0
    /// Notifications of it that are open, and the bytes they hold.
    var open = 0
    var openBytes = 0
    /// Since when records wait for its share and none is admitted; `nil`: none wait.
    var fullSinceNs: Int64?
    /// Some of what is to be sent may have to be held: `causeToHold` says which.
    var isGated = false
    var isRateLimited = false
    /// Whose lanes its devices have: the first app with its name and environment, so that one that was taken out of the
    /// configuration and came back waits for what is in flight since before.
    var laneApp: Int32 = 0

    /// Requests at its transport.
    var handed: Int { outstanding + quarantined }
}

/// What is known of an app beside that.
struct AppControl {
    var route: AppRoute
    /// A reload took it out of the configuration.
    var isRemoved = false
    /// As the transport told last.
    var capacity = 0
    /// The last one that was not 0.
    var lastCapacity = 1
    /// Place in the machine's `circuits`.
    var circuit = 0
    /// Open circuits of its topics.
    var openTopics = 0
    /// As the transport told last; true until it did.
    var isReachable = true
    /// Since when it has no room while no connection can be made, or none of use; `nil`: it has some, or may.
    var unreachableNs: Int64?
    /// It has been so for too long: what is to be sent is held.
    var isCutOff = false
    /// Since when there is a connection, or was last.
    var connectedNs: Int64 = 0
    /// While it is cut off: who may try a connection that there is.
    var trial = Circuit()
    var holdings = [Holding](repeating: Holding(), count: HeldCause.allCases.count)
    var nextFaultEventNs: Int64 = 0
    var environmentGuard: EnvironmentGuard
    var throttle = Throttle()
    var rateLimit: RateLimit

    init(_ route: AppRoute) {
        self.route = route
        environmentGuard = EnvironmentGuard(isOff: route.guardIsOff)
        rateLimit = RateLimit(perSecond: route.rateLimit)
    }

    /// What a reload changes.
    mutating func take(_ route: AppRoute) {
        self.route = route
        if environmentGuard.isOff != route.guardIsOff { environmentGuard.isOff = route.guardIsOff }
        if rateLimit.perSecond != route.rateLimit { rateLimit = RateLimit(perSecond: route.rateLimit) }
    }
}

extension AppRoute {
    fileprivate var guardIsOff: Bool {
        switch guardPolicy {
        case .off: true
        case .warn, .hold: false
        }
    }

    var guardHolds: Bool {
        switch guardPolicy {
        case .hold: true
        case .warn, .off: false
        }
    }
}
