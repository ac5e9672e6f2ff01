package import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability
internal import TLS

/// The source of the configuration, from which the worker reads it again.
package struct ConfigurationSource: Sendable {
    /// The path of the configuration, or `nil` if it was not read from a regular file.
    fileprivate let file: String?
    /// The hash of the file's contents that are in use, computed before they were read.
    fileprivate var hash: UInt64?
    fileprivate let read: @Sendable () throws(ConfigurationError) -> LoadedConfiguration

    /// Hashes the file. Create the source before the configuration is first read.
    package init(file: String?, read: @escaping @Sendable () throws(ConfigurationError) -> LoadedConfiguration) {
        self.file = file
        self.read = read
        hash = file.flatMap { FileWatch.hash($0) }
    }

    /// A reread configuration, and the loaded apps by name.
    fileprivate typealias Reread = (LoadedConfiguration, [String: LoadedApp])

    /// Reads the configuration and its apps. Fails if an app that works now cannot be used with its new settings. Any
    /// other app may be loaded with faults.
    ///
    /// - Parameters:
    ///   - living: The apps that work now.
    ///   - onlyChanged: Whether to load only apps that are new or whose connection settings have changed.
    fileprivate func load(_ living: [AppSettings], onlyChanged: Bool = true) throws(StartFailure) -> Reread {
        let loaded: LoadedConfiguration
        do throws(ConfigurationError) { loaded = try read() } catch { throw StartFailure(error.lines) }
        func former(_ app: AppSettings) -> AppSettings? {
            living.first { $0.name == app.name && $0.environment == app.environment }
        }
        let wanted = loaded.configuration.apps.filter { !onlyChanged || former($0)?.connects(like: $0) != true }
        let apps = try LoadedApp.load(wanted) { former($0) == nil }
        return (loaded, Dictionary(apps.map { ($0.settings.name, $0) }, uniquingKeysWith: { $1 }))
    }

    /// Reads everything that a restarted worker would read, and logs in to Kafka. Fails if the login fails, or if an
    /// app that works now (`living`) could not be used after a restart.
    fileprivate func logIn(_ living: [AppSettings]) throws(StartFailure) {
        let configuration = try load(living, onlyChanged: false).0.configuration
        let cluster = try configuration.cluster()
        do throws(KafkaError) {
            // `kafka.oauth.command` may take 20 s.
            _ = try Topics(cluster).all(timeoutMs: 30_000)
        } catch {
            throw StartFailure(of: error, configuration)
        }
    }
}

/// Rereads files while the worker runs: the configuration on SIGHUP or when its file changes, and an app's credential
/// when its file changes. Restarts the worker when files of the Kafka clients change.
/// A separate thread reads the files, because the core thread must not wait for a file system. A file takes effect
/// completely or not at all. Core thread.
final class ConfigurationFiles {
    private unowned let worker: PushWorker
    private let loop: Loop
    private let logger: Logger
    private let configuration: BlockingReads
    private let credential: BlockingReads
    private var watched: FileWatch?
    /// The source of the configuration, or `nil` if the configuration cannot be read again.
    var source: ConfigurationSource?
    /// Whether a reload was requested while another reload was in progress.
    private var reloadsAgain = false
    private var appsToRead: Set<AppIndex> = []
    private var refusedReload: [String] = []
    /// The errors of changed credential files that cannot be used, by app index.
    private var refusedFiles: [Int: [String]] = [:]
    private var kafkaWatch: FileWatch?
    /// The files of the Kafka clients that have changed since the start, and the reason why the worker does not use
    /// them.
    private var changedKafkaFiles: Set<String> = []
    private var kafkaRefusal = ""
    private var kafkaCertificates: [(file: String, details: CertificateDetails)] = []
    /// Restarts the worker, or `nil` without a supervisor.
    var restart: (() -> Void)?
    /// The keys of changed settings that take effect only after a restart.
    var keysForRestart: [String] = []
    private var isStopped = false

    init(_ worker: PushWorker) {
        self.worker = worker
        loop = worker.loop
        logger = worker.logger
        configuration = BlockingReads(loop: loop)
        credential = BlockingReads(loop: loop)
    }

    func stop() { isStopped = true }

    /// The settings of the apps that work now.
    private var livingApps: [AppSettings] {
        let apps = worker.apps
        return apps.living.filter { apps[$0].faults.isEmpty }.map { apps[$0].settings }
    }

    var isReading: Bool {
        configuration.isBusy || credential.isBusy || !appsToRead.isEmpty || kafkaWatch?.reading.isBusy == true
    }

    // MARK: The configuration

