internal import Configuration
internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability
internal import PushRecords

/// Writes what the machine wants produced, and brings the acknowledgements back. Core thread.
///
/// A record that could not be written is written again until it is: a failed report never settles. What a topic refuses
/// waits in that topic's own queue (`TargetTopic`), and is tried by a producer of its own: on librdkafka a refusal
/// makes an idempotent producer drain and begin a new epoch, which pauses all its topics.
final class RecordPublisher: RecordSink {
    let producer: Producer
    /// For what was refused. Made when it is needed, with the same topics.
    private var single: Producer?
    private let cluster: ClusterSettings
    private let wakeUpDescriptor: Int32
    private let logger: Logger
    /// By the index of the producers' topics.
    private var targets: [TargetTopic] = []
    /// What the machine knows of each: as last told.
    private var saidOpen: [Bool] = []
    private let results: ProducerTopic
    private let unregistered: ProducerTopic
    private let deadLetters: ProducerTopic
    private let tiers: [ProducerTopic]
    /// A record that was written is handed over before the next is: nothing else has access meanwhile.
    @exclusivity(unchecked) private var resultWriter: ResultWriter
    @exclusivity(unchecked) private var unregisteredWriter: UnregisteredWriter
    @exclusivity(unchecked) private var retryWriter: RetryWriter
    private var deadLetterWriter = DeadLetterWriter()
    private let reducedForms: ReducedForms
    private var headers: [RecordHeader] = []
    private var letters = UnacknowledgedLetters()
    /// How the brokers answer the producer.
    private(set) var brokers = BrokerHealth()
    private var health = ProducerHealth()
    private var singleHealth = ProducerHealth()
    /// Reports of one turn that say "written" without an offset.
    private var inconsistentCount = 0
    private var unacknowledged = UnacknowledgedRecords(topics: 0)
    /// Some topic refused something: what is acknowledged shows whether it is the record or the topic.
    private var isWatching = false
    /// Records that may be unacknowledged before nothing more is read: two for each notification that may be open. More
    /// than that are of assignments that are gone.
    private let outstandingLimit: Int

