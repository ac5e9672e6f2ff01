internal import Configuration
internal import Delivery
internal import PushRecords
internal import TLS

/// The apps of the configuration by `AppIndex`, each as it was loaded and as the pages show it. An app that is taken
/// out of the configuration keeps its place.
struct ConfiguredApps {
    private var loaded: [LoadedApp]
    private(set) var rows: [WorkerSnapshot.App]

    init(_ loaded: [LoadedApp]) {
        self.loaded = loaded
        rows = loaded.map { WorkerSnapshot.App($0) }
    }

    subscript(_ index: Int) -> LoadedApp { loaded[index] }

    var count: Int { loaded.count }

    /// By `AppIndex`, those that are gone too.
    var all: [LoadedApp] { loaded }

    /// By `AppIndex`.
    var settings: [AppSettings] { loaded.map(\.settings) }

    /// The indexes of those that are in the configuration.
    var living: [Int] { rows.indices.filter { !rows[$0].isRemoved } }

    func isRemoved(_ index: Int) -> Bool { rows[index].isRemoved }

    /// By `AppIndex`, those that are gone too.
    var recordApps: [RecordApp] { rows.map { RecordApp(name: $0.name, environment: $0.environment) } }

    // MARK: The machine's view

    func route(_ app: AppSettings) -> AppRoute {
        AppRoute(
            name: app.name, environment: app.environment, bundleIDs: app.bundleIDs,
            isPaused: app.isPaused, rateLimit: app.rateLimit, guardPolicy: app.guardPolicy,
            otherEnvironment: app.otherEnvironment)
    }

    // MARK: Changes of the configuration

    mutating func add(_ app: LoadedApp) {
        loaded.append(app)
        rows.append(WorkerSnapshot.App(app))
    }

    /// Takes over a credential that was loaded again.
    mutating func replace(_ index: AppIndex, with app: LoadedApp) {
        loaded[index.value] = app
        rows[index.value].certificateEndsMs = app.certificate?.notAfterMs
    }

    /// Takes over settings with which its connections can go on.
    mutating func set(_ settings: AppSettings, of index: AppIndex) { loaded[index.value].settings = settings }

    mutating func remove(_ index: AppIndex) { rows[index.value].isRemoved = true }

    /// By path, what the apps read from each file: `nil` where they read different things, or none of them reads it.
    func hashes(of paths: [String]) -> [(path: String, hash: UInt64?)] {
        paths.map { path in
            let hashes = Set(living.compactMap { loaded[$0].fileHashes[path] })
            return (path, hashes.count == 1 ? hashes.first : nil)
        }
    }

    // MARK: What the pages show

    mutating func show(_ statuses: [AppStatus], _ transports: AppTransports?) {
        for (index, status) in statuses.enumerated() {
            rows[index].status = status
            if let transports { rows[index].standing = transports[index] }
        }
    }

    mutating func show(_ told: FeedbackThread.Told) {
        rows[told.app].feedback = told.standing
        // A read may have been under way when the app was removed.
        if rows[told.app].isRemoved || loaded[told.app].settings.binary?.feedback == nil { endFeedback(of: told.app) }
    }

    /// The apps whose feedback is to be read. Those of which it no longer is have no faults of it any more.
    mutating func beginFeedback() -> [FeedbackApp] {
        let wanted = living.compactMap { FeedbackApp(loaded[$0], index: $0) }
        for index in rows.indices where !wanted.contains(where: { $0.index == index }) { endFeedback(of: index) }
        return wanted
    }

    private mutating func endFeedback(of index: Int) {
        rows[index].feedback?.failure = nil
        rows[index].feedback?.waiting = 0
    }
}

extension AppSettings {
    fileprivate var guardPolicy: AppRoute.GuardPolicy {
        switch environmentGuard {
        case .warn: .warn
        case .hold: .hold
        case .off: .off
        }
    }
}

extension WorkerSnapshot.App {
    init(_ app: LoadedApp) {
        name = app.settings.name
        environment = app.settings.environment
        certificateEndsMs = app.certificate?.notAfterMs
    }
}
