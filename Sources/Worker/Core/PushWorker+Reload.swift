package import Configuration
internal import Delivery
internal import EventLoop
internal import Observability
internal import PushRecords
internal import TLS

extension PushWorker {
    /// Reads the configuration again, as it was read at the start.
    package typealias Rereading = @Sendable () throws(ConfigurationError) -> LoadedConfiguration

    /// What a thread of its own read, since the core must not wait for a file.
    private enum Reread: Sendable {
        /// A configuration, and by their names the apps of it that connect in another way than those there are.
        case loaded(LoadedConfiguration, [String: LoadedApp])
        case refused([String])
    }

    // MARK: The configuration (SIGHUP)

    func hangUp(_ reread: Rereading?) {
        guard let reread, publisher != nil, stopping == nil else {
            return logger.notice(.worker, "SIGHUP: nothing to reload now")
        }
        reload(reread)
    }

    /// Takes over what may change while the worker runs: apps with their credentials, limits and pauses, and log
    /// levels. All of it or, when anything is wrong, nothing. Waits for no file: it is read by a thread of its own, and
    /// taken over once that is done; what is asked for meanwhile is read from the beginning then.
    func reload(_ reread: @escaping Rereading) {
        let living = apps.indices.filter { !appRows[$0].isRemoved }.map { apps[$0].settings }
        let hasBegun = files.configuration.begin({ Self.read(reread, living) }) { [weak self] found in
            self?.take(found)
        }
        guard !hasBegun else { return }
        guard files.configuration.isBusy else { return refuse(["no thread can be had to read it"]) }
        files.nextReload = reread
    }

    /// The thread's part.
    private static func read(_ reread: Rereading, _ living: [AppSettings]) -> Reread {
        let loaded: LoadedConfiguration
        do throws(ConfigurationError) {
            loaded = try reread()
        } catch {
            return .refused(error.lines)
        }
        var changed: [String: LoadedApp] = [:]
        var lines: [String] = []
        for app in loaded.configuration.apps {
            let isKnown = living.contains {
                $0.name == app.name && $0.environment == app.environment && $0.connects(like: app)
            }
            if isKnown { continue }
            do throws(StartFailure) {
                changed[app.name] = try LoadedApp(app)
            } catch {
                lines += error.lines
            }
        }
        return lines.isEmpty ? .loaded(loaded, changed) : .refused(lines)
    }

    private func take(_ found: Reread) {
        guard stopping == nil else { return }
        if let again = files.nextReload {
            files.nextReload = nil
            return reload(again)
        }
        switch found {
        case .refused(let lines): refuse(lines)
        case .loaded(let loaded, let changed): takeOver(loaded, changed)
        }
    }

    private func takeOver(_ loaded: LoadedConfiguration, _ changed: [String: LoadedApp]) {
        let new = loaded.configuration
        for warning in loaded.warnings {
            logger.warning(.worker, "the configuration is odd", about: warning, ["text": .text(warning)])
        }
        for key in configuration.keysThatNeedRestart(new) {
            logger.warning(.worker, "this change needs a restart", about: key, ["key": "\(key)"])
        }
        if new.log.levels != configuration.log.levels { logger.setLevels(new.log.levels) }
        configuration.log.level = new.log.level
        configuration.log.parts = new.log.parts
        take(new.apps, changed)
        sayPauses(new.apps, before: configuration.apps)
        configuration.apps = new.apps
        DescriptorNeed.raiseLimit(for: configuration, logger)
        files.refusedReload = []
        files.refusedFiles = [:]
        watchFiles()
        // Files that have other contents under the same name.
        files.watch?.look()
        logger.notice(.worker, "configuration reloaded", ["apps": .count(new.apps.count)])
    }

    private func refuse(_ lines: [String]) {
        files.refusedReload = lines
        for line in lines {
            logger.error(
                .worker, "the configuration is refused; the one before stays", about: line, ["text": .text(line)])
        }
    }

    private func take(_ settings: [AppSettings], _ changed: [String: LoadedApp]) {
        let mapping = machine.replaceApps(settings.map(route), now: now)
        for (app, index) in zip(settings, mapping.indexes) {
            if mapping.added.contains(index) {
                guard let loaded = changed[app.name] else { preconditionFailure("a new app was loaded") }
                precondition(transports?.add(loaded) == index, "transports and machine count apps alike")
                apps.append(loaded)
                appRows.append(WorkerSnapshot.App(loaded))
                logger.notice(.worker, "app added", ["app": "\(app.name)"])
            } else if let loaded = changed[app.name] {
                replace(index, with: loaded)
                logger.notice(.worker, "app changed: its connections are made anew", ["app": "\(app.name)"])
            } else {
                apps[index.value].settings = app
            }
        }
        for index in mapping.removed {
            appRows[index.value].isRemoved = true
            observations.forgetCircuits(of: index)
            transports?.remove(index)
            logger.notice(.worker, "app removed; what is left of it is held", ["app": "\(appRows[index.value].name)"])
        }
        eventLog.names = appRows.map(\.name)
        publisher?.setApps(recordApps)
        readFeedback()
    }