    /// Begins to reload the configuration. Changes of apps (credentials, limits, pauses) and of log levels take effect
    /// once the whole configuration is read, or not at all if the reload fails. If a reload is requested during another
    /// one, it begins afterwards, and the result of the earlier reload is discarded.
    func reload() {
        guard let source else { return }
        let living = livingApps
        let hasBegun = configuration.begin({
            (source.file.flatMap { FileWatch.hash($0) }, Result { () throws(StartFailure) in try source.load(living) })
        }) { [weak self] (hash, found) in self?.take(found, hash) }
        guard !hasBegun else { return }
        guard configuration.isBusy else {
            return refuse(["no thread could be started to read the configuration; send SIGHUP again"])
        }
        reloadsAgain = true
    }

    private func take(_ found: Result<ConfigurationSource.Reread, StartFailure>, _ hash: UInt64?) {
        guard !isStopped else { return }
        if reloadsAgain {
            reloadsAgain = false
            return reload()
        }
        switch found {
        case .failure(let failure): refuse(failure.lines)
        case .success((let loaded, let changed)):
            let changes = worker.takeOver(loaded, changed)
            refusedReload = []
            source?.hash = hash
            refusedFiles = [:]
            watch()
            // Credential files may have changed without a change of their names in the configuration.
            checkFiles()
            logger.notice(
                .worker, "configuration reloaded",
                [
                    "apps": .count(loaded.configuration.apps.count),
                    "changed": .text(changes.isEmpty ? "nothing" : changes.joined(separator: ",")),
                ])
        }
    }

    private func refuse(_ lines: [String]) {
        let isRepeated = lines == refusedReload
        refusedReload = lines
        // Other files that the configuration names may change, so the next check reports the file again.
        if let file = source?.file { watched?.remember(file, hash: nil) }
        worker.pages.reloaded(nil, now: worker.now)
        // While the problem lasts, the log repeats it.
        for line in lines where !isRepeated {
            logger.error(
                .worker, "configuration rejected, keeping the previous one", about: line, ["text": .text(line)])
        }
    }

    // MARK: Watched files

    /// Watches the configuration and the apps' credential files, whose contents may change under the same path, as in a
    /// Kubernetes ConfigMap or secret.
    func watch() {
        let files = worker.apps.settings.map(\.credentialFiles)
        let paths = worker.apps.hashes(of: Array(Set(files.joined())))
        let file = source?.file
        watched = FileWatch(
            paths + (file.map { [($0, source?.hash)] } ?? []), loop: loop, reading: credential, reportsMissing: true,
            slowPath: file
        ) { [weak self] changed in
            guard let self, !isStopped else { return }
            if let file, changed.contains(file) { reload() }
            let readers = files.indices.filter { !Set(files[$0]).isDisjoint(with: changed) }
            appsToRead.formUnion(readers.map { AppIndex($0) })
            readNextApp()
        }
    }

    func checkFiles() {
        watched?.check()
        kafkaWatch?.check()
    }

    /// Watches the certificates, keys and secrets of the Kafka clients. librdkafka reads them only when it creates a
    /// client, so the worker restarts once it can log in with the changed files. The delay is random, so that not all
    /// workers of a group restart at the same time.
    ///
    /// - Parameter files: The files with the property that names each, and with the hashes of their contents before the
    ///   clients were created.
    func watchKafka(_ files: [(property: String, path: String, hash: UInt64?)]) {
        guard !files.isEmpty else { return }
        kafkaCertificates = files.compactMap { property, path, _ in
            let all = (try? CertificateDetails.all(in: .bytes(readFile(path), name: path))) ?? []
            // A client's file begins with its own certificate. A file of CAs may contain expired ones.
            let isOwn = property == "ssl.certificate.location"
            let details = isOwn ? all.first : all.max { $0.notAfterMs < $1.notAfterMs }
            return details.map { (path, $0) }
        }
        kafkaWatch = FileWatch(files.map { ($0.path, $0.hash) }, loop: loop) { [weak self] changed in
            guard let self, !isStopped else { return }
            changedKafkaFiles.formUnion(changed)
            let fields: Fields = ["files": .text(changed.joined(separator: ","))]
            guard let source, let restart else {
                return logger.warning(.kafka, "file of the Kafka clients changed, restart needed", fields)
            }
            // If no thread can be started, the next check reports the files again.
            for path in changed { kafkaWatch?.remember(path, hash: nil) }
            let living = livingApps
            _ = kafkaWatch?.reading.begin({
                Result { () throws(StartFailure) in try source.logIn(living) }
            }) { [weak self] result in
                guard let self, !isStopped else { return }
                if case .failure(let failure) = result {
                    if kafkaRefusal != failure.lines[0] {
                        logger.error(
                            .kafka, "changed file of the Kafka clients cannot be used", about: failure.lines[0],
                            ["text": .text(failure.lines[0])])
                    }
                    kafkaRefusal = failure.lines[0]
                } else if kafkaWatch != nil {
                    kafkaWatch = nil
                    kafkaRefusal = ""
                    logger.notice(.kafka, "file of the Kafka clients changed, restarting within 30 s", fields)
                    loop.schedule(afterNs: .random(in: 0...30_000_000_000), restart)
                }
            }
        }
    }

