package import Configuration
internal import Delivery
internal import EventLoop
internal import Observability
internal import PushRecords
internal import TLS

extension PushWorker {
    /// Reads the configuration again, as it was read at the start.
    package typealias Rereading = () throws(ConfigurationError) -> LoadedConfiguration

    // MARK: The configuration (SIGHUP)

    func hangUp(_ reread: Rereading?) {
        guard let reread, publisher != nil, stopping == nil else {
            return logger.notice(.worker, "SIGHUP: nothing to reload now")
        }
        reload(reread)
    }

    /// Takes over what may change while the worker runs: apps with their credentials, limits and pauses, and log levels.
    /// All of it or, when anything is wrong, nothing. Waits for no pipe.
    func reload(_ reread: Rereading) { RegularFiles.only { takeOver(reread) } }

    private func takeOver(_ reread: Rereading) {
        let loaded: LoadedConfiguration
        do throws(ConfigurationError) {
            loaded = try reread()
        } catch {
            return refuse(error.lines)
        }
        let new = loaded.configuration
        var changed: [String: LoadedApp] = [:]
        var lines: [String] = []
        for app in new.apps {
            if let index = liveIndex(of: app), apps[index].settings.connects(like: app) { continue }
            do throws(StartFailure) {
                changed[app.name] = try LoadedApp(app)
            } catch {
                lines += error.lines
            }
        }
        guard lines.isEmpty else { return refuse(lines) }

        for warning in loaded.warnings {
            logger.warning(.worker, "configuration", about: warning, ["text": .text(warning)])
        }
        for key in configuration.keysThatNeedRestart(new) {
            logger.warning(.worker, "this change needs a restart", about: key, ["key": "\(key)"])
        }
        if new.log.levels != configuration.log.levels { logger.setLevels(new.log.levels) }
        configuration.log.level = new.log.level
        configuration.log.parts = new.log.parts
        take(new.apps, changed)
        configuration.apps = new.apps
        DescriptorNeed.raiseLimit(for: configuration, logger)
        refusedReload = []
        refusedFiles = [:]
        watchFiles()
        // Files that have other contents under the same name.
        fileWatch?.look()
        logger.notice(.worker, "configuration reloaded", ["apps": .count(new.apps.count)])
    }

    private func refuse(_ lines: [String]) {
        refusedReload = lines
        for line in lines {
            logger.error(
                .worker, "the configuration is refused; the one before stays", about: line, ["text": .text(line)])
        }
    }

    /// An app is the same one while its name and environment are.
    private func liveIndex(of app: AppSettings) -> Int? {
        appRows.indices.first {
            appRows[$0].name == app.name && appRows[$0].environment == app.environment && !appRows[$0].isRemoved
        }
    }

    private func take(_ settings: [AppSettings], _ changed: [String: LoadedApp]) {
        let mapping = machine.replaceApps(settings.map(route), now: now)
        for (app, index) in zip(settings, mapping.indexes) {
            if mapping.added.contains(index) {
                guard let loaded = changed[app.name] else { preconditionFailure("a new app was loaded") }
                precondition(link?.add(loaded) == index, "transports and machine count apps alike")
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
            unreachable[index.value] = nil
            unanswered[index.value] = nil
            openCircuits.removeAll { $0.name.app == index }
            link?.post(index, .close)
            logger.notice(.worker, "app removed; what is left of it is held", ["app": "\(appRows[index.value].name)"])
        }
        eventLog.names = appRows.map(\.name)
        publisher?.setApps(recordApps)
    }

    /// New connections are made as it says from now on, and what its credential's fault held up goes on.
    private func replace(_ index: AppIndex, with loaded: LoadedApp) {
        apps[index.value] = loaded
        appRows[index.value] = appRows[index.value].reloaded(loaded)
        link?.replace(index, with: loaded)
        machine.credentialReplaced(credentialNumber(of: loaded.settings), now: now)
    }

    // MARK: Apps, as others know them

    func route(_ app: AppSettings) -> AppRoute {
        AppRoute(
            name: app.name, environment: app.environment, bundleIDs: app.bundleIDs,
            credential: credentialNumber(of: app),
            isPaused: app.isPaused, rateLimit: app.rateLimit, guardPolicy: app.guardPolicy)
    }

    /// Apps with one credential have one circuit.
    private func credentialNumber(of app: AppSettings) -> Int {
        if let number = credentialNumbers[app.credential] { return number }
        let number = credentialNumbers.count
        credentialNumbers[app.credential] = number
        return number
    }

    /// By `AppIndex`, those that are gone too.
    var recordApps: [RecordApp] { appRows.map { RecordApp(name: $0.name, environment: $0.environment) } }

    // MARK: What was refused

    /// Of a configuration or a credential that is there and not in force.
    func refusalFaults() -> [Fault] {
        var faults: [Fault] = []
        if let first = refusedReload.first {
            let more = refusedReload.count > 1 ? " (and \(refusedReload.count - 1) more)" : ""
            faults.append(
                Fault(
                    "configuration", .refused, "it is refused, and the one before stays: \(first)\(more)",
                    "mend it and send SIGHUP again"))
        }
        for (app, lines) in refusedFiles.sorted(by: { $0.key < $1.key }) where !appRows[app].isRemoved {
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
        let files = CredentialFiles(apps.map(\.settings))
        fileWatch = FileWatch(loadedHashes(of: files.paths), loop: loop) { [unowned self] paths in
            RegularFiles.only {
                for index in files.apps(using: paths) where !appRows[index.value].isRemoved { readAgain(index) }
            }
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

    private func readAgain(_ index: AppIndex) {
        let name = appRows[index.value].name
        do throws(StartFailure) {
            let loaded = try LoadedApp(apps[index.value].settings)
            replace(index, with: loaded)
            refusedFiles[index.value] = nil
            for (path, hash) in loadedHashes(of: Array(loaded.fileHashes.keys)) {
                fileWatch?.remember(path, hash: hash)
            }
            logger.notice(.apns, "credential read again: its connections are made anew", ["app": "\(name)"])
        } catch {
            refusedFiles[index.value] = error.lines
            for line in error.lines {
                logger.error(
                    .apns, "a credential's file changed and cannot be used; the one before stays", about: line,
                    ["text": .text(line)])
            }
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
        if row.certificateEndsMs != nil { row.tokenMadeMs = nil }
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
