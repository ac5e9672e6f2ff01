internal import APNs
internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import PushRecords

/// Reads the feedback service of each app, and produces dead tokens to the unregistered topic with a separate producer.
/// Runs on the thread of `loop`.
///
/// The service deletes tokens once it has sent them. A read therefore begins only while Kafka answers, and ends only
/// when Kafka has acknowledged all received tokens. While too many tokens wait for Kafka, the reader stops reading from
/// connections, and TCP flow control stops the service.
final class FeedbackReader {
    private final class Read {
        let app: FeedbackApp
        var connection: FeedbackConnection?
        /// Whether the connection has ended, after which `skipped` and `failure` are final.
        var hasEnded = false
        var skipped = 0
        var failure: String?
        var received = 0
        var acknowledged = 0
        /// The time since which Kafka has acknowledged none of this read's waiting tokens (monotonic).
        var movedNs: Int64 = 0
        @exclusivity(unchecked) var writer: UnregisteredWriter

        var waiting: Int { received - acknowledged }

        init(_ app: FeedbackApp) {
            self.app = app
            writer = UnregisteredWriter(apps: [app.record])
        }
    }

    private let cluster: ClusterSettings
    private let topicName: String
    private let loop: Loop
    private let logger: Logger
    private let dialer: Dialer
    /// The current reads by app index. The records of a read have the app index as their tag.
    private var reads: [UInt64: Read] = [:]
    private var isPaused = false
    var onEnd: (FeedbackApp, FeedbackOutcome) -> Void = { _, _ in }

    /// Wakes the loop when librdkafka has events. Must exist until `ClientReaper` has destroyed the producer's client.
    private var doorbell: Doorbell?
    private var producer: Producer?
    private var topic: ProducerTopic?
    private var health = ProducerHealth()
    /// Records that Kafka or the producer did not accept. The reader produces them before new records.
    private var refused: [UndeliveredRecord] = []
    private var nextTryNs: Int64 = 0
    private var retryAlarm: Alarm?
    /// The text of the Kafka client's last error, or empty if Kafka has acknowledged a record since.
    private(set) var trouble = ""

    /// The number of unacknowledged tokens (about 25 MB) at which the reader pauses. Tokens that the service has sent
    /// are lost if a connection ends before they are read, so the limit is larger than the usual list of a service.
    static let waitingLimit = 50_000
    private static let retryNs: Int64 = 1_000_000_000
    /// The time limit for checking whether Kafka answers. The check blocks the thread.
    private static let checkMs: Int32 = 1_500

    init(_ cluster: ClusterSettings, topic: String, loop: Loop, logger: Logger) {
        self.cluster = cluster
        topicName = topic
        self.loop = loop
        self.logger = logger
        dialer = Dialer(loop: loop)
        retryAlarm = Alarm(loop: loop) { [weak self] in self?.serve() }
    }

    // MARK: Reads

    var count: Int { reads.count }

    /// Returns the number of an app's tokens that Kafka has not acknowledged, and the time since which Kafka has
    /// acknowledged none of them (monotonic).
    func waiting(of app: Int) -> (tokens: Int, sinceNs: Int64) {
        guard let read = reads[UInt64(app)], read.waiting > 0 else { return (0, 0) }
        return (read.waiting, read.movedNs)
    }

    /// - Throws: `KafkaError` if the producer cannot be created or Kafka cannot accept tokens now. In this case the
    ///   reader has not contacted the service.
    func begin(_ app: FeedbackApp) throws(KafkaError) {
        let number = UInt64(app.index)
        guard reads[number] == nil else { return }
        if producer == nil {
            do throws(SystemError) {
                if doorbell == nil { doorbell = try Doorbell(loop: loop) { [weak self] in self?.serve() } }
            } catch {
                throw KafkaError(.noResources, "\(error)")
            }
            let made = try Producer(ProducerSettings(cluster: cluster), wakeUpDescriptor: doorbell?.descriptor ?? -1)
            topic = try made.topic(topicName)
            producer = made
        }
        try producer?.warmUp(timeoutMs: Self.checkMs)
        let read = Read(app)
        reads[number] = read
        read.connection = FeedbackConnection(
            app.target, context: app.context, dialer: dialer, loop: loop,
            onItem: { [weak self] seconds, token in self?.take(seconds, token, number) },
            onEnd: { [weak self] skipped, failure in self?.ended(number, skipped: skipped, failure) })
        read.connection?.isPaused = isPaused
    }

    /// Stops waiting for feedback services that send nothing, because the worker is stopping.
    func hurry() { for read in reads.values { read.connection?.hurry() } }

    private func take(_ seconds: UInt32, _ token: UnsafeRawBufferPointer, _ number: UInt64) {
        guard let read = reads[number] else { return }
        if read.waiting == 0 { read.movedNs = loop.now.monotonicNs }
        read.received += 1
        var topic = read.app.topic
        let nowMs = loop.now.wallMs
        topic.withUTF8 { topic in
            write(
                read.writer.write(
                    feedback: token, topic: UnsafeRawBufferPointer(topic), app: 0,
                    // A time in the future would also declare tokens dead that are registered again after this read.
                    unregisteredAtMs: min(Int64(seconds) * 1_000, nowMs), observedAtMs: nowMs),
                tag: number)
        }
        if !isPaused, waiting >= Self.waitingLimit { pause(true) }
    }