    /// Reads the credential of the next app with a changed file, unless a read is in progress. If the system cannot
    /// start a thread, the next call tries again.
    func readNextApp() {
        guard !isStopped, !credential.isBusy else { return }
        let apps = worker.apps
        appsToRead = appsToRead.filter { !apps.rows[$0.value].isRemoved }
        guard let index = appsToRead.min(by: { $0.value < $1.value }) else { return }
        let settings = apps[index.value].settings
        let hasBegun = credential.begin({
            Result { () throws(StartFailure) in try LoadedApp(settings) }
        }) { [weak self] found in
            self?.take(found, of: index, readBy: settings)
            self?.readNextApp()
        }
        if hasBegun { appsToRead.remove(index) }
    }

    private func take(_ found: Result<LoadedApp, StartFailure>, of index: AppIndex, readBy settings: AppSettings) {
        let current = worker.apps
        // If the app's connection settings have changed during this read, a reload of the configuration has already
        // read the credential.
        guard !isStopped, !current.rows[index.value].isRemoved, current[index.value].settings.connects(like: settings)
        else { return }
        let name = current.rows[index.value].name
        switch found {
        case .success(var loaded):
            refusedFiles[index.value] = nil
            // The same files are readable again, so the app's connections stay.
            if current[index.value].faults.isEmpty, current[index.value].fileHashes == loaded.fileHashes { return }
            loaded.settings = current[index.value].settings
            worker.replace(index, with: loaded)
            worker.readFeedback()
            for (path, hash) in worker.apps.hashes(of: Array(loaded.fileHashes.keys)) {
                watched?.remember(path, hash: hash)
            }
            logger.notice(.apns, "credential reloaded, replacing connections", ["app": "\(name)"])
        case .failure(let failure):
            refusedFiles[index.value] = failure.lines
            for line in failure.lines {
                logger.error(
                    .apns,
                    current[index.value].faults.isEmpty
                        ? "changed credential file cannot be used, keeping the previous credential"
                        : "changed credential file cannot be used", about: line, ["text": .text(line)])
            }
        }
    }

    // MARK: Faults

    func faults() -> [Problem] {
        let apps = worker.apps
        var faults: [Problem] = []
        if let first = refusedReload.first {
            let more = refusedReload.count > 1 ? " (and \(refusedReload.count - 1) more)" : ""
            faults.append(
                Problem(
                    .configuration, .refused,
                    "the changed configuration was rejected, and the previous one stays in use: \(first)\(more)",
                    "correct the configuration or the files that it names; the worker reads them again within 20 s"))
        }
        if !changedKafkaFiles.isEmpty {
            let names = changedKafkaFiles.sorted().joined(separator: ", ")
            let isRefused = !kafkaRefusal.isEmpty
            faults.append(
                Problem(
                    .kafka, .restartNeeded,
                    "the Kafka clients still use the previous version of \(names)"
                        + (isRefused ? ", because a restarted worker would fail: \(kafkaRefusal)" : ""),
                    restart == nil
                        ? "restart the worker before the previous version expires"
                        : "the worker restarts by itself once it can log in with the new version"))
        }
        for (file, details) in kafkaCertificates where details.notAfterMs - worker.now.wallMs <= AppHealth.expiringMs {
            faults.append(
                Problem(
                    .kafka, .expiring, "the certificate in \(file) \(details.expiry(nowMs: worker.now.wallMs))",
                    "replace the file; if there is a supervisor, the worker restarts itself with the new one"))
        }
        if !keysForRestart.isEmpty {
            let text = "changed settings take effect only after a restart: \(keysForRestart.joined(separator: ", "))"
            faults.append(Problem(.configuration, .restartNeeded, text, "restart the worker, or undo the change"))
        }
        for app in apps.living {
            let (name, isUsable) = (apps.rows[app].name, apps[app].faults.isEmpty)
            guard let fault = (refusedFiles[app] ?? apps[app].faults).first else { continue }
            let line = fault.trimmingPrefix("app \(name): ")
            faults.append(
                Problem(
                    .app(name), isUsable ? .refused : .credentialUnusable,
                    isUsable
                        ? "a changed credential file cannot be used, and the previous credential stays in use: \(line)"
                        : "the app's credential cannot be used, and its notifications are deferred: \(line)",
                    "replace the file with a valid one; the worker reads the new file within 10 s"
                        + (isUsable ? "" : ". If systemd passes the file (LoadCredential), restart the service")))
        }
        return faults
    }
}
