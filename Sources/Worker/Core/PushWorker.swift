package import Configuration
internal import Delivery
internal import EventLoop
internal import Glibc
internal import Kafka
package import Observability
internal import PushRecords
internal import Synchronization

/// The worker: Kafka, the machine and the transports put together. One thread calls `run`, which is the core.
package final class PushWorker: @unchecked Sendable {
    /// How `run` ended.
    package enum Ending: Sendable, Equatable {
        /// Asked to stop, and stopped in order.
        case stopped
        /// Something that a restart may heal; the line says what.
        case failed(String)
    }

    private let configuration: WorkerConfiguration
    private let logger: Logger
    private let loop: Loop
    private let eventLog: EventLog
    private let cluster: ClusterSettings
    private let apps: [LoadedApp]
    /// Rung by librdkafka whenever one of its queues has something after it was empty.
    private var doorbell: Doorbell?

    private var machine: DeliveryMachine
    private var publisher: RecordPublisher?
    private var readers: [GroupReader] = []
    private let committer: OffsetCommitter
    private var link: TransportLink?
    private var alarm: Alarm?
    private var hasKafkaNews = true
    private var lastServedNs: Int64 = 0
    private var connectionsByApp: [Int]
    private var closedApps = 0
    private var stopping: Stopping?
    private var ending: Ending?
    private let progressBox = Mutex(WorkerProgress())
    private var lastProgressNs: Int64 = 0
    private var lastHousekeepingNs: Int64 = 0
    private var unreachable: [Int: TransportNote] = [:]
    private let stopRequested = Atomic(false)

    private enum Stopping {
        case draining
        case flushing(deadlineNs: Int64)
        case closing(deadlineNs: Int64)
    }

    /// Kafka is served at least this often, events or not (`max.poll.interval.ms`).
    private static let serveEveryNs: Int64 = 500_000_000
    private static let flushNs: Int64 = 5_000_000_000
    private static let closeNs: Int64 = 2_000_000_000

    /// - Throws: `StartFailure` when the configuration or a credential cannot be used.
    package init(_ configuration: WorkerConfiguration, logger: Logger) throws(StartFailure) {
        self.configuration = configuration
        self.logger = logger
        cluster = try configuration.cluster()
        apps = try LoadedApp.load(configuration.apps)
        eventLog = EventLog(logger: logger, apps: configuration.apps)
        committer = OffsetCommitter(logger: logger)
        connectionsByApp = Array(repeating: 0, count: configuration.apps.count)
        machine = DeliveryMachine(
            settings: configuration.machineSettings,
            apps: configuration.apps.map {
                AppRoute(name: $0.name, environment: $0.environment, bundleIDs: $0.bundleIDs)
            })
        do {
            loop = try Loop()
        } catch {
            throw StartFailure(["\(error)"])
        }
    }

    /// Asks `run` to drain and end. Any thread; a second call changes nothing.
    package func stop() {
        stopRequested.store(true, ordering: .relaxed)
        loop.perform { [weak self] in self?.beginStopping() }
    }

    /// Any thread.
    package var progress: WorkerProgress { progressBox.withLock { $0 } }

    // MARK: Running

    /// Runs the worker on the calling thread until `stop`, or until it cannot go on.
    ///
    /// - Parameter handlesSignals: SIGTERM and SIGINT stop it in order, a second one ends the process at once.
    /// - Throws: `StartFailure` when Kafka answers and something is missing or unsafe.
    package func run(handlesSignals: Bool = false) throws(StartFailure) -> Ending {
        var signals: Signals?
        if handlesSignals {
            do {
                signals = try Signals([SIGTERM, SIGINT], loop: loop) { [unowned self] signal in
                    guard !stopRequested.load(ordering: .relaxed) else { _exit(128 + signal) }
                    logger.notice(.worker, "stopping: draining what is in flight")
                    stop()
                }
            } catch {
                throw StartFailure(["\(error)"])
            }
        }
        defer { withExtendedLifetime(signals) {} }
        guard try waitForCluster() else { return .stopped }
        do {
            try start()
        } catch {
            throw StartFailure(["\(error)"])
        }
        logger.info(
            .worker, "started", ["group": "\(configuration.kafka.groupID)", "apps": .count(apps.count)])
        if stopRequested.load(ordering: .relaxed) { beginStopping() }
        loop.run()
        link?.stop()
        link = nil
        logger.writeLeftOut(all: true)
        logger.info(.worker, "stopped")
        return ending ?? .stopped
    }

    /// False: asked to stop meanwhile.
    private func waitForCluster() throws(StartFailure) -> Bool {
        let readiness = try ClusterReadiness(configuration, cluster)
        while !stopRequested.load(ordering: .relaxed) {
            switch try readiness.attempt(timeoutMs: 2_000) {
            case .ready: return true
            case .unreachable(let reason):
                logger.warning(
                    .kafka, "cannot reach Kafka; trying again",
                    ["bootstrap_servers": "\(configuration.kafka.bootstrapServers)", "reason": "\(reason)"])
            }
            loop.runOnce(timeoutNs: 500_000_000)
            logger.writeLeftOut()
        }
        return false
    }

    private func start() throws {
        let doorbell = try Doorbell(loop: loop) { [unowned self] in hasKafkaNews = true }
        self.doorbell = doorbell
        let publisher = try RecordPublisher(
            configuration, cluster: cluster, wakeUpDescriptor: doorbell.descriptor, logger: logger)
        try publisher.warmUp(timeoutMs: 10_000)
        self.publisher = publisher
        let events = Mailbox<TransportEvent>(loop: loop) { [unowned self] batch in
            for event in batch { take(event) }
        }
        link = try TransportLink(
            apps, responseTimeoutNs: configuration.delivery.responseTimeout.nanoseconds, events: events)
        let drainNs = configuration.drain.rebalance.nanoseconds
        let requests = configuration.requestTopics
        let tiers = configuration.retry.tiers
        readers = [
            try GroupReader(
                configuration.consumer(.requests, of: cluster), topics: requests.map(\.name), drainNs: drainNs,
                wakeUpDescriptor: doorbell.descriptor, logger: logger,
                roleOfTopic: { topic in .requests(weight: Self.weight(of: topic, among: requests)) }),
            try GroupReader(
                configuration.consumer(.retries, of: cluster), topics: tiers.map(\.topic), drainNs: drainNs,
                wakeUpDescriptor: doorbell.descriptor, logger: logger,
                roleOfTopic: { topic in
                    .retry(delayMs: tiers.first { $0.topic == topic }?.delay.milliseconds ?? 0)
                }),
        ]
        alarm = Alarm(loop: loop) {}
        loop.onTurnEnd { [unowned self] in turn() }
    }

    /// A topic has the weight of the entry with its own name, else of the first pattern, as far as one can tell here.
    private static func weight(of topic: String, among entries: [RequestTopic]) -> Int {
        (entries.first { $0.name == topic } ?? entries.first(where: \.isPattern))?.weight ?? 1
    }

    // MARK: A turn

    /// Both clocks, as the loop read them this turn.
    private var now: DeliveryTime { DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs) }

    private func turn() {
        guard let publisher, let link else { return }
        let now = now
        machine.advance(now: now)
        if hasKafkaNews || now.ns - lastServedNs >= Self.serveEveryNs || stopping != nil {
            hasKafkaNews = false
            lastServedNs = now.ns
            for (index, reader) in readers.enumerated() {
                reader.markReadable()
                reader.serve(&machine, now: now) { reply, machine in
                    committer.take(reply, readerIndex: index, &machine, now: now)
                }
                if let error = reader.fatalError { return fail("Kafka: \(error.text)") }
            }
            publisher.serve(&machine, now: now)
        }
        var hasMore = false
        if stopping == nil, !publisher.isBackedUp {
            for reader in readers {
                let more = reader.read(into: &machine, now: now) { message, place, id, reason, detail in
                    publisher.publishDeadLetter(
                        of: message, at: place, id: id, reason: reason, detail: detail, now: now)
                }
                if more { hasMore = true }
            }
        }
        machine.sends(now: now) { app, requests in link.post(app, .send(requests)) }
        machine.recalls { app, requests in link.post(app, .recall(requests)) }
        publisher.publish(&machine, now: now)
        committer.commit(&machine, readers: readers, now: now)
        for event in machine.takeEvents() { eventLog.write(event, partitionName: name(of:)) }
        moveStopping(now)
        publishProgress(now)
        keepHouse(now)
        setAlarm(now)
        if hasMore { loop.wantAnotherTurn() }
    }

    private func name(of id: PartitionID) -> String {
        for reader in readers {
            if let partition = reader.partition(of: id) { return partition.description }
        }
        return "a partition given up"
    }

    private func setAlarm(_ now: DeliveryTime) {
        var deadlineNs = now.ns + Self.serveEveryNs
        if let next = machine.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        if let next = publisher?.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        for reader in readers {
            if let next = reader.nextDeadlineNs(now: now) { deadlineNs = min(deadlineNs, next) }
        }
        alarm?.set(atNs: max(deadlineNs, now.ns + 1))
    }

    private func take(_ event: TransportEvent) {
        switch event {
        case .fates(let batch): machine.handle(batch, now: now)
        case .capacity(let app, let requests):
            machine.setCapacity(app, requests: requests)
            if requests > 0 { unreachable[app.value] = nil }
        case .note(let app, let note):
            switch note {
            case .connected: connectionsByApp[app.value] += 1
            case .disconnected: connectionsByApp[app.value] -= 1
            case .connectFailed: unreachable[app.value] = note
            case .goAway, .providerTokenRenewed, .credentialFault, .warning: break
            }
            eventLog.write(note, of: app)
        case .closed: closedApps += 1
        }
    }

    /// Once a second: lines that were left out, and who still cannot be reached.
    private func keepHouse(_ now: DeliveryTime) {
        guard now.ns - lastHousekeepingNs >= 1_000_000_000 else { return }
        lastHousekeepingNs = now.ns
        for (app, note) in unreachable { eventLog.write(note, of: AppIndex(app)) }
        logger.writeLeftOut()
    }

    private func publishProgress(_ now: DeliveryTime) {
        guard now.ns - lastProgressNs >= 50_000_000 || stopping != nil else { return }
        lastProgressNs = now.ns
        let gauges = machine.gauges
        let connections = connectionsByApp.reduce(0, +)
        let hasJoined = readers.allSatisfy(\.hasJoined)
        progressBox.withLock {
            $0.inFlight = gauges.inFlight.reduce(0, +)
            $0.connections = connections
            $0.hasJoined = hasJoined
        }
    }

    // MARK: Stopping

    private func beginStopping() {
        guard stopping == nil, publisher != nil else { return }
        stopping = .draining
        for reader in readers {
            reader.leave(&machine, limitNs: configuration.drain.shutdown.nanoseconds, now: now)
        }
    }

    private func moveStopping(_ now: DeliveryTime) {
        switch stopping {
        case nil: return
        case .draining:
            guard readers.allSatisfy(\.hasLeft) else { break }
            stopping = .flushing(deadlineNs: now.ns + Self.flushNs)
        case .flushing(let deadlineNs):
            guard publisher?.isIdle == true || now.ns >= deadlineNs else { break }
            for app in apps.indices { link?.post(AppIndex(app), .close) }
            stopping = .closing(deadlineNs: now.ns + Self.closeNs)
        case .closing(let deadlineNs):
            guard closedApps == apps.count || now.ns >= deadlineNs else { break }
            loop.stop()
        }
        // What remains is waited for in short steps: leaving a group has no event of its own.
        loop.schedule(afterNs: 5_000_000) {}
    }

    private func fail(_ reason: String) {
        logger.error(.worker, "cannot go on", ["reason": "\(reason)"])
        ending = .failed(reason)
        loop.stop()
    }
}