    private func pause(_ pauses: Bool) {
        isPaused = pauses
        for read in reads.values { read.connection?.isPaused = pauses }
        guard pauses else { return logger.notice(.apns, "feedback reads resumed") }
        logger.warning(
            .apns, "feedback reads paused until Kafka acknowledges dead tokens",
            ["tokens": .count(waiting), "trouble": "\(trouble)", "advice": "check topic \(topicName)"])
    }

    private func ended(_ number: UInt64, skipped: Int, _ failure: String?) {
        guard let read = reads[number] else { return }
        read.connection = nil
        read.hasEnded = true
        read.skipped = skipped
        read.failure = failure
        let name = read.app.name
        if skipped > 0 {
            logger.warning(
                .apns, "feedback items with an impossible token length skipped", about: name,
                ["app": "\(name)", "tokens": .sum(skipped)])
        }
        serve()
    }

    private func finish(_ read: Read) {
        let name = read.app.name
        if let failure = read.failure {
            logger.warning(
                .apns, "feedback incomplete", about: name,
                ["app": "\(name)", "tokens": .sum(read.received), "reason": "\(failure)"])
        } else {
            logger.log(
                read.received > 0 ? .info : .debug, .apns, "feedback read", about: name,
                ["app": "\(name)", "tokens": .sum(read.received)])
        }
        onEnd(
            read.app,
            FeedbackOutcome(app: name, tokens: read.received, skipped: read.skipped, failure: read.failure))
    }

    /// Ends all reads, drops the producer, and logs the number of lost tokens of each app. Calls `onEnd` for each read
    /// without lost tokens, with `reason` as the failure if the read was interrupted.
    ///
    /// - Parameter reason: The reason for interrupting the reads, for the log and the command's output.
    /// - Returns: The number of lost tokens.
    @discardableResult
    func close(because reason: String) -> Int {
        serve()
        let left = reads.values.sorted { $0.app.index < $1.app.index }
        reads = [:]
        for read in left {
            read.connection?.giveUp(reason)
            if !read.hasEnded { read.failure = reason }
            guard read.waiting > 0 else {
                finish(read)
                continue
            }
            // The service has already deleted these tokens, so they cannot be read again.
            logger.log(
                .critical, .apns, "dead tokens lost before Kafka acknowledged them", about: read.app.name,
                [
                    "app": "\(read.app.name)", "lost": .sum(read.waiting), "written": .sum(read.acknowledged),
                    "was_read_to_its_end": .boolean(read.hasEnded), "trouble": "\(trouble)",
                ])
        }
        retryAlarm = nil
        // `doorbell` stays alive until this object is freed, because librdkafka may still use it.
        producer = nil
        return left.reduce(0) { $0 + $1.waiting }
    }

    // MARK: Records

    private var waiting: Int { refused.count + (producer?.outstanding ?? 0) }

    private func write(_ record: EncodedRecord, tag: UInt64) {
        guard let producer, let topic else { preconditionFailure("the producer must exist before a read begins") }
        let headers = record.headers.asMessageHeaders
        if refused.isEmpty,
            isTaken(producer.produce(to: topic, key: record.key, value: record.value, headers: headers, tag: tag))
        {
            return
        }
        refused.append(UndeliveredRecord(copying: record.key, record.value, headers: headers, to: topic, tag: tag))
        retryAlarm?.set(noLaterThanNs: loop.now.monotonicNs + Self.retryNs)
    }

    /// Handles delivery reports, produces refused records again when due, and ends reads whose tokens Kafka has all
    /// acknowledged.
    private func serve() {
        guard let producer else { return }
        let nowNs = LoopTime.read().monotonicNs
        health.serve(producer, of: "feedback producer", nowNs: nowNs, logger) {
            take($0, nowNs)
        } event: {
            if case .error(let error) = $0 { trouble = error.text }
        }
        if nowNs >= nextTryNs {
            let taken = refused.prefix { isTaken(producer.produce($0)) }.count
            refused.removeFirst(taken)
        }
        if waiting > 0 { retryAlarm?.set(afterNs: Self.retryNs) }
        if isPaused, waiting <= Self.waitingLimit / 2 { pause(false) }
        for (number, read) in reads where read.hasEnded && read.waiting == 0 {
            reads[number] = nil
            finish(read)
        }
    }

    private func take(_ report: borrowing DeliveryReport, _ nowNs: Int64) {
        let code = report.code
        guard code != .none else {
            trouble = ""
            reads[report.tag]?.acknowledged += 1
            reads[report.tag]?.movedNs = nowNs
            return
        }
        refused.append(report.detach())
        guard !code.isPurged else { return }
        trouble = "\(topicName): \(KafkaError(code).text)"
        logger.warning(
            .kafka, "dead token refused by Kafka, retrying", about: topicName,
            [
                "topic": "\(topicName)", "error": "\(KafkaError(code).text)",
                "advice": "\(Advice.writing(topicName, code))",
            ])
        nextTryNs = nowNs + Self.retryNs
    }

    /// Returns whether the producer accepted a record. If not, the caller must produce the record again, regardless of
    /// the reason.
    private func isTaken(_ code: KafkaCode) -> Bool {
        switch code {
        case .none: return true
        case .queueFull: break
        case .fatal: health.noteFatal()
        default: trouble = "\(topicName): \(KafkaError(code).text)"
        }
        return false
    }
}
