internal import EventLoop
internal import Kafka
internal import Observability
internal import PushRecords

/// Writes dead tokens to Kafka with a producer of its own, each until it is acknowledged: the service that sent a token
/// has forgotten it. One loop's thread.
final class FeedbackWriter {
    private let loop: Loop
    private let cluster: ClusterSettings
    private let topicName: String
    private let logger: Logger
    /// Written to by librdkafka. It outlives the producer (`ClientReaper`).
    private var doorbell: Doorbell?
    private var producer: Producer?
    private var topic: ProducerTopic?
    private var health = ProducerHealth()
    /// Records that were refused or not taken. They are written before anything new.
    private var refused: [UndeliveredRecord] = []
    private var nextTryNs: Int64 = 0
    private var retryAlarm: Alarm?
    /// Kafka acknowledged a record with this tag.
    var onAcknowledged: (_ tag: UInt64) -> Void = { _ in }
    /// Reports were taken.
    var onServed: () -> Void = {}
    /// The last error in the client's words; empty since a record was acknowledged.
    private(set) var trouble = ""

    /// Above this many unacknowledged tokens (about 25 MB) nothing more is read. Tokens that a service has sent and the
    /// worker has not read are lost when the connection ends, so the limit is above what services hold.
    static let waitingLimit = 50_000
    private static let retryNs: Int64 = 1_000_000_000

    init(_ cluster: ClusterSettings, topic: String, loop: Loop, logger: Logger) throws(SystemError) {
        self.cluster = cluster
        topicName = topic
        self.loop = loop
        self.logger = logger
        doorbell = try Doorbell(loop: loop) { [weak self] in self?.serve() }
        retryAlarm = Alarm(loop: loop) { [weak self] in self?.serve() }
    }

    /// Tokens that are not acknowledged.
    var waiting: Int { refused.count + (producer?.outstanding ?? 0) }
    var isFull: Bool { waiting >= Self.waitingLimit }
    /// Whether there is room again after `isFull`.
    var hasRoom: Bool { waiting <= Self.waitingLimit / 2 }

    /// Writes a token's record, after a successful `check`.
    func write(_ record: EncodedRecord, tag: UInt64) {
        guard let producer, let topic else { preconditionFailure("a read begins with a check of Kafka") }
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

    /// Asks a broker about the topic, and blocks for `timeoutMs` at most.
    ///
    /// - Throws: `KafkaError` if it could not take a token now.
    func check(timeoutMs: Int32) throws(KafkaError) {
        if producer == nil {
            let made = try Producer(ProducerSettings(cluster: cluster), wakeUpDescriptor: doorbell?.descriptor ?? -1)
            topic = try made.topic(topicName)
            producer = made
        }
        try producer?.warmUp(timeoutMs: timeoutMs)
    }

    /// Takes reports, and writes again what is due.
    func serve() {
        guard let producer else { return }
        let nowNs = LoopTime.read().monotonicNs
        producer.serve(
            report: { take($0, nowNs) },
            event: { event in
                if case .error(let error) = event { trouble = error.text }
                health.take(event, of: "feedback producer", logger)
            })
        health.renew(producer, nowNs: nowNs, logger)
        if nowNs >= nextTryNs {
            let taken = refused.prefix { isTaken(producer.produce($0)) }.count
            refused.removeFirst(taken)
        }
        if waiting > 0 { retryAlarm?.set(afterNs: Self.retryNs) }
        onServed()
    }

    private func take(_ report: borrowing DeliveryReport, _ nowNs: Int64) {
        let code = report.code
        guard code != .none else {
            trouble = ""
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
        nextTryNs = nowNs + Self.retryNs
    }

    /// Whether the producer took a record. If not, it is offered again whatever the reason.
    private func isTaken(_ code: KafkaCode) -> Bool {
        switch code {
        case .none: return true
        case .queueFull: break
        case .fatal: health.noteFatal()
        default: trouble = "\(topicName): \(KafkaError(code).text)"
        }
        return false
    }

    /// Drops the producer with its records. The doorbell stays until this object goes.
    func close() {
        retryAlarm = nil
        producer = nil
    }
}
