package import Configuration
internal import Delivery
internal import EventLoop
internal import Glibc
internal import HTTPServer
internal import Kafka
package import Observability
internal import PushRecords
internal import Synchronization

/// The worker: Kafka, the machine and the transports put together. One thread calls `run`, which is the core, and
/// touches all of it; `stop` and `progress`, which any thread may call, touch what is atomic or locked. That is what
/// `@unchecked Sendable` stands for.
package final class PushWorker: @unchecked Sendable {
    /// How `run` ended.
    package enum Ending: Sendable, Equatable {
        /// Asked to stop, and stopped in order.
        case stopped
        /// Something that a restart may heal; the line says what.
        case failed(String)
    }

    var configuration: WorkerConfiguration
    let logger: Logger
    let loop: Loop
    var eventLog: EventLog
    let cluster: ClusterSettings
    /// By `AppIndex`; those taken out of the configuration stay in their places.
    var apps: [LoadedApp]
    /// Rung by librdkafka whenever one of its queues has something after it was empty.
    var doorbell: Doorbell?

    var machine: DeliveryMachine
    var deliveryTurn = DeliveryTurn()
    /// What woke the core since the last turn.
    var wakeUps: DeliveryTurn.WakeUps = [.kafka]
    /// What the machine is put together with, from `start` on.
    var groups: ConsumerGroups?
    var transports: AppTransports?
    var publisher: RecordPublisher?
    var removedRetryTopics: RemovedRetryTopics?
    var alarm: Alarm?
    /// Each app's row of the pages; what changes by itself is filled in when a snapshot is made.
    var appRows: [WorkerSnapshot.App]
    /// Numbers by which the machine knows the apps' credentials.
    var credentialNumbers: [AppCredential: Int] = [:]
    var files: ConfiguredFiles
    var stopping: Stopping?
    var ending: Ending?
    let progressBox = Guarded(WorkerProgress())
    var lastProgressNs: Int64 = 0
    var pageState: PageState
    /// What this process died of before.
    private(set) var crashes: CrashHistory
    var lastHousekeepingNs: Int64 = 0
    /// `nil`: no app's feedback was ever to be read.
    var feedback: FeedbackThread?
    var observations = Observations()
    /// False once `run` has ended and something it started has not: the process is to exit without destructors.
    package internal(set) var hasEndedWhole = true
    let stopRequested = Atomic(false)
    /// Of the request topics that are named, when it started.
    private var requestPartitions = 8

    /// Every state has a deadline: whatever hangs, the process ends some 20 s after `drain.shutdown` at the latest.
    enum Stopping {
        case draining(deadlineNs: Int64)
        case flushing(deadlineNs: Int64)
        case closing(deadlineNs: Int64)
    }

    /// The pages are at most so old.
    static let snapshotEveryNs: Int64 = 250_000_000
    /// How long leaving the groups may take after the drain limit, the last commit included (`GroupReader`).
    static let leaveNs: Int64 = 6_000_000_000
    static let flushNs: Int64 = 3_000_000_000
    /// A fence of the binary protocol is waited for 5 s; connections of HTTP/2 have nothing on them by then.
    static let closeNs: Int64 = 6_000_000_000
    /// For threads and clients to end.
    static let dismantleNs: Int64 = 4_000_000_000

    /// - Throws: `StartFailure` when the configuration or a credential cannot be used.
    package init(
        _ configuration: WorkerConfiguration, logger: Logger, crashes: CrashHistory = CrashHistory()
    ) throws(StartFailure) {
        self.configuration = configuration
        self.logger = logger
        self.crashes = crashes
        cluster = try configuration.cluster()
        apps = try LoadedApp.load(configuration.apps)
        eventLog = EventLog(logger: logger, names: configuration.apps.map(\.name))
        appRows = apps.map { WorkerSnapshot.App($0) }
        machine = DeliveryMachine(
            settings: configuration.machineSettings,
            apps: [])
        do {
            loop = try Loop()
        } catch {
            throw StartFailure(["\(error)"])
        }
        files = ConfiguredFiles(loop: loop)
        let startedMs = loop.now.wallMs
        pageState = PageState(
            WorkerSnapshot(
                groupID: configuration.kafka.groupID, startedMs: startedMs, takenMs: startedMs, apps: [],
                tiers: configuration.retry.tiers.map(\.name), counters: machine.counters, gauges: machine.gauges),
            nowNs: loop.now.monotonicNs)
        _ = machine.replaceApps(configuration.apps.map(route), now: now)
        postSnapshot(now)
    }

    /// Asks `run` to drain and end. Any thread; a second call changes nothing.
    package func stop() {
        stopRequested.store(true, ordering: .relaxed)
        loop.perform { [weak self] in self?.beginStopping() }
    }

    /// Any thread.
    package var progress: WorkerProgress { progressBox.withLock { $0 } }

    /// Of the request topics, of the retry topics; none before `start`.
    var readers: [GroupReader] { groups?.readers ?? [] }

    // MARK: Running

    /// Runs the worker on the calling thread until `stop`, or until it cannot go on.
    ///
    /// - Parameters:
    ///   - handlesSignals: SIGTERM and SIGINT stop it in order, a second one ends the process at once.
    ///   - reread: what SIGHUP does.
    /// - Throws: `StartFailure` when Kafka answers and something is missing or unsafe.
    package func run(handlesSignals: Bool = false, reread: Rereading? = nil) throws(StartFailure) -> Ending {
        if handlesSignals {
            do {
                _ = try Signals(
                    [SIGTERM, SIGINT, SIGHUP], stopping: [SIGTERM, SIGINT], loop: loop
                ) { [weak self] signal in
                    guard let self else { return }
                    if signal == SIGHUP { return hangUp(reread) }
                    logger.notice(.worker, "stopping: draining what is in flight")
                    stop()
                }
            } catch {
                throw StartFailure(of: error)
            }
        }
        let pages = try AdminPages.serve(configuration.admin, board: pageState.board)
        defer { dismantle(pages) }
        if let pages, let listen = configuration.admin.listen {
            logger.info(
                .worker, "admin pages", ["address": "\(NetworkAddress(host: listen.host, port: Int(pages.port)))"])
        }
        let watchSeconds = handlesSignals ? StartWatch.limitSeconds : 0
        guard try waitForCluster(watchSeconds) else { return .stopped }
        do {
            try StartWatch.run("the Kafka clients", withinSeconds: watchSeconds) { try start() }
        } catch {
            throw StartFailure(of: error)
        }
        logger.info(
            .worker, "started", ["group": "\(configuration.kafka.groupID)", "apps": .count(apps.count)])
        sayPauses(configuration.apps, before: [])
        if stopRequested.load(ordering: .relaxed) { beginStopping() }
        loop.run()
        return ending ?? .stopped
    }

    /// False: asked to stop meanwhile.
    private func waitForCluster(_ watchSeconds: Int32) throws(StartFailure) -> Bool {
        var readiness = try StartWatch.run(
            "the first Kafka client", withinSeconds: watchSeconds
        ) { () throws(StartFailure) in
            try ClusterReadiness(configuration, cluster)
        }
        while !stopRequested.load(ordering: .relaxed) {
            switch try readiness.attempt(timeoutMs: 2_000) {
            case .ready(let requestPartitions, let denied, let warnings, _):
                for line in denied { logger.warning(.kafka, "permission missing", about: line, ["text": .text(line)]) }
                for line in warnings { logger.warning(.kafka, "topics", about: line, ["text": .text(line)]) }
                self.requestPartitions = requestPartitions
                return true
            case .unreachable(let reason):
                pageState.waitingFor = "Kafka cannot be reached at \(configuration.kafka.bootstrapServers): \(reason)"
                postSnapshot(now)
                logger.warning(
                    .kafka, "cannot reach Kafka; trying again",
                    ["bootstrap_servers": "\(configuration.kafka.bootstrapServers)", "reason": "\(reason)"])
            case .uncreated(let lines):
                pageState.waitingFor = lines.joined(separator: "; ")
                postSnapshot(now)
                for line in lines {
                    logger.warning(.kafka, "topics cannot be made; trying again", about: line, ["text": .text(line)])
                }
            }
            loop.runOnce(timeoutNs: 500_000_000)
            pageState.board.turned(nowNs: loop.now.monotonicNs)
            logger.writeLeftOut()
        }
        return false
    }

    private func start() throws {
        let doorbell = try Doorbell(loop: loop) { [unowned self] in wakeUps.insert(.kafka) }
        self.doorbell = doorbell
        let publisher = try RecordPublisher(
            configuration, apps: recordApps, cluster: cluster, wakeUpDescriptor: doorbell.descriptor, logger: logger)
        do throws(KafkaError) {
            try publisher.warmUp(timeoutMs: 1_500)
        } catch {
            // The topics were just seen: the first record will wait for them instead.
            logger.warning(.kafka, "the producer could not warm up", ["error": "\(error.text)"])
        }
        self.publisher = publisher
        let drainNs = configuration.drain.rebalance.nanoseconds
        let requests = configuration.requestTopics
        let tiers = configuration.retry.tiers
        let requestReader = try GroupReader(
            configuration.consumer(.requests, of: cluster, partitions: requestPartitions),
            topics: requests.map(\.name), drainNs: drainNs,
            wakeUpDescriptor: doorbell.descriptor, logger: logger,
            roleOfTopic: { topic in Self.role(of: topic, among: requests) })
        let retryReader = try GroupReader(
            configuration.consumer(.retries, of: cluster),
            topics: tiers.map(\.topic),
            drainNs: drainNs,
            wakeUpDescriptor: doorbell.descriptor, logger: logger,
            roleOfTopic: { topic in
                .retry(delayMs: tiers.first { $0.topic == topic }?.delay.milliseconds ?? RemovedRetryTopics.delayMs)
            })
        for reader in [requestReader, retryReader] {
            reader.condemned = crashes.condemned
            reader.onAnotherLog = { [unowned self] partition in
                guard crashes.forgetOffsets(topic: partition.topic, partition: partition.partition) else { return }
                CrashContainment.change(crashes)
            }
        }
        let groupID = configuration.kafka.groupID
        let sessionMs = Int(clamping: configuration.kafka.sessionTimeout.milliseconds)
        let groups = ConsumerGroups(
            requests: requestReader, retries: retryReader,
            committers: [
                OffsetCommitter(.requests, name: groupID, sessionMs: sessionMs, logger: logger),
                OffsetCommitter(.retries, name: "\(groupID).retry", sessionMs: sessionMs, logger: logger),
            ],
            publisher: publisher)
        self.groups = groups
        // The last that can fail: it starts a thread.
        let times = TransportTimes(
            responseTimeoutNs: configuration.delivery.responseTimeout.nanoseconds,
            longestWindowNs: configuration.drain.rebalance.nanoseconds)
        transports = try AppTransports(
            apps.count, loop: loop, onWakeUp: { [unowned self] in wakeUps.insert(.transports) },
            onNote: { [unowned self] note, app, isReminder in
                eventLog.write(note, of: app, isReminder: isReminder)
            },
            start: { [logger] events in
                try TransportLink(
                    apps, times: times, tracesFrames: { logger.writes(.trace, of: .apns) }, events: events)
            })
        for reader in groups.readers {
            reader.onSkipped = { [unowned self] in observations.lostRecords.note($0, offsets: $1, nowNs: now.ns) }
            reader.onAssignment = { [unowned self] in removedRetryTopics?.look() }
        }
        lookForRemovedRetryTopics(retryReader)
        watchFiles()
        readFeedback()
        observations.startedNs = loop.now.monotonicNs
        pageState.waitingFor = ""
        alarm = Alarm(loop: loop) { [unowned self] in wakeUps.insert(.time) }
        loop.onTurnEnd { [unowned self] in turn() }
    }

    private func lookForRemovedRetryTopics(_ retries: GroupReader) {
        let tiers = configuration.retry.tiers.map(\.topic)
        let removed = RemovedRetryTopics(
            configuration, cluster, loop: loop, logger: logger,
            onChange: { [unowned self, unowned retries] topics in
                if stopping == nil { retries.subscribe(to: tiers + topics, now: now) }
            },
            onTopics: { [unowned self] topics in
                for reader in readers { reader.exist(topics) }
            })
        removed.look()
        removedRetryTopics = removed
    }

    /// A topic has the weight and app of the entry with its own name, else of the first pattern that fits it.
    private static func role(of topic: String, among entries: [RequestTopic]) -> PartitionRole {
        let entry = entries.first { $0.name == topic } ?? entries.first { !$0.matching([topic]).isEmpty }
        return .requests(weight: entry?.weight ?? 1, app: entry?.app)
    }
}