    /// Says which apps are paused and were not, and the other way round.
    func sayPauses(_ apps: [AppSettings], before: [AppSettings]) {
        for app in apps {
            let wasPaused = before.first { $0.name == app.name }?.isPaused ?? false
            guard app.isPaused != wasPaused else { continue }
            if app.isPaused {
                logger.notice(.worker, "app is paused: nothing of it is sent", ["app": "\(app.name)"])
            } else {
                logger.notice(.worker, "app is paused no more", ["app": "\(app.name)"])
            }
        }
    }

    /// New connections are made as it says from now on, and what its credential's fault held up goes on.
    private func replace(_ index: AppIndex, with loaded: LoadedApp) {
        apps[index.value] = loaded
        appRows[index.value] = appRows[index.value].reloaded(loaded)
        transports?.replace(index, with: loaded)
        machine.credentialReplaced(credentialNumber(of: loaded.settings), now: now)
    }

    // MARK: Apps, as others know them

    func route(_ app: AppSettings) -> AppRoute {
        AppRoute(
            name: app.name, environment: app.environment, bundleIDs: app.bundleIDs,
            credential: credentialNumber(of: app),
            isPaused: app.isPaused, rateLimit: app.rateLimit, guardPolicy: app.guardPolicy,
            otherEnvironment: app.otherEnvironment)
    }

    /// Each app has a circuit of its own, also where it shares its key: what refuses one app's requests (its host, a
    /// proxy, a topic that the key is not for) need not refuse another's, and a key that is revoked costs each of its
    /// apps one request and then a probe a minute.
    private func credentialNumber(of app: AppSettings) -> Int {
        let used = AppCredential(name: app.name, environment: app.environment, credential: app.credential)
        if let number = credentialNumbers[used] { return number }
        let number = credentialNumbers.count
        credentialNumbers[used] = number
        return number
    }

    struct AppCredential: Hashable {
        let name: String
        let environment: PushEnvironment
        let credential: AppSettings.Credential
    }

    /// By `AppIndex`, those that are gone too.
    var recordApps: [RecordApp] { appRows.map { RecordApp(name: $0.name, environment: $0.environment) } }

    // MARK: What was refused

    /// Of a configuration or a credential that is there and not in force.
    func refusalFaults() -> [Fault] {
        var faults: [Fault] = []
        if let first = files.refusedReload.first {
            let more = files.refusedReload.count > 1 ? " (and \(files.refusedReload.count - 1) more)" : ""
            faults.append(
                Fault(
                    "configuration", .refused, "it is refused, and the one before stays: \(first)\(more)",
                    "mend it and send SIGHUP again"))
        }
        for (app, lines) in files.refusedFiles.sorted(by: { $0.key < $1.key }) where !appRows[app].isRemoved {
            faults.append(
                Fault(
                    "app \(appRows[app].name)", .refused,
                    "a credential's file changed and cannot be used; the one before stays: \(lines.first ?? "")",
                    "put a file in place that can be used; it is read within 10 s"))
        }
        return faults
    }

    // MARK: Credential files

    /// Watches the files that credentials are read from; Kubernetes swaps them under their names.
    func watchFiles() {
        let watched = CredentialFiles(apps.map(\.settings))
        // Who hangs at a file that is watched further would only be joined there by another thread.
        var reading = files.watch?.reading
        if let path = reading?.underWay?.path, !path.isEmpty, !watched.paths.contains(path) { reading = nil }
        files.watch = FileWatch(loadedHashes(of: watched.paths), loop: loop, reading: reading) { [weak self] paths in
            self?.files.appsToRead.formUnion(watched.apps(using: paths))
            self?.readNextApp()
        }
    }

    /// What the apps read from each file; `nil` where they read different things, or none that is left read it.
    private func loadedHashes(of paths: [String]) -> [(path: String, hash: UInt64?)] {
        let living = apps.indices.filter { !appRows[$0].isRemoved }
        return paths.map { path in
            let hashes = Set(living.compactMap { apps[$0].fileHashes[path] })
            return (path, hashes.count == 1 ? hashes.first : nil)
        }
    }