    init(
        _ configuration: WorkerConfiguration, apps: [RecordApp], cluster: ClusterSettings, wakeUpDescriptor: Int32,
        logger: Logger
    ) throws(KafkaError) {
        self.logger = logger
        self.cluster = cluster
        self.wakeUpDescriptor = wakeUpDescriptor
        outstandingLimit = 2 * configuration.delivery.maxOpen
        producer = try Producer(
            ProducerSettings(cluster: cluster.withStatistics), wakeUpDescriptor: wakeUpDescriptor)
        results = try producer.topic(configuration.results.topic)
        unregistered = try producer.topic(configuration.unregistered.topic)
        deadLetters = try producer.topic(configuration.deadLetters.topic)
        var tiers: [ProducerTopic] = []
        for tier in configuration.retry.tiers { tiers.append(try producer.topic(tier.topic)) }
        self.tiers = tiers
        reducedForms = ReducedForms(
            results: results, deadLetters: deadLetters, tiers: tiers, names: producer.topicNames)
        targets = producer.topicNames.map { TargetTopic($0) }
        saidOpen = targets.map { _ in true }
        unacknowledged = UnacknowledgedRecords(topics: targets.count)
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

    // MARK: State

    /// True while nothing more should be read: what partitions that were lost in an outage left in the producer has to
    /// be written first.
    var isBackedUp: Bool { producer.outstanding >= outstandingLimit }

    /// Whether everything handed over was acknowledged.
    var isIdle: Bool { unacknowledgedCount == 0 && targets.allSatisfy(\.isIdle) }

    /// Handed over and not acknowledged.
    var unacknowledgedCount: Int { producer.outstanding + unacknowledgedSingle }

    /// Of these, those in the hands of the producer that sends each record alone.
    var unacknowledgedSingle: Int { single?.outstanding ?? 0 }

    /// Refused by Kafka, to be written again.
    var refusedCount: Int { targets.reduce(0) { $0 + $1.refusedCount } }

    /// Records that were too large for a topic even by themselves, by topic; those without any are left out.
    var tooLarge: [(topic: String, records: Int)] {
        targets.filter { $0.tooLargeCount > 0 }.map { ($0.name, $0.tooLargeCount) }
    }

    /// Records that a topic refused for their own sake while it took others, by topic; those without any are left out.
    var rejected: [(topic: String, records: Int)] {
        targets.filter { $0.rejectedCount > 0 }.map { ($0.name, $0.rejectedCount) }
    }

    /// The topics that cannot be written now, or of which nobody says so.
    func problems(nowNs: Int64) -> [Problem] {
        // All topics wait for a thread that is not there.
        let silence = health.silence(nowNs: nowNs).flatMap { $0.code == .noResources ? $0 : nil }
        let singleSilence = singleHealth.silence(nowNs: nowNs)
        return targets.enumerated().compactMap { index, target in
            if let cause = target.cause {
                return Problem(
                    subject: .topic(target.name), kind: .writing, code: cause.code,
                    advice: Advice.writing(target.name, cause.code), sinceNs: cause.sinceNs)
            }
            if let cause = target.causeOfSingle {
                return Problem(
                    subject: .topic(target.name), kind: .refusingSingle, code: cause.code,
                    advice: Advice.writing(target.name, cause.code), sinceNs: cause.sinceNs)
            }
            if let cause = (target.awaitsReport ? singleSilence : nil) ?? silence {
                return Problem(
                    subject: .topic(target.name), kind: .unreported, code: cause.code,
                    advice: Advice.writing(target.name, cause.code), sinceNs: cause.sinceNs)
            }
            // librdkafka tries on for as long as it takes, and says why at debug level only.
            return unacknowledged.overdueSinceNs(topic: index, nowNs: nowNs).map { sinceNs in
                Problem(
                    subject: .topic(target.name), kind: .unacknowledged, code: .timedOut,
                    advice: Advice.unacknowledged(target.name), sinceNs: sinceNs)
            }
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

    /// Produces what the machine has for topics that can be written, until it has no more or the producer's queue is
    /// full.
    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        publish(.results, of: &machine, now)
        publish(.unregistered, of: &machine, now)
        for tier in tiers.indices { publish(.retry(tier: tier), of: &machine, now) }
        tellOpen(&machine, now)
    }

    private func publish(_ target: ProductionTarget, of machine: inout DeliveryMachine, _ now: DeliveryTime) {
        let topic = topic(of: target)
        while targets[topic.index].isOpen, let production = machine.nextProduction(for: target) {
            let isTaken =
                switch production.kind {
                case .result:
                    machine.withResult(production.id, now: now) { content, ending in
                        hand(resultWriter.write(content, ending), to: topic, production.id, now)
                    }
                case .unregistered:
                    machine.withResult(production.id, now: now) { content, ending in
                        hand(unregisteredWriter.write(content, ending), to: topic, production.id, now)
                    }
                case .retry:
                    machine.withRetry(production.id) { content, order in
                        hand(retryWriter.write(content, order), to: topic, production.id, now)
                    }
                }
            guard isTaken else { return }
            machine.produced(production)
        }
    }

    /// Where readers leave dead letters.
    func deadLetters(now: DeliveryTime) -> GroupReader.DeadLetters {
        GroupReader.DeadLetters(
            room: { [unowned self] in letterRoom },
            ofRecord: { [unowned self] message, place, id, reason, detail in
                publishDeadLetter(of: message, at: place, id: id, reason: reason, detail: detail, now: now)
            })
    }

    /// Bytes that a dead letter may have now.
    var letterRoom: Int { letters.room }

    /// Produces a record that no notification can be read from, as it is, before its bytes are given back. There is to
    /// be room for it (`letterRoom`).
    func publishDeadLetter(
        of message: borrowing Message, at place: RequestPlace, id: NotificationID, reason: DeadLetterReason,
        detail: Detail, now: DeliveryTime
    ) {
        headers.removeAll(keepingCapacity: true)
        message.forEachHeader { name, value in headers.append(RecordHeader(name: name, value: value)) }
        headers.withUnsafeBufferPointer { original in
            letters.add(id.tag, bytes: DeliveryMachine.letterBytes(message.key, message.value, original))
            let all = deadLetterWriter.headers(
                original: original, place: place, timestampMs: message.timestampMs, reason: reason, detail: detail)
            hand(
                EncodedRecord(key: message.key, value: message.value, headers: all), to: deadLetters, id, isKept: true,
                now)
        }
    }

    /// Hands a record over. A topic that refuses it at once keeps it among what it refused, and so does one that is to
    /// be tried with it.
    ///
    /// - Parameter isKept: nothing else has the record, so a full queue keeps it, too.
    /// - Returns: false when the producer's queue is full, or it is to be made anew, and the record is not kept.
    @inline(__always) @discardableResult
    private func hand(
        _ record: EncodedRecord, to topic: ProducerTopic, _ id: NotificationID, isKept: Bool = false,
        _ now: DeliveryTime
    ) -> Bool {
        let wasClear = targets[topic.index].isClear
        let code = produce(record, to: topic, id, now)
        if code == .none { return true }
        if code == .fatal { health.noteFatal() }
        let isRefused = code != .queueFull && code != .fatal
        guard isRefused || isKept else { return false }
        let kept = UndeliveredRecord(
            copying: record.key, record.value, headers: record.headers.asMessageHeaders, to: topic, tag: id.tag,
            code: code)
        if isRefused {
            refuse(kept, code, isNew: !wasClear, now)
        } else {
            targets[topic.index].take(kept, .together)
        }
        return true
    }

    /// Hands a record to the producer, where its topic is clear.
    ///
    /// - Returns: why the topic does not have it; `.none`: it is on its way.
    @inline(__always)
    private func produce(
        _ record: EncodedRecord, to topic: ProducerTopic, _ id: NotificationID, _ now: DeliveryTime
    ) -> KafkaCode {
        guard targets[topic.index].isClear else { return targets[topic.index].cause?.code ?? .queueFull }
        let code = producer.produce(
            to: topic, key: record.key, value: record.value, headers: record.headers.asMessageHeaders, tag: id.tag)
        if code == .none { unacknowledged.handedOver(id.tag, topic: topic.index, nowNs: now.ns) }
        return code
    }

    /// A record did not get into its topic among others.
    ///
    /// - Parameter isNew: it was not tried to.
    private func refuse(_ record: UndeliveredRecord, _ code: KafkaCode, isNew: Bool, _ now: DeliveryTime) {
        targets[record.topic.index].take(record, .alone, isNew: isNew)
        if code != .messageTooLarge { targets[record.topic.index].block(code, nowNs: now.ns) }
    }

    /// Tells the machine which topics it may count on.
    private func tellOpen(_ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        for index in targets.indices where targets[index].isOpen != saidOpen[index] {
            saidOpen[index] = targets[index].isOpen
            let topic = targets[index].name
            func tell(_ target: ProductionTarget) {
                guard producer.name(of: self.topic(of: target)) == topic else { return }
                machine.setWritable(target, saidOpen[index], now: now)
            }
            tell(.results)
            tell(.unregistered)
            tell(.deadLetters)
            for tier in tiers.indices { tell(.retry(tier: tier)) }
            if targets[index].isClear {
                logger.info(.kafka, "the topic is written again", ["topic": "\(topic)"])
            }
        }
    }

    // MARK: Acknowledgements

    /// Brings reports to the machine, and writes again what is due. Call after every wake-up, once a second, and when
    /// `nextDeadlineNs` has come.
    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        let reports = producer.serve(
            report: { report in take(report, wasSingle: false, &machine, now) },
            event: { event in take(event, &health) })
        health.look(reports: reports, outstanding: producer.outstanding, nowNs: now.ns)
        renew(producer, &health, sendsSingly: false, now)
        if let single {
            let reports = single.serve(
                report: { report in take(report, wasSingle: true, &machine, now) },
                event: { event in take(event, &singleHealth) })
            singleHealth.look(reports: reports, outstanding: single.outstanding, nowNs: now.ns)
            renew(single, &singleHealth, sendsSingly: true, now)
        }
        if inconsistentCount > 0 {
            logger.warning(
                .kafka,
                "records are said to be written, but not where; they are written again, and may be there twice",
                ["records": .count(inconsistentCount)])
            inconsistentCount = 0
        }
        for index in targets.indices { writeAgain(index, now) }
        tellOpen(&machine, now)
        isWatching = targets.contains { !$0.isIdle }
    }

    private func take(
        _ report: borrowing DeliveryReport, wasSingle: Bool, _ machine: inout DeliveryMachine, _ now: DeliveryTime
    ) {
        let topic = report.topic
        let code = report.code
        unacknowledged.reported(report.tag, topic: topic.index, nowNs: now.ns)
        guard code != .none else {
            if isWatching { targets[topic.index].noteTaken() }
            if wasSingle { targets[topic.index].written(report.tag) }
            if topic == deadLetters { letters.acknowledged(report.tag) }
            machine.acknowledged(NotificationID(tag: report.tag), now: now)
            return
        }
        let partition = report.partition
        let record = report.detach()
        // It may be there twice then, and be sent twice: the second one says so.
        if record.mayBeWritten, tiers.contains(topic) {
            record.raiseHeader("push-retry-sends", limit: Int64(RecordLimits.count))
            record.raiseHeader("push-retry-in-doubt", limit: Int64(RecordLimits.count))
        }
        if code == .inconsistent { inconsistentCount += 1 }
        // None of these is a refusal.
        let isPurged = code == .purgedInQueue || code == .purgedInFlight || code == .inconsistent
        guard wasSingle, let form = targets[topic.index].form(of: record.tag) else {
            return isPurged ? targets[topic.index].take(record, .together) : refuse(record, code, isNew: false, now)
        }
        switch code {
        case _ where isPurged:
            targets[topic.index].dropped(record)
        case .messageTooLarge:
            replace(record, form, code, partition: partition, now)
        default:
            guard targets[topic.index].refused(record, code, partition: partition, nowNs: now.ns) else { return }
            noteRejected(record, code)
            replace(record, form, code, partition: partition, now)
        }
    }

    private func noteRejected(_ record: UndeliveredRecord, _ code: KafkaCode) {
        let name = targets[record.topic.index].name
        logger.warning(
            .kafka, "a topic refuses a record for the record's own sake; what it says is written elsewhere",
            about: name,
            [
                "topic": "\(name)", "error": "\(code)", "request": "\(reducedForms.request(of: record) ?? "unknown")",
                "advice": "\(Advice.writing(name, code))",
            ])
    }

    private func noteTooLarge(_ topic: ProducerTopic, _ form: TargetTopic.Form) {
        guard targets[topic.index].noteTooLarge(form) else { return }
        logger.warning(
            .kafka, "a record is too large for its topic, and a smaller one is written; more are only counted",
            about: targets[topic.index].name,
            ["topic": "\(targets[topic.index].name)", "advice": "raise its max.message.bytes"])
    }

    /// A record alone was too large, or refused for its own sake: what there is in its place is written.
    ///
    /// - Parameter partition: the partition that refused it; negative if no broker was asked.
    private func replace(
        _ record: UndeliveredRecord, _ form: TargetTopic.Form, _ code: KafkaCode, partition: Int32,
        _ now: DeliveryTime
    ) {
        let index = record.topic.index
        if code == .messageTooLarge { noteTooLarge(record.topic, form) }
        switch reducedForms.next(after: form, of: record, because: code, nowMs: now.wallMs) {
        case .same(let smaller):
            targets[index].reduced(to: smaller)
        case .other(let other):
            targets[index].handedOn(record.tag)
            targets[other.topic.index].take(other, .alone)
        case nil:
            targets[index].refused(record, code, partition: partition, isLast: true, nowNs: now.ns)
        }
    }

    private func singleProducer() throws(KafkaError) -> Producer {
        if let single { return single }
        do throws(KafkaError) {
            let made = try Producer(
                ProducerSettings(cluster: cluster, sendsSingly: true), wakeUpDescriptor: wakeUpDescriptor)
            // In the order of the other's, so that a record's topic names the same here.
            for name in producer.topicNames { _ = try made.topic(name) }
            single = made
            return made
        } catch {
            logger.error(.kafka, "cannot make a producer; trying again", ["error": "\(error.text)"])
            throw error
        }
    }

    /// Writes what a topic refused and what is due of it.
    private func writeAgain(_ index: Int, _ now: DeliveryTime) {
        while let (refused, isSingle) = targets[index].next(nowNs: now.ns) {
            let writer: Producer
            do throws(KafkaError) {
                writer = isSingle ? try singleProducer() : producer
            } catch {
                return targets[index].couldNotWrite(error.code, nowNs: now.ns)
            }
            switch writer.produce(refused.record) {
            case .none:
                unacknowledged.handedOver(refused.record.tag, topic: refused.record.topic.index, nowNs: now.ns)
                targets[index].wrote(isSingle: isSingle)
            case .queueFull:
                return
            case .fatal:
                if isSingle { singleHealth.noteFatal() } else { health.noteFatal() }
                return
            case .messageTooLarge:
                // As if a broker had refused it alone.
                targets[index].wrote(isSingle: true)
                replace(refused.record, max(refused.form, .alone), .messageTooLarge, partition: -1, now)
            case let code:
                targets[index].couldNotWrite(code, nowNs: now.ns)
            }
        }
    }

    /// When a refused record is to be tried again (monotonic); `nil`: none is, before a report comes.
    var nextDeadlineNs: Int64? { targets.compactMap(\.nextTryNs).min() }

    private func take(_ event: ClientEvent, _ health: inout ProducerHealth) {
        switch event {
        case .fatal, .error:
            health.take(event, of: "producer", logger)
        case .statistics(let text):
            if let statistics = ClientStatistics(text) {
                brokers.take(statistics)
            }
        case .log:
            EventLog.write(event, of: "producer", to: logger)
        }
    }

    /// Makes a producer anew that met a fatal error, or that does not report what it took.
    private func renew(
        _ producer: Producer, _ health: inout ProducerHealth, sendsSingly: Bool, _ now: DeliveryTime
    ) {
        if health.isStuck(sendsSingly: sendsSingly, nowNs: now.ns) {
            logger.error(
                .kafka, "the producer does not report what it took; making a new one",
                ["records": .count(producer.outstanding)])
            health.noteFatal()
        }
        health.renew(producer, nowNs: now.ns, logger)
    }
}

extension UnsafeBufferPointer<RecordHeader> {
    /// The same headers as the Kafka module names them: both are a pair of lent ranges.
    var asMessageHeaders: UnsafeBufferPointer<MessageHeader> {
        UnsafeBufferPointer<MessageHeader>(
            start: UnsafeRawPointer(baseAddress)?.assumingMemoryBound(to: MessageHeader.self), count: count)
    }
}

extension UnsafeBufferPointer<MessageHeader> {
    /// The same headers as the PushRecords module names them, back again.
    var asRecordHeaders: UnsafeBufferPointer<RecordHeader> {
        UnsafeBufferPointer<RecordHeader>(
            start: UnsafeRawPointer(baseAddress)?.assumingMemoryBound(to: RecordHeader.self), count: count)
    }
}
