internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Produces the delivery machine's records to Kafka, and passes Kafka's acknowledgements to the machine. Core thread.
///
/// The publisher produces a record again until Kafka has written the record or its replacement: a failed delivery
/// report never settles a notification. Refused records wait in their `TargetTopic`, and a second producer produces
/// them: after a refusal, librdkafka drains an idempotent producer and begins a new epoch, which pauses all topics of
/// that producer.
final class RecordPublisher: RecordSink, DeadLetterSink {
    let producer: Producer
    /// The producer of refused records, with one record per batch. Created on demand, with the topics of `producer`.
    private var single: Producer?
    private let cluster: ClusterSettings
    private let wakeUpDescriptor: Int32
    private let logger: Logger
    /// The state of each output topic, by `ProducerTopic.index`.
    private var targets: [TargetTopic] = []
    let results: ProducerTopic
    private let unregistered: ProducerTopic
    let deadLetters: ProducerTopic
    let tiers: [ProducerTopic]
    // Each encoded record is produced before the next is encoded, so accesses to the writers never overlap.
    @exclusivity(unchecked) private var resultWriter: ResultWriter
    @exclusivity(unchecked) private var unregisteredWriter: UnregisteredWriter
    @exclusivity(unchecked) private var retryWriter: RetryWriter
    private var deadLetterWriter = DeadLetterWriter()
    private let groupID: String
    private var headers: [RecordHeader] = []
    private var inFlightDeadLetters = InFlightDeadLetters()
    private(set) var brokers = BrokerHealth()
    private var health = ProducerHealth()
    private var singleHealth = ProducerHealth()
    /// The number of unacknowledged records at which reading pauses: two for each notification that may be open. More
    /// records can only come from earlier assignments.
    private let outstandingLimit: Int

    init(
        _ configuration: WorkerConfiguration, apps: [RecordApp], cluster: ClusterSettings, wakeUpDescriptor: Int32,
        logger: Logger
    ) throws(KafkaError) {
        self.logger = logger
        self.cluster = cluster
        self.wakeUpDescriptor = wakeUpDescriptor
        groupID = configuration.kafka.groupID
        outstandingLimit = 2 * configuration.delivery.maxOpen
        producer = try Producer(
            ProducerSettings(cluster: configuration.ofWorker(cluster)), wakeUpDescriptor: wakeUpDescriptor)
        results = try producer.topic(configuration.results.topic)
        unregistered = try producer.topic(configuration.unregistered.topic)
        deadLetters = try producer.topic(configuration.deadLetters.topic)
        var tiers: [ProducerTopic] = []
        for tier in configuration.retry.tiers { tiers.append(try producer.topic(tier.topic)) }
        self.tiers = tiers
        targets = producer.topicNames.map { TargetTopic($0) }
        resultWriter = ResultWriter(apps: apps)
        unregisteredWriter = UnregisteredWriter(apps: apps)
        retryWriter = RetryWriter(apps: apps, group: groupID)
    }

    /// Sets the names and environments of the apps, by `AppIndex`, for output records.
    func setApps(_ apps: [RecordApp]) {
        resultWriter = ResultWriter(apps: apps)
        unregisteredWriter = UnregisteredWriter(apps: apps)
        retryWriter = RetryWriter(apps: apps, group: groupID)
    }

    // MARK: State

    /// Whether reading should pause until Kafka has acknowledged records of lost partitions.
    var isBackedUp: Bool { producer.outstanding >= outstandingLimit }

    var isIdle: Bool { unacknowledgedCount == 0 && targets.allSatisfy(\.isIdle) }

    /// The number of records that the producers have accepted and Kafka has not acknowledged.
    var unacknowledgedCount: Int { producer.outstanding + (single?.outstanding ?? 0) }

    var refusedCount: Int { targets.reduce(0) { $0 + $1.refusedCount } }

    /// Returns the topics' counts, without those that are 0.
    func counts(_ count: KeyPath<TargetTopic, Int>) -> WorkerSnapshot.TopicCounts {
        targets.filter { $0[keyPath: count] > 0 }.map { ($0.name, $0[keyPath: count]) }
    }

