internal import Configuration
internal import Delivery
internal import PushRecords
internal import TLS

/// The configured apps by `AppIndex`, as they were loaded and as the admin pages show them. An app that is removed from
/// the configuration keeps its index.
struct ConfiguredApps {
    /// The loaded apps by `AppIndex`, including removed ones. `rows` has the same order.
    var all: [LoadedApp]
    var rows: [WorkerSnapshot.App]

    init(_ loaded: [LoadedApp]) {
        all = loaded
        rows = loaded.map { WorkerSnapshot.App($0) }
    }

    subscript(_ index: Int) -> LoadedApp { all[index] }

    var settings: [AppSettings] { all.map(\.settings) }

    var living: [Int] { rows.indices.filter { !rows[$0].isRemoved } }

    /// The names and environments of the apps for output records, by `AppIndex`, including removed apps.
    var recordApps: [RecordApp] { rows.map { RecordApp(name: $0.name, environment: $0.environment) } }

    mutating func add(_ app: LoadedApp) {
        all.append(app)
        rows.append(WorkerSnapshot.App(app))
    }

    mutating func replace(_ index: AppIndex, with app: LoadedApp) {
        all[index.value] = app
        rows[index.value].certificateEndsMs = app.certificate?.notAfterMs
    }

    /// Returns for each path the hash of the contents that the apps read, or `nil` if the apps read different contents
    /// or none.
    func hashes(of paths: [String]) -> [(path: String, hash: UInt64?)] {
        paths.map { path in
            let hashes = Set(living.compactMap { all[$0].fileHashes[path] })
            return (path, hashes.count == 1 ? hashes.first : nil)
        }
    }

    // MARK: Pages

    mutating func show(_ statuses: [AppStatus], _ transports: AppTransports?) {
        for (index, status) in statuses.enumerated() {
            rows[index].status = status
            if let transports { rows[index].standing = transports[index] }
        }
    }

    mutating func show(_ told: FeedbackThread.StandingUpdate) {
        rows[told.app].feedback = told.standing
        // An update may arrive after the removal of its app, if a feedback read was in progress.
        if rows[told.app].isRemoved || all[told.app].settings.binary?.feedback == nil { endFeedback(of: told.app) }
    }

    /// Returns the usable apps that have a feedback service, and clears the feedback problems of all other apps.
    mutating func beginFeedback() -> [FeedbackApp] {
        let wanted = living.compactMap { FeedbackApp(all[$0], index: $0) }
        for index in rows.indices where !wanted.contains(where: { $0.index == index }) { endFeedback(of: index) }
        return wanted
    }

    private mutating func endFeedback(of index: Int) {
        rows[index].feedback?.failure = nil
        rows[index].feedback?.waiting = 0
    }
}

extension AppSettings {
    /// The app's settings that affect the routing, deferral and rate of its notifications.
    var route: AppRoute {
        AppRoute(
            name: name, environment: environment, bundleIDs: bundleIDs, isPaused: isPaused, rateLimit: rateLimit,
            guardPolicy: .init(rawValue: environmentGuard.rawValue) ?? .warn, otherEnvironment: otherEnvironment)
    }
}

extension WorkerSnapshot.App {
    init(_ app: LoadedApp) {
        name = app.settings.name
        environment = app.settings.environment
        certificateEndsMs = app.certificate?.notAfterMs
    }
}
