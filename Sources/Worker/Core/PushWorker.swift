internal import CLinux
package import Configuration
internal import Delivery
internal import EventLoop
internal import Glibc
internal import HTTPServer
internal import Kafka
package import Observability
internal import PushRecords
internal import Synchronization

/// The worker, which connects Kafka, the delivery machine and the transports. The thread that calls `run` is the core
/// thread. Any thread may call `stop` and `progress`, which use only atomic or locked state. `@unchecked Sendable` is
/// correct, because only the core thread uses the other mutable state.
package final class PushWorker: @unchecked Sendable {
    package enum Ending: Sendable, Equatable {
        case stopped
        /// The worker failed for the given reason (one line), which a restart may fix.
        case failed(String)
        /// The supervisor must start the worker again, because files of the Kafka clients have changed.
        case restart
    }

    /// The numbers of unanswered notifications and open connections, and whether the worker has joined its groups.
    package typealias Progress = (inFlight: Int, connections: Int, hasJoined: Bool)

    private var configuration: WorkerConfiguration
    let logger: Logger
    let loop: Loop
    var eventLog: EventLog
    private let cluster: ClusterSettings
    private(set) var apps: ConfiguredApps
    private(set) lazy var files = ConfigurationFiles(self)
    private var machine: DeliveryMachine
    private var deliveryTurn = DeliveryTurn()
    /// Wakes the core loop when an empty queue of librdkafka receives an event.
    private var doorbell: Doorbell?
    /// The readers, publisher and transports, or `nil` before `start` and after `dismantle`.
    private(set) var parts: WorkerParts?
    private var feedback: FeedbackThread?
    var health: WorkerHealth
    var pages: StatusPages
    private let board: StatusBoard
    private let shutdown = Shutdown()
    private var restarts = false
    /// The number of sends at the previous call of `maintain`.
    private var sentBefore = 0
    /// Whether a second with at least 1,000 sends has passed since memory was last returned to the kernel.
    private var wasBusy = false
    /// The files of the Kafka clients: the property that names each, and the hash of its contents before the first
    /// client was created.
    private let kafkaFiles: [(property: String, path: String, hash: UInt64?)]
    /// Whether all threads that `run` started have ended. If not, the process must exit without destructors, because
    /// the remaining threads still use memory that the destructors would free.
    package private(set) var hasEndedWhole = true

    package init(
        _ configuration: WorkerConfiguration, logger: Logger, crashes: CrashHistory = CrashHistory()
    ) throws(StartFailure) {
        self.configuration = configuration
        self.logger = logger
        kafkaFiles = configuration.kafka.allProperties.compactMap { property in
            property.file.map { (property.name, $0, FileWatch.hash($0)) }
        }
        cluster = try configuration.cluster()
        let loaded = try LoadedApp.load(configuration.apps) { _ in true }
        guard loaded.isEmpty || loaded.contains(where: \.faults.isEmpty) else {
            throw StartFailure(loaded.flatMap(\.faults))
        }
        apps = ConfiguredApps(loaded)
        eventLog = EventLog(logger: logger, names: configuration.apps.map(\.name))
        machine = DeliveryMachine(settings: configuration.machineSettings, apps: [])
        loop = try StartFailure.catching { try Loop() }
        health = WorkerHealth(logger)
        let now = DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs)
        pages = StatusPages(configuration, machine, crashes, now: now)
        board = pages.board
        _ = machine.replaceApps(configuration.apps.map(\.route), now: now)
        // In-process brokers have the clock of this process.
        if !configuration.kafka.tellsTopicConfigurations { machine.compareClock(storedMs: nil, latencyMs: 0, now: now) }
        postSnapshot(now)
    }

    /// Makes `run` drain and return. Any thread may call `stop`, also repeatedly.
    package func stop() {
        shutdown.isRequested.store(true, ordering: .relaxed)
        loop.perform { [weak self] in self?.beginStopping() }
    }

    /// The worker's progress, updated a few times a second.
    package var progress: Progress {
        let snapshot = board.newest
        return (
            snapshot.gauges.inFlight.reduce(0, +),
            snapshot.apps.reduce(0) { $0 + $1.standing.connections.open }, snapshot.isReady
        )
    }

    var now: DeliveryTime { DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs) }

    // MARK: Running

    /// Runs the worker on the calling thread until `stop` is called or an unrecoverable error occurs.
    ///
    /// - Parameters:
    ///   - isSupervised: Whether the supervisor, instead of this process, handles a second SIGTERM or SIGINT.
    ///   - source: The source of the configuration, or `nil` if the worker does not reload it.
    /// - Throws: `StartFailure` if a thread, the admin pages or a Kafka client cannot be started, or if
    ///   `ClusterReadiness.attempt(timeoutMs:)` throws it.
    package func run(
        handlesSignals: Bool = false, isSupervised: Bool = false, source: ConfigurationSource? = nil
    ) throws(StartFailure) -> Ending {
        files.source = source
        if isSupervised { files.restart = { [weak self] in self?.restart() } }
        if handlesSignals {
            let stopping = isSupervised ? [] : [SIGTERM, SIGINT]
            _ = try StartFailure.catching {
                try Signals([SIGTERM, SIGINT, SIGHUP], stopping: stopping, loop: loop) { [weak self] signal in
                    guard let self else { return }
                    if signal == SIGHUP { return hangUp() }
                    // Ctrl-C in a terminal signals both this process and its supervisor. The supervisor forwards the
                    // signal, so this process receives it twice.
                    guard !shutdown.isRequested.load(ordering: .relaxed) else { return }
                    logger.notice(.worker, "stopping: draining notifications in flight")
                    stop()
                }
            }
        }
        let server = try AdminPages.serve(configuration.admin, board: board)
        defer { dismantle(server) }
        if let server, let listen = configuration.admin.listen {
            logger.info(
                .worker, "admin pages", ["address": "\(NetworkAddress(host: listen.host, port: Int(server.port)))"])
        }
        guard let (requestPartitions, startingAtEnd, topics) = try waitForCluster() else { return .stopped }
        try StartFailure.catching { try start(requestPartitions: requestPartitions, startingAtEnd, topics) }
        logger.info(
            .worker, "started", ["group": "\(configuration.kafka.groupID)", "apps": .count(apps.all.count)])
        logPauses(configuration.apps, before: [])
        if shutdown.isRequested.load(ordering: .relaxed) { beginStopping() }
        loop.run()
        return shutdown.failure.map { .failed($0) } ?? (restarts ? .restart : .stopped)
    }

    /// Waits until Kafka is ready. Returns the number of partitions of the request topics, the partitions to read from
    /// their log end, and the names of all topics. Returns `nil` if `stop` is called during the wait.
    private func waitForCluster() throws(StartFailure) -> (Int, Set<TopicPartition>, Set<String>)? {
        var readiness = try ClusterReadiness(configuration, cluster)
        while !shutdown.isRequested.load(ordering: .relaxed) {
            let problem: Problem
            switch try readiness.attempt(timeoutMs: 2_000) {
            case .ready(let requestPartitions, let startingAtEnd, let topics, let denied, let warnings, _):
                for line in denied { logger.warning(.kafka, "permission missing", about: line, ["text": .text(line)]) }
                for line in warnings { logger.warning(.kafka, "topic warning", about: line, ["text": .text(line)]) }
                return (requestPartitions, startingAtEnd, topics)
            case .waiting(let kind, let lines, let advice):
                problem = Problem(.kafka, kind, lines.joined(separator: "; "), advice)
            }
            loop.runOnce(timeoutNs: 500_000_000)
            health.update(nil, configuration, apps, machine.counters.apps, others: [problem], eventLog, now)
            postSnapshot(now)
            logger.writeLeftOut()
        }
        return nil
    }

    private func start(
        requestPartitions: Int, _ startingAtEnd: Set<TopicPartition>, _ topics: Set<String>
    ) throws {
        let doorbell = try Doorbell(loop: loop) { [unowned self] in deliveryTurn.hasKafkaNews = true }
        self.doorbell = doorbell
        let publisher = try RecordPublisher(
            configuration, apps: apps.recordApps, cluster: cluster, wakeUpDescriptor: doorbell.descriptor,
            logger: logger)
        let readers = try makeReaders(doorbell, requestPartitions: requestPartitions)
        readers[0].startingAtEnd = startingAtEnd
        for reader in readers { reader.topicsAtStart = topics }
        let tiers = configuration.retry.tiers.map(\.topic)
        let removed = RemovedRetryTopics(
            configuration, cluster, loop: loop, logger: logger,
            onChange: { [unowned self, unowned retries = readers[1]] topics in
                if !shutdown.isUnderWay { retries.subscribe(to: tiers + topics) }
            },
            onTopics: { [unowned self] topics in for reader in parts?.readers ?? [] { reader.exist(topics, now) } })
        let condemned = board.newest.crashes.condemned
        for reader in readers {
            reader.context.condemned = condemned
            reader.onAssignment = { [unowned removed] in removed.search() }
        }
        // The transports start a thread, so they are created after everything else that can fail.
        let transports = try AppTransports(
            apps.all,
            TransportSettings(
                responseTimeoutNs: configuration.delivery.responseTimeout.nanoseconds,
                longestWindowNs: configuration.drain.rebalance.nanoseconds,
                tracesFrames: { [logger] in logger.writes(.trace, of: .apns) }),
            loop: loop, onNote: { [unowned self] note, app in eventLog.write(note, of: app) })
        parts = WorkerParts(
            readers: readers, publisher: publisher, transports: transports, removedRetryTopics: removed,
            alarm: Alarm(loop: loop) {},
            requestsAtLatestNs: LoopTime.read().monotonicNs + WorkerParts.retryGroupNs)
        removed.search()
        files.watch()
        files.watchKafka(kafkaFiles)
        readFeedback()
        health.startedNs = loop.now.monotonicNs
        maintain()
        loop.onTurnEnd { [unowned self] in turn() }
    }

    private func makeReaders(_ doorbell: Doorbell, requestPartitions: Int) throws(KafkaError) -> [GroupReader] {
        let requests = configuration.requestTopics
        let tiers = configuration.retry.tiers
        func reader(
            _ role: ConsumerSettings.Role, partitions: Int = 8, topics: [String],
            _ roleOfTopic: @escaping GroupReader.RoleOfTopic
        ) throws(KafkaError) -> GroupReader {
            try GroupReader(
                configuration.consumer(role, of: cluster, partitions: partitions), topics: topics,
                drainNs: configuration.drain.rebalance.nanoseconds, wakeUpDescriptor: doorbell.descriptor,
                logger: logger, roleOfTopic: roleOfTopic)
        }
        return [
            try reader(.requests, partitions: requestPartitions, topics: requests.map(\.name)) { topic in
                // An entry with the exact topic name has priority over entries whose pattern matches the name.
                let entry =
                    requests.first { $0.name == topic } ?? requests.first { !$0.matching([topic]).isEmpty }
                return .requests(weight: entry?.weight ?? 1, app: entry?.app)
            },
            try reader(.retries, topics: tiers.map(\.topic)) { topic in
                .retry(delayMs: tiers.first { $0.topic == topic }?.delay.milliseconds ?? RemovedRetryTopics.delayMs)
            },
        ]
    }

    // MARK: One turn

    private func turn() {
        guard let parts else { return }
        let now = now
        // librdkafka sends no wake-up when a consumer has left its group, so a stopping worker polls in every turn.
        if shutdown.isUnderWay { deliveryTurn.hasKafkaNews = true }
        let end = deliveryTurn.run(
            &machine, requests: parts, transports: parts.transports, records: parts.publisher, now: now)
        func name(of partition: PartitionID) -> String { parts.partition(of: partition)?.description ?? "unknown" }
        var resumed: [String] = []
        for event in end.events {
            health.apps.note(event)
            for reader in parts.readers { reader.note(event, now) }
            if case .resumed(let id) = event {
                resumed.append(name(of: id))
            } else {
                eventLog.write(event, partitionName: name(of:))
            }
        }
        if !resumed.isEmpty { eventLog.writeResumed(resumed) }
        if !shutdown.isUnderWay, let error = parts.fatalError { beginStopping(because: "Kafka: \(error.text)") }
        if shutdown.isUnderWay {
            if shutdown.move(parts, feedback, machine, logger, now) { loop.stop() }
            loop.schedule(afterNs: 5_000_000) {}
        }
        if pages.isDue(now) {
            parts.readers.first?.reportEnds(to: &machine)
            // During a stop, the list keeps the last problems, because a problem that can no longer be checked has not
            // ended.
            if !shutdown.isUnderWay {
                health.update(
                    parts, configuration, apps, machine.counters.apps,
                    others: files.faults() + (machine.clockAheadMs.map { [Problem(clockAheadMs: $0)] } ?? []),
                    eventLog, now)
            }
            postSnapshot(now)
        }
        parts.alarm.set(atNs: end.deadlineNs)
        if end.hasMore { loop.wantAnotherTurn() }
    }

    /// Runs once a second. Tries again to read changed credential files and to start the feedback thread, if a thread
    /// could not be started before. Also calls `Logger.writeLeftOut`, and returns memory to the kernel in the first
    /// second with fewer than 100 sends after a second with at least 1,000.
    private func maintain() {
        let sent = machine.counters.apps.reduce(0) { $0 + $1.handed }
        if sent - sentBefore >= 1_000 {
            wasBusy = true
        } else if wasBusy, sent - sentBefore < 100 {
            linux_return_memory()
            wasBusy = false
        }
        sentBefore = sent
        files.readNextApp()
        if feedback == nil { readFeedback() }
        logger.writeLeftOut()
        loop.schedule(afterNs: 1_000_000_000) { [weak self] in self?.maintain() }
    }

    private func postSnapshot(_ now: DeliveryTime) {
        apps.show(machine.appStatuses, parts?.transports)
        pages.post(
            machine, apps, parts, health, isStopping: shutdown.isUnderWay, now: now)
    }

    // MARK: Stopping

    /// - Parameter reason: The fatal error, or `nil` for a normal stop. After an error, too, the worker drains and
    ///   commits offsets as far as possible, but the process exits with an error.
    private func beginStopping(because reason: String? = nil) {
        guard let parts else { return }
        if let reason {
            logger.error(
                .worker, "stopping after a fatal error: draining notifications in flight", ["reason": "\(reason)"])
        }
        files.stop()
        shutdown.begin(
            parts, feedback, &machine, limitNs: configuration.drain.shutdown.nanoseconds, because: reason, now)
    }

    /// Stops the worker so that its supervisor starts it again.
    private func restart() {
        guard !shutdown.isUnderWay else { return }
        restarts = true
        logger.notice(.worker, "restarting: draining notifications in flight")
        beginStopping()
    }

    /// Ends everything that `run` started, without another commit: `Shutdown` has committed the offsets.
    private func dismantle(_ server: PageServer?) {
        let hadStarted = parts != nil
        // Threads that read files or query brokers use OpenSSL, whose state the process's destructors would free.
        let isBusy = files.isReading || parts?.removedRetryTopics.reads.isBusy == true
        server?.stop()
        feedback?.stop()
        parts?.transports.stop()
        parts = nil
        let haveClientsEnded = ClientReaper.wait(milliseconds: Shutdown.clientsNs / 1_000_000)
        feedback = nil
        doorbell = nil
        hasEndedWhole = haveClientsEnded && !isBusy
        if !haveClientsEnded {
            logger.warning(
                .worker, "Kafka clients still running at exit; nothing is lost",
                ["kafka_clients": .count(ClientReaper.unfinished)])
        }
        logger.writeLeftOut(all: true)
        if hadStarted { logger.info(.worker, "stopped") }
    }

    // MARK: Reloading

    private func hangUp() {
        guard parts != nil, !shutdown.isUnderWay else {
            return logger.notice(.worker, "SIGHUP ignored: the worker is starting or stopping")
        }
        files.reload()
    }

    /// Applies a new configuration. Returns the paths of all settings that differ from those in use.
    func takeOver(_ loaded: LoadedConfiguration, _ changed: [String: LoadedApp]) -> [String] {
        let new = loaded.configuration
        let changes = configuration.settings.changes(to: new.settings)
        for warning in loaded.warnings {
            logger.warning(.worker, "configuration warning", about: warning, ["text": .text(warning)])
        }
        files.keysForRestart = changes.filter(Setting.needsRestart)
        for key in files.keysForRestart {
            logger.warning(.worker, "configuration change takes effect after a restart", about: key, ["key": "\(key)"])
        }
        if new.log.levels != configuration.log.levels { logger.setLevels(new.log.levels) }
        configuration.log.level = new.log.level
        configuration.log.parts = new.log.parts
        take(new.apps, changed)
        logPauses(new.apps, before: configuration.apps)
        configuration.apps = new.apps
        configuration.settings = configuration.settings.filter { Setting.needsRestart($0.key) }
            .merging(new.settings.filter { !Setting.needsRestart($0.key) }) { $1 }
        pages.reloaded(configuration.settings, now: now)
        DescriptorNeed.raiseLimit(for: configuration, logger)
        return changes
    }

    private func take(_ settings: [AppSettings], _ changed: [String: LoadedApp]) {
        let mapping = machine.replaceApps(settings.map(\.route), now: now)
        for (app, index) in zip(settings, mapping.indexes) {
            if mapping.added.contains(index) {
                guard let loaded = changed[app.name] else { preconditionFailure("every added app must be loaded") }
                if let parts {
                    precondition(parts.transports.add(loaded) == index, "transports must use the machine's app indexes")
                }
                apps.add(loaded)
                logger.notice(.worker, "app added", ["app": "\(app.name)"])
            } else if let loaded = changed[app.name] {
                replace(index, with: loaded)
                guard loaded.faults.isEmpty else { continue }
                logger.notice(.worker, "app changed, reconnecting", ["app": "\(app.name)"])
            } else {
                apps.all[index.value].settings = app
            }
        }
        for index in mapping.removed {
            apps.rows[index.value].isRemoved = true
            parts?.transports.remove(index)
            logger.notice(
                .worker,
                "app removed; its deferred notifications end as invalid if no app has their topic when they return",
                ["app": "\(apps.rows[index.value].name)"])
        }
        eventLog.names = apps.rows.map(\.name)
        parts?.publisher.setApps(apps.recordApps)
        readFeedback()
    }

    /// Replaces an app's credential and connection settings, and ends a deferral that the former credential caused.
    func replace(_ index: AppIndex, with loaded: LoadedApp) {
        apps.replace(index, with: loaded)
        parts?.transports.replace(index, with: loaded)
        machine.credentialReplaced(index, now: now)
    }

    private func logPauses(_ apps: [AppSettings], before: [AppSettings]) {
        for app in apps where app.isPaused != before.contains(where: { $0.name == app.name && $0.isPaused }) {
            logger.notice(
                .worker, app.isPaused ? "app paused" : "app resumed",
                ["app": "\(app.name)"])
        }
    }

    // MARK: Feedback

    /// Updates the apps whose feedback is read. Starts the feedback thread for the first such app. If the thread cannot
    /// be started, the next maintenance run, a second later, tries again.
    func readFeedback() {
        guard !shutdown.isUnderWay, parts != nil else { return }
        let wanted = apps.beginFeedback()
        if feedback == nil, wanted.contains(where: { $0.intervalNs > 0 }) {
            let standings = Mailbox<FeedbackThread.StandingUpdate>(loop: loop, capacity: 4_096) {
                [unowned self] batch in
                for told in batch { apps.show(told) }
            }
            do throws(SystemError) {
                feedback = try FeedbackThread(
                    cluster, topic: configuration.unregistered.topic, logger: logger, standings: standings)
            } catch {
                logger.error(.apns, "cannot start the feedback reader, retrying", ["error": "\(error)"])
            }
        }
        feedback?.set(wanted)
    }
}