    /// Reads the credential of the next app that has a file with other contents, where none is being read. Once a
    /// second, too: there may have been no room for a thread.
    func readNextApp() {
        guard stopping == nil, !files.credential.isBusy else { return }
        files.appsToRead = files.appsToRead.filter { !appRows[$0.value].isRemoved }
        guard let index = files.appsToRead.min(by: { $0.value < $1.value }) else { return }
        let settings = apps[index.value].settings
        let hasBegun = files.credential.begin({
            Result { () throws(StartFailure) in try LoadedApp(settings) }
        }) { [weak self] found in
            self?.take(found, of: index, readBy: settings)
            self?.readNextApp()
        }
        if hasBegun { files.appsToRead.remove(index) }
    }

    private func take(_ found: Result<LoadedApp, StartFailure>, of index: AppIndex, readBy settings: AppSettings) {
        // A reload came in between, and read it as it says.
        guard stopping == nil, !appRows[index.value].isRemoved, apps[index.value].settings.connects(like: settings)
        else { return }
        let name = appRows[index.value].name
        switch found {
        case .success(var loaded):
            loaded.settings = apps[index.value].settings
            replace(index, with: loaded)
            readFeedback()
            files.refusedFiles[index.value] = nil
            for (path, hash) in loadedHashes(of: Array(loaded.fileHashes.keys)) {
                files.watch?.remember(path, hash: hash)
            }
            logger.notice(.apns, "credential read again: its connections are made anew", ["app": "\(name)"])
        case .failure(let failure):
            files.refusedFiles[index.value] = failure.lines
            for line in failure.lines {
                logger.error(
                    .apns, "a credential's file changed and cannot be used; the one before stays", about: line,
                    ["text": .text(line)])
            }
        }
    }

    // MARK: File systems that hang

    /// Whether a thread is at a file, or about to be.
    var isReadingFiles: Bool { files.readings.contains(where: \.isBusy) || !files.appsToRead.isEmpty }

    /// How long reading a configuration or a credential may take before that is named.
    static let readingNs: Int64 = 5_000_000_000

    /// Files that are waited for; what was read before stays in force meanwhile.
    func hangingFaults(_ now: DeliveryTime) -> [Fault] {
        var faults: [Fault] = []
        for case let (path, sinceNs)? in files.readings.map(\.underWay) where now.ns - sinceNs >= Self.readingNs {
            let subject = path.isEmpty ? "configuration" : "file \(path)"
            guard !faults.contains(where: { $0.subject == subject }) else { continue }
            faults.append(
                Fault(
                    subject, .silent, "reading it does not come to an end: what was read before stays in force",
                    "look at the file system it is on; it goes on by itself once that answers"))
        }
        return faults
    }
}

extension PushWorker {
    /// The files that are read while it runs: who reads them, which are to be read, and what was refused of them.
    struct ConfiguredFiles {
        let configuration: FileReading
        let credential: FileReading
        /// Of the credentials' files.
        fileprivate(set) var watch: FileWatch?
        /// What SIGHUP asked for while the configuration was being read.
        fileprivate var nextReload: Rereading?
        /// A file of theirs changed, and is not read yet.
        fileprivate var appsToRead: Set<AppIndex> = []
        /// Why the last configuration was not taken over; empty: it was.
        fileprivate var refusedReload: [String] = []
        /// By the app, why a file of it that changed cannot be used.
        fileprivate var refusedFiles: [Int: [String]] = [:]

        init(loop: Loop) {
            configuration = FileReading(loop: loop)
            credential = FileReading(loop: loop)
        }

        /// Who reads files.
        fileprivate var readings: [FileReading] {
            [configuration, credential] + [watch?.reading].compactMap(\.self)
        }
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

    /// The same row with what the credential says now; its connections go on.
    fileprivate func reloaded(_ app: LoadedApp) -> Self {
        var row = self
        row.certificateEndsMs = app.certificate?.notAfterMs
        return row
    }
}

extension WorkerConfiguration {
    /// The sections in which another one differs, and that are read at the start only.
    func keysThatNeedRestart(_ other: WorkerConfiguration) -> [String] {
        let sections: [(key: String, isSame: Bool)] = [
            ("kafka", kafka == other.kafka), ("requests", requestTopics == other.requestTopics),
            ("results", results == other.results), ("unregistered", unregistered == other.unregistered),
            ("dead_letters", deadLetters == other.deadLetters), ("retry", retry == other.retry),
            ("delivery", delivery == other.delivery), ("drain", drain == other.drain),
            ("admin", admin == other.admin), ("log.format", log.format == other.log.format),
            ("crash", crash == other.crash),
        ]
        return sections.filter { !$0.isSame }.map(\.key)
    }
}
