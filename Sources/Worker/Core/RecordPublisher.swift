internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Writes what the machine wants produced, and brings the acknowledgements back. Core thread.
///
/// A record that could not be written is written again, from its own bytes, until it is: a failed report never settles.
final class RecordPublisher {
    private let producer: Producer
    /// For what was refused as too large: among others in a batch that may have been another's fault. Made when it is
    /// needed, with the same topics.
    private var lonely: Producer?
    private let cluster: ClusterSettings
    private let wakeUpDescriptor: Int32
    private let topicNames: [String]
    private let logger: Logger
    private let results: ProducerTopic
    private let unregistered: ProducerTopic
    private let deadLetters: ProducerTopic
    private let tiers: [ProducerTopic]
    private var resultWriter: ResultWriter
    private var unregisteredWriter: UnregisteredWriter
    private var retryWriter: RetryWriter
    private var deadLetterWriter = DeadLetterWriter()
    private var headers: [RecordHeader] = []
    /// Records to be written again, and when (monotonic).
    private var undelivered: [(record: UndeliveredRecord, dueNs: Int64, alone: Bool)] = []
    private var mustRebuild = false
    private var mustRebuildLonely = false
    /// Two records a notification that may be open; beyond that they are of assignments that are gone.
    private let outstandingLimit: Int

    /// How long a record that was refused waits before it is written again.
    private static let backOffNs: Int64 = 1_000_000_000
    /// Above this many bytes in dead letters and refused records, reading stops until they are written.
    private static let undeliveredLimit = 100

    init(
        _ configuration: WorkerConfiguration, apps: [RecordApp], cluster: ClusterSettings, wakeUpDescriptor: Int32,
        logger: Logger
    ) throws(KafkaError) {
        self.logger = logger
        self.cluster = cluster
        self.wakeUpDescriptor = wakeUpDescriptor
        outstandingLimit = 2 * configuration.delivery.maxOpen
        topicNames =
            [configuration.results.topic, configuration.unregistered.topic, configuration.deadLetters.topic]
            + configuration.retry.tiers.map(\.topic)
        producer = try Producer(ProducerSettings(cluster: cluster), wakeUpDescriptor: wakeUpDescriptor)
        results = try producer.topic(configuration.results.topic)
        unregistered = try producer.topic(configuration.unregistered.topic)
        deadLetters = try producer.topic(configuration.deadLetters.topic)
        var tiers: [ProducerTopic] = []
        for tier in configuration.retry.tiers { tiers.append(try producer.topic(tier.topic)) }
        self.tiers = tiers
        resultWriter = ResultWriter(apps: apps)
        unregisteredWriter = UnregisteredWriter(apps: apps)
        retryWriter = RetryWriter(apps: apps)
    }

    /// The apps that records name from now on, by `AppIndex`.
    func setApps(_ apps: [RecordApp]) {
        resultWriter = ResultWriter(apps: apps)
        unregisteredWriter = UnregisteredWriter(apps: apps)
        retryWriter = RetryWriter(apps: apps)
    }

    /// Fetches the topics' metadata, so that the first result does not wait for it.
    func warmUp(timeoutMs: Int32) throws(KafkaError) { try producer.warmUp(timeoutMs: timeoutMs) }

    /// True while nothing more should be read: what was refused, and what partitions that were lost in an outage left in
    /// the producer, has to be written first.
    var isBackedUp: Bool {
        undelivered.count >= Self.undeliveredLimit || producer.outstanding >= outstandingLimit
    }

    /// Whether everything handed over was acknowledged.
    var isIdle: Bool { undelivered.isEmpty && unacknowledgedCount == 0 }

    /// Handed over and not acknowledged.
    var unacknowledgedCount: Int { producer.outstanding + (lonely?.outstanding ?? 0) }

    /// Refused by Kafka, to be written again.
    var refusedCount: Int { undelivered.count }

    // MARK: Writing

