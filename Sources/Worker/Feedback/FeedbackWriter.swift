internal import EventLoop
internal import Kafka
internal import Observability
internal import PushRecords

/// Writes dead tokens that were read to Kafka, each until it is acknowledged, with a producer of its own. One loop's
/// thread.
///
/// Whoever told a token does not know it any more: what a broker or the topic refuses is written again for as long as
/// it takes.
final class FeedbackWriter {
    private let loop: Loop
    private let cluster: ClusterSettings
    private let topicName: String
    private let logger: Logger
    /// Rung by librdkafka: it outlives the producer.
    private let doorbell: Doorbell
    private var producer: Producer?
    private var topic: ProducerTopic?
    private var health = ProducerHealth()
    /// What came back, or was not taken: it is written before anything new.
    private var refused: [UndeliveredRecord] = []
    private var pause = GrowingPause()
    private var lookAgain: Alarm?
    /// Kafka has a token of that read.
    var onAcknowledged: (_ read: UInt64) -> Void = { _ in }
    /// Something was handed over or came back.
    var onServed: () -> Void = {}
    /// The last trouble, in the client's words; empty: none since a record was acknowledged.
    private(set) var trouble = ""

    /// Above this many tokens that are not acknowledged nothing more is read (some 25 MB). What a service has sent and
    /// the worker has not read is not counted when the connection ends, so the limit is above what services hold.
    static let waitingLimit = 50_000

    init(
        _ cluster: ClusterSettings, topic: String, loop: Loop, logger: Logger
    ) throws(SystemError) {
        self.cluster = cluster
        topicName = topic
        self.loop = loop
        self.logger = logger
        let owner = Owner()
        doorbell = try Doorbell(loop: loop) { owner.writer?.serve() }
        owner.writer = self
        lookAgain = Alarm(loop: loop) { [weak self] in self?.serve() }
    }

    /// The doorbell is there before its owner is.
    private final class Owner { weak var writer: FeedbackWriter? }

    /// Whether no more tokens should come.
    var isFull: Bool { waiting >= Self.waitingLimit }
    /// Whether there is room for tokens again.
    var hasRoom: Bool { waiting <= Self.waitingLimit / 2 }
    /// Tokens that are not acknowledged.
    var waiting: Int { refused.count + (producer?.outstanding ?? 0) }

    /// Writes a token's record, or keeps it until it can be; after `check`.
    func write(_ record: EncodedRecord, tag: UInt64) {
        guard let producer, let topic else { preconditionFailure("a read begins with a question to Kafka") }
        var code = KafkaCode.queueFull
        if refused.isEmpty {
            code = producer.produce(
                to: topic, key: record.key, value: record.value, headers: record.headers.asMessageHeaders, tag: tag)
        }
        guard !isTaken(code) else { return }
        refused.append(
            UndeliveredRecord(
                copying: record.key, record.value, headers: record.headers.asMessageHeaders, to: topic, tag: tag,
                code: code))
    }

    /// Asks a broker about the topic, for `timeoutMs` at most; the caller waits meanwhile.
    ///
    /// - Throws: `KafkaError`: it could not take a token now.
    func check(timeoutMs: Int32) throws(KafkaError) {
        try made().warmUp(timeoutMs: timeoutMs)
    }

    private func made() throws(KafkaError) -> Producer {
        if let producer { return producer }
        let producer = try Producer(ProducerSettings(cluster: cluster), wakeUpDescriptor: doorbell.descriptor)
        topic = try producer.topic(topicName)
        self.producer = producer
        return producer
    }

    /// Takes reports, and writes again what is due.
    func serve() {
        guard let producer else { return }
        let nowNs = LoopTime.read().monotonicNs
        producer.serve(report: { take($0, nowNs) }, event: { take($0) })
        health.renew(producer, nowNs: nowNs, logger)
        writeAgain(producer, nowNs)
        if waiting > 0 { lookAgain?.set(afterNs: 1_000_000_000) }
        onServed()
    }

    private func take(_ report: borrowing DeliveryReport, _ nowNs: Int64) {
        let code = report.code
        guard code != .none else {
            trouble = ""
            pause = GrowingPause()
            return onAcknowledged(report.tag)
        }
        refused.append(report.detach())
        // None of these is a refusal.
        guard code != .purgedInQueue, code != .purgedInFlight, code != .inconsistent else { return }
        trouble = "\(topicName): \(KafkaError(code).text)"
        logger.warning(
            .kafka, "a dead token of the feedback service could not be written; it is written again", about: topicName,
            [
                "topic": "\(topicName)", "error": "\(KafkaError(code).text)",
                "advice": "\(Advice.writing(topicName, code))",
            ])
        if pause.endNs <= nowNs { pause.begin(nowNs) }
    }

    private func take(_ event: ClientEvent) {
        if case .error(let error) = event { trouble = error.text }
        health.take(event, of: "feedback producer", logger)
    }

    private func writeAgain(_ producer: Producer, _ nowNs: Int64) {
        guard !refused.isEmpty, nowNs >= pause.endNs else { return }
        var written = 0
        while written < refused.count, isTaken(producer.produce(refused[written])) { written += 1 }
        refused.removeFirst(written)
    }

    /// Whatever keeps a producer from taking a record, it is offered again.
    private func isTaken(_ code: KafkaCode) -> Bool {
        switch code {
        case .none: return true
        case .queueFull: return false
        case .fatal: health.noteFatal()
        default: trouble = "\(topicName): \(KafkaError(code).text)"
        }
        return false
    }

    /// Lets go of the producer, and of what it has; the doorbell stays until this object goes, after the client has
    /// (`ClientReaper`).
    func close() {
        lookAgain = nil
        producer = nil
    }
}
