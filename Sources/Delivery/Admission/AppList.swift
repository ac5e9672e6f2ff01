import PushRecords

/// The apps that there are, and were: each keeps its `AppIndex` for as long as the machine lives.
struct AppList {
    private struct App {
        var route: AppRoute
        /// A reload took it out of the configuration.
        var isRemoved = false
        /// `AppRoute.otherEnvironment`, where it is there.
        var other: Int?
    }

    private var apps: [App] = []
    /// Apps that were not taken out of the configuration.
    private(set) var liveCount = 0

    var indices: Range<Int> { apps.indices }
    var count: Int { apps.count }
    /// Whether one has others beside it, which it must not hold up.
    var areMany: Bool { liveCount > 1 }

    /// By `AppIndex`, of one that was removed, too.
    func route(_ app: Int) -> AppRoute { apps[app].route }
    func isRemoved(_ app: Int) -> Bool { apps[app].isRemoved }

    /// The app to which what this one calls a bad token is sent once; `nil`: to none.
    func other(_ app: Int) -> Int? { apps[app].other }

    /// The first app, removed or not, with the name and environment of this one.
    func namesake(of route: AppRoute) -> Int? {
        apps.firstIndex { $0.route.name == route.name && $0.route.environment == route.environment }
    }

    /// These are all apps from now on. Those with the name and the environment of one that is there are that one; new
    /// ones come behind all others.
    mutating func replace(by routes: [AppRoute]) -> AppMapping {
        var mapping = AppMapping(indexes: [], added: [], removed: [])
        var isKept = [Bool](repeating: false, count: apps.count)
        for route in routes {
            let known = isKept.indices.first { app in
                !isKept[app] && !apps[app].isRemoved && apps[app].route.name == route.name
                    && apps[app].route.environment == route.environment
            }
            if let known {
                isKept[known] = true
                apps[known].route = route
                mapping.indexes.append(AppIndex(known))
            } else {
                apps.append(App(route: route))
                mapping.indexes.append(AppIndex(apps.count - 1))
                mapping.added.append(AppIndex(apps.count - 1))
            }
        }
        for app in isKept.indices where !isKept[app] && !apps[app].isRemoved {
            apps[app].isRemoved = true
            mapping.removed.append(AppIndex(app))
        }
        liveCount = routes.count
        for app in apps.indices {
            // Of a removed one, too: what is at its transport may still be called bad.
            apps[app].other = apps[app].route.otherEnvironment.flatMap { live(named: $0) }
        }
        return mapping
    }

    private func live(named name: String) -> Int? { apps.firstIndex { $0.route.name == name && !$0.isRemoved } }
}