    /// Produces what the machine has, until it has no more or the producer's queue is full.
    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        publish(.results, of: &machine, now)
        publish(.unregistered, of: &machine, now)
        for tier in tiers.indices { publish(.retry(tier: tier), of: &machine, now) }
    }

    private func publish(_ target: ProductionTarget, of machine: inout DeliveryMachine, _ now: DeliveryTime) {
        while let production = machine.nextProduction(for: target) {
            let code =
                switch production.kind {
                case .result:
                    machine.withResult(production.id, now: now) { content, ending in
                        produce(resultWriter.write(content, ending), to: results, production.id)
                    }
                case .unregistered:
                    machine.withResult(production.id, now: now) { content, ending in
                        produce(unregisteredWriter.write(content, ending), to: unregistered, production.id)
                    }
                case .retry(let tier):
                    machine.withRetry(production.id) { content, order in
                        produce(retryWriter.write(content, order), to: tiers[tier], production.id)
                    }
                }
            guard isTaken(code) else { return }
            machine.produced(production)
        }
    }

    /// Produces a record that no notification can be read from, as it is, before its bytes are given back.
    func publishDeadLetter(
        of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
        detail: Detail, now: DeliveryTime
    ) {
        headers.removeAll(keepingCapacity: true)
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        headers.withUnsafeBufferPointer { original in
            let all = deadLetterWriter.headers(
                original: original, place: place, timestampMs: message.timestampMs, reason: reason, detail: detail)
            let record = EncodedRecord(key: message.key, value: message.value, headers: all)
            let code = produce(record, to: deadLetters, id)
            // Too large for the producer itself: no report will come, it goes without its value at once.
            guard code == .messageTooLarge || !isTaken(code) else { return }
            rewrite(
                UndeliveredRecord(
                    copying: record.key, record.value, headers: record.headers.asMessageHeaders, to: deadLetters,
                    tag: id.tag, code: code), wasAlone: true, now: now)
        }
    }

    private func produce(_ record: EncodedRecord, to topic: ProducerTopic, _ id: NotificationID) -> KafkaCode {
        producer.produce(
            to: topic, key: record.key, value: record.value, headers: record.headers.asMessageHeaders, tag: id.tag)
    }

    private func isTaken(_ code: KafkaCode) -> Bool {
        switch code {
        case .none:
            return true
        case .queueFull:
            return false
        case .fatal:
            mustRebuild = true
            return false
        default:
            logger.error(.kafka, "cannot produce; trying again", about: code.name, ["error": "\(code.text)"])
            return false
        }
    }

    // MARK: Acknowledgements

    /// Brings reports to the machine, and writes again what is due. Call after every wake-up and once a second.
    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        producer.serve(
            report: { report in take(report, wasAlone: false, &machine, now) },
            event: { event in take(event, isFatal: &mustRebuild) })
        lonely?.serve(
            report: { report in take(report, wasAlone: true, &machine, now) },
            event: { event in take(event, isFatal: &mustRebuildLonely) })
        if mustRebuild { mustRebuild = !rebuild(producer, wasAlone: false, &machine, now) }
        if mustRebuildLonely, let lonely {
            mustRebuildLonely = !rebuild(lonely, wasAlone: true, &machine, now)
        }
        writeAgain(now)
    }

    private func take(
        _ report: borrowing DeliveryReport, wasAlone: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        guard report.code != .none else {
            machine.acknowledged(NotificationID(tag: report.tag), now: now)
            return
        }
        let isPurged = report.code == .purgedInQueue || report.code == .purgedInFlight
        if !isPurged {
            logger.error(
                .kafka, "a record could not be written; writing it again",
                about: "\(producer.name(of: report.topic)) \(report.code.name)",
                ["topic": "\(producer.name(of: report.topic))", "error": "\(report.code.text)"])
        }
        let record = report.detach()
        // It may be there twice then, and be sent twice: the second one says so.
        if report.code == .purgedInFlight, tiers.contains(record.topic) {
            record.raiseHeader("push-retry-sends")
            record.raiseHeader("push-retry-in-doubt")
        }
        rewrite(record, wasAlone: wasAlone, now: now)
    }

    private func rewrite(_ record: UndeliveredRecord, wasAlone: Bool, now: DeliveryTime) {
        let isPurged = record.code == .purgedInQueue || record.code == .purgedInFlight
        if record.code == .messageTooLarge, !wasAlone {
            undelivered.append((record, now.ns, alone: true))
        } else if record.code == .messageTooLarge, record.topic == deadLetters, record.value != nil {
            let bytes = record.dropValue()
            record.addHeader("push-dlq-truncated", "\(bytes)")
            undelivered.append((record, now.ns, alone: true))
        } else {
            undelivered.append((record, isPurged ? now.ns : now.ns + Self.backOffNs, alone: wasAlone))
        }
    }

    private func producerForOne() -> Producer? {
        if let lonely { return lonely }
        do throws(KafkaError) {
            let made = try Producer(
                ProducerSettings(cluster: cluster, sendsEachAlone: true), wakeUpDescriptor: wakeUpDescriptor)
            // In the order of the other's, so that a record's topic names the same here.
            for name in topicNames { _ = try made.topic(name) }
            lonely = made
        } catch {
            logger.error(.kafka, "cannot make a producer; trying again", ["error": "\(error.text)"])
        }
        return lonely
    }

    private func writeAgain(_ now: DeliveryTime) {
        guard !undelivered.isEmpty else { return }
        var isFull = false
        undelivered.removeAll { entry in
            guard !isFull, entry.dueNs <= now.ns else { return false }
            guard entry.alone else {
                isFull = !isTaken(producer.produce(entry.record))
                return !isFull
            }
            guard let lonely = producerForOne() else { return false }
            switch lonely.produce(entry.record) {
            case .none: return true
            case .fatal: mustRebuildLonely = true
            default: break
            }
            return false
        }
    }

    /// When something is to be written again (monotonic); `nil`: nothing is.
    var nextDeadlineNs: Int64? { undelivered.map(\.dueNs).min() }

    private func take(_ event: ClientEvent, isFatal: inout Bool) {
        switch event {
        case .fatal(let error):
            isFatal = true
            logger.error(.kafka, "the producer met a fatal error; making a new one", ["error": "\(error.text)"])
        case .error, .log, .statistics:
            EventLog.write(event, of: "producer", to: logger)
        }
    }

    private func rebuild(
        _ producer: Producer, wasAlone: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) -> Bool {
        do throws(KafkaError) {
            try producer.rebuild(
                report: { report in take(report, wasAlone: wasAlone, &machine, now) },
                event: { _ in })
            return true
        } catch {
            logger.error(.kafka, "cannot make a new producer; trying again", ["error": "\(error.text)"])
            return false
        }
    }
}

extension UnsafeBufferPointer<RecordHeader> {
    /// The same headers as the Kafka module names them: both are a pair of lent ranges.
    var asMessageHeaders: UnsafeBufferPointer<MessageHeader> {
        UnsafeBufferPointer<MessageHeader>(
            start: UnsafeRawPointer(baseAddress)?.assumingMemoryBound(to: MessageHeader.self), count: count)
    }
}