    func problems(nowNs: Int64) -> [Problem] {
        targets.compactMap { target in
            if let code = target.cause?.code ?? target.causeOfSingle?.code {
                let isClosed = target.cause != nil || target.causeOfSingle?.refusesAll == true
                return Problem(
                    .topic(target.name), isClosed ? .writing : .refusingSingle, code, Advice.writing(target.name, code))
            }
            // librdkafka retries records without a limit, and logs the reason only at debug level.
            guard target.acknowledgements.isOverdue(nowNs: nowNs) else { return nil }
            return Problem(
                .topic(target.name), .unacknowledged, .timedOut,
                "check the brokers' logs and the replicas of topic \(target.name): a partition with fewer replicas in "
                    + "sync than min.insync.replicas accepts no records; no record is lost meanwhile")
        }
    }

    private func topic(of target: ProductionTarget) -> ProducerTopic {
        switch target {
        case .results: results
        case .unregistered: unregistered
        case .deadLetters: deadLetters
        case .retry(let tier): tiers[tier]
        }
    }

    // MARK: Writing

    /// Produces the machine's records for writable topics, until none are left or the producer's queue is full.
    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        publish(.results, of: &machine, now)
        publish(.unregistered, of: &machine, now)
        for tier in tiers.indices { publish(.retry(tier: tier), of: &machine, now) }
        notifyOpen(&machine, now)
    }

    private func publish(_ target: ProductionTarget, of machine: inout DeliveryMachine, _ now: DeliveryTime) {
        let topic = topic(of: target)
        while targets[topic.index].isOpen, let id = machine.nextProduction(for: target) {
            let isTaken =
                switch target {
                case .results:
                    machine.withResult(id, now: now) { content, ending in
                        hand(resultWriter.write(content, ending), to: topic, id, now)
                    }
                case .unregistered:
                    machine.withResult(id, now: now) { content, ending in
                        hand(unregisteredWriter.write(content, ending), to: topic, id, now)
                    }
                case .retry:
                    machine.withRetry(id) { content, order in
                        hand(retryWriter.write(content, order), to: topic, id, now)
                    }
                case .deadLetters: preconditionFailure("dead letters must be published by publishDeadLetter")
                }
            guard isTaken else { return }
            machine.produced(id, to: target)
        }
    }

    var deadLetterBudget: Int { inFlightDeadLetters.budget }

    func publishDeadLetter(
        of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
        detail: Detail, now: DeliveryTime
    ) {
        headers.removeAll(keepingCapacity: true)
        message.forEachHeader { name, value in headers.append(RecordHeader(name: name, value: value)) }
        headers.withUnsafeBufferPointer { original in
            inFlightDeadLetters.add(
                id.tag, bytes: AdmissionBudget.letterBytes(message.key, message.value, original))
            let all = deadLetterWriter.headers(
                original: original, place: place, timestampMs: message.timestampMs, reason: reason, detail: detail)
            hand(
                EncodedRecord(key: message.key, value: message.value, headers: all), to: deadLetters, id, isKept: true,
                now)
        }
    }

    /// Passes a record to the producer. If the producer rejects the record, keeps a copy, which is produced again
    /// later.
    ///
    /// - Parameter isKept: Whether to keep a copy also if the topic is closed, the queue is full or the producer has
    ///   failed, because no other copy exists.
    /// - Returns: False if the producer did not accept the record and no copy was kept.
    @inline(__always) @discardableResult
    private func hand(
        _ record: EncodedRecord, to topic: ProducerTopic, _ id: NotificationID, isKept: Bool = false,
        _ now: DeliveryTime
    ) -> Bool {
        var code = KafkaCode.queueFull
        if targets[topic.index].isOpen {
            code = producer.produce(
                to: topic, key: record.key, value: record.value, headers: record.headers.asMessageHeaders, tag: id.tag)
            if code == .none {
                targets[topic.index].acknowledgements.handedOver(nowNs: now.ns)
                return true
            }
            if code == .fatal { health.noteFatal() }
        }
        let isRefused = code != .queueFull && code != .fatal
        guard isRefused || isKept else { return false }
        let kept = UndeliveredRecord(
            copying: record.key, record.value, headers: record.headers.asMessageHeaders, to: topic, tag: id.tag)
        if isRefused {
            refuse(kept, code, now)
        } else {
            targets[topic.index].take(kept, .together)
        }
        return true
    }

    private func refuse(_ record: UndeliveredRecord, _ code: KafkaCode, _ now: DeliveryTime) {
        targets[record.topic.index].take(record, .alone)
        if code.fault == .topic { targets[record.topic.index].close(code, nowNs: now.ns) }
    }

    private func notifyOpen(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        for index in targets.indices where targets[index].isOpen != targets[index].isKnownOpen {
            targets[index].isKnownOpen.toggle()
            for target in [.results, .unregistered, .deadLetters] + tiers.indices.map(ProductionTarget.retry)
            where topic(of: target).index == index {
                machine.setWritable(target, targets[index].isKnownOpen, now: now)
            }
            if targets[index].isOpen {
                logger.info(.kafka, "topic is writable again", ["topic": "\(targets[index].name)"])
            }
        }
    }

    // MARK: Acknowledgements

    /// Passes delivery reports to the machine, and produces refused records again when due. Call it after every
    /// wake-up, once a second, and at `nextDeadlineNs`.
    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        health.serve(producer, of: "producer", nowNs: now.ns, logger) {
            take($0, wasSingle: false, &machine, now)
        } event: {
            if case .statistics(let text) = $0 { brokers.take(text) }
        }
        if let single {
            singleHealth.serve(single, of: "producer", nowNs: now.ns, logger) {
                take($0, wasSingle: true, &machine, now)
            }
        }
        for index in targets.indices { writeAgain(index, now) }
        notifyOpen(&machine, now)
    }

    private func take(
        _ report: borrowing DeliveryReport, wasSingle: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        let (index, code) = (report.topic.index, report.code)
        targets[index].acknowledgements.reported(nowNs: now.ns)
        guard code != .none else {
            targets[index].written(wasSingle ? report.tag : nil)
            if report.topic == deadLetters {
                inFlightDeadLetters.acknowledged(report.tag)
            } else if report.topic != results, tiers.contains(report.topic) {
                machine.compareClock(storedMs: report.storedMs, latencyMs: report.latencyMs, now: now)
            }
            machine.acknowledged(NotificationID(tag: report.tag), now: now)
            return
        }
        let partition = report.partition
        let record = report.detach()
        // If Kafka has written the first copy, the retry record exists twice, and its notification may be sent twice.
        // The second copy is marked in doubt.
        if record.mayBeWritten, tiers.contains(record.topic) {
            record.raiseHeader("push-retry-sends", limit: Int64(RecordLimits.count))
            record.raiseHeader("push-retry-in-doubt", limit: Int64(RecordLimits.count))
        }
        if code == .inconsistent {
            logger.warning(
                .kafka, "a record was acknowledged without an offset and is written again; it may exist twice",
                about: targets[index].name, ["topic": "\(targets[index].name)"])
        }
        if wasSingle, let form = targets[index].form(of: record.tag) {
            if code.isPurged { return targets[index].writeAgain(record) }
            refuseAlone(record, form, code, partition: partition, now)
        } else if code.isPurged {
            targets[index].take(record, .together)
        } else {
            refuse(record, code, now)
        }
    }

    /// Handles a refusal of a record that was alone in its batch: the record or a replacement is produced later.
    ///
    /// - Parameter partition: The partition whose leader refused the record, or a negative number if the record was not
    ///   sent to a broker.
    private func refuseAlone(
        _ record: UndeliveredRecord, _ form: TargetTopic.Form, _ code: KafkaCode, partition: Int32, _ now: DeliveryTime
    ) {
        let index = record.topic.index
        let name = targets[index].name
        let isReplaceable = record.topic != deadLetters || form < .reduced
        if code == .messageTooLarge, form == .alone {
            targets[index].tooLargeCount += 1
            if targets[index].tooLargeCount == 1 {
                logger.warning(
                    .kafka, "record too large for its topic, writing a reduced one; further ones are only counted",
                    about: name, ["topic": "\(name)", "advice": "raise the topic's max.message.bytes"])
            }
        }
        if code != .messageTooLarge || !isReplaceable {
            let isGivenUp = targets[index].refused(
                record, code, partition: partition, isReplaceable: isReplaceable, nowNs: now.ns)
            guard isGivenUp else { return }
            logger.warning(
                .kafka, "record refused by its topic, writing a replacement",
                about: name,
                ["topic": "\(name)", "error": "\(code)", "advice": "\(Advice.writing(name, code))"])
        }
        let other = replacement(of: record, form, because: code, nowMs: now.wallMs)
        if other.topic == record.topic {
            targets[index].writeAgain(other, isReduced: true)
        } else {
            targets[index].remove(record.tag)
            targets[other.topic.index].take(other, .alone)
        }
    }

    private func writeAgain(_ index: Int, _ now: DeliveryTime) {
        while let (refused, isSingle) = targets[index].next(nowNs: now.ns) {
            let record = refused.record
            let writer: Producer
            do throws(KafkaError) {
                writer = isSingle ? try singleProducer() : producer
            } catch {
                logger.error(.kafka, "producer cannot be created, retrying", ["error": "\(error.text)"])
                targets[index].putBack(refused, nowNs: now.ns)
                return targets[index].close(error.code, nowNs: now.ns)
            }
            let code = writer.produce(record)
            switch code {
            case .none:
                targets[index].acknowledgements.handedOver(nowNs: now.ns)
                targets[index].wrote(refused, isSingle: isSingle, nowNs: now.ns)
            case .messageTooLarge:
                // librdkafka itself refused the record. Handle it as if a broker had refused it alone in its batch.
                targets[index].wrote(refused, isSingle: true, nowNs: now.ns)
                refuseAlone(record, max(refused.form, .alone), code, partition: -1, now)
            default:
                if code == .fatal, isSingle { singleHealth.noteFatal() } else if code == .fatal { health.noteFatal() }
                targets[index].putBack(refused, nowNs: now.ns)
                if code != .fatal, code != .queueFull { targets[index].close(code, nowNs: now.ns) }
                return
            }
        }
    }

    private func singleProducer() throws(KafkaError) -> Producer {
        if let single { return single }
        let made = try Producer(
            ProducerSettings(cluster: cluster, sendsSingly: true), wakeUpDescriptor: wakeUpDescriptor)
        // The topics are created in the same order as in `producer`, so that both producers use the same topic indexes.
        for name in producer.topicNames { _ = try made.topic(name) }
        single = made
        return made
    }

    /// The time at which the next refused record is due (monotonic), or `nil` if none is due before a delivery report.
    var nextDeadlineNs: Int64? { targets.lazy.compactMap(\.nextTryNs).min() }
}

extension UnsafeBufferPointer<RecordHeader> {
    /// The same memory viewed as headers of the Kafka module. Both types are pairs of borrowed byte ranges.
    var asMessageHeaders: UnsafeBufferPointer<MessageHeader> {
        UnsafeBufferPointer<MessageHeader>(
            start: UnsafeRawPointer(baseAddress)?.assumingMemoryBound(to: MessageHeader.self), count: count)
    }
}

extension UnsafeBufferPointer<MessageHeader> {
    /// The same memory viewed as headers of the PushRecords module.
    var asRecordHeaders: UnsafeBufferPointer<RecordHeader> {
        UnsafeBufferPointer<RecordHeader>(
            start: UnsafeRawPointer(baseAddress)?.assumingMemoryBound(to: RecordHeader.self), count: count)
    }
}
