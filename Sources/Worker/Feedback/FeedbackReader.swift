internal import APNs
internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import PushRecords

/// Reads apps' feedback, and writes each dead token to the unregistered topic. One loop's thread.
///
/// The service forgets what it sent. So a read ends only when Kafka has acknowledged all that came, and none begins
/// while Kafka does not answer. While too many tokens wait for Kafka (`FeedbackWriter`), connections are not read, and
/// the service keeps what TCP has no room for.
final class FeedbackReader {
    private final class Read {
        let app: FeedbackApp
        var connection: FeedbackConnection?
        /// Set once the connection has ended.
        var end: FeedbackConnection.End?
        var acknowledged = 0
        var told = 0
        /// When Kafka last acknowledged a token, or the first one came (monotonic).
        var movedNs: Int64 = 0
        @exclusivity(unchecked) var writer: UnregisteredWriter

        var waiting: Int { told - acknowledged }

        init(_ app: FeedbackApp) {
            self.app = app
            writer = UnregisteredWriter(apps: [app.record])
        }
    }

    private let loop: Loop
    private let dialer: Dialer
    private let logger: Logger
    private let writer: FeedbackWriter
    /// By number, which is the tag of the read's records.
    private var reads: [UInt64: Read] = [:]
    private var lastNumber: UInt64 = 0
    private var isPaused = false
    private var isAskedToServe = false
    var onEnd: (FeedbackApp, FeedbackOutcome) -> Void = { _, _ in }

    /// How long a check of Kafka may block the thread.
    private static let checkMs: Int32 = 1_500

    init(
        _ cluster: ClusterSettings, topic: String, loop: Loop, logger: Logger
    ) throws(SystemError) {
        self.loop = loop
        self.logger = logger
        dialer = Dialer(loop: loop)
        writer = try FeedbackWriter(cluster, topic: topic, loop: loop, logger: logger)
        writer.onAcknowledged = { [unowned self] number in
            reads[number]?.acknowledged += 1
            reads[number]?.movedNs = self.loop.now.monotonicNs
        }
        writer.onServed = { [unowned self] in served() }
    }

    /// The number of reads under way.
    var count: Int { reads.count }

    /// The tokens of an app's read that wait for Kafka, and since when it acknowledged none (monotonic).
    func waiting(of app: Int) -> (tokens: Int, sinceNs: Int64) {
        guard let read = reads.values.first(where: { $0.app.index == app }), read.waiting > 0 else { return (0, 0) }
        return (read.waiting, read.movedNs)
    }

    /// The client's last error; empty if there was none.
    var trouble: String { writer.trouble }

    /// Begins to read an app's feedback.
    ///
    /// - Throws: `KafkaError` if Kafka could not take tokens now. Nothing was read.
    func begin(_ app: FeedbackApp) throws(KafkaError) {
        guard !reads.values.contains(where: { $0.app.index == app.index }) else { return }
        try writer.check(timeoutMs: Self.checkMs)
        lastNumber += 1
        let number = lastNumber
        let read = Read(app)
        reads[number] = read
        read.connection = FeedbackConnection(
            app.target, context: app.context, dialer: dialer, loop: loop,
            onItem: { [weak self] seconds, token in self?.take(seconds, token, number) },
            onEnd: { [weak self] end in self?.ended(number, end) })
        read.connection?.pause(isPaused)
    }

    /// Stops waiting for silent services: the worker is to stop.
    func hurry() { for read in reads.values { read.connection?.hurry() } }

    private func take(_ seconds: UInt32, _ token: UnsafeRawBufferPointer, _ number: UInt64) {
        guard let read = reads[number] else { return }
        if read.waiting == 0 { read.movedNs = loop.now.monotonicNs }
        read.told += 1
        var topic = read.app.topic
        let nowMs = loop.now.wallMs
        topic.withUTF8 { topic in
            writer.write(
                read.writer.write(
                    feedback: token, topic: UnsafeRawBufferPointer(topic), app: 0,
                    // A later time would declare a token dead that is registered again by then.
                    unregisteredAtMs: min(Int64(seconds) * 1_000, nowMs), observedAtMs: nowMs),
                tag: number)
        }
        if !isPaused, writer.isFull { pause(true) }
        serveSoon()
    }

    private func pause(_ pauses: Bool) {
        isPaused = pauses
        for read in reads.values { read.connection?.pause(pauses) }
        guard pauses else { return logger.notice(.apns, "feedback is read on: Kafka takes its tokens") }
        logger.warning(
            .apns, "feedback is read no further before Kafka takes the tokens that wait",
            ["tokens": .count(writer.waiting), "trouble": "\(writer.trouble)"])
    }

    private func ended(_ number: UInt64, _ end: FeedbackConnection.End) {
        guard let read = reads[number] else { return }
        read.connection = nil
        read.end = end
        if end.skipped > 0 {
            logger.warning(
                .apns, "feedback told device tokens of a length that none has; they are left out", about: read.app.name,
                ["app": "\(read.app.name)", "tokens": .count(end.skipped)])
        }
        if end.isCut {
            logger.warning(
                .apns, "feedback ended inside a device token, which is left out", about: read.app.name,
                ["app": "\(read.app.name)"])
        }
        serveSoon()
    }

    private func served() {
        if isPaused, writer.hasRoom { pause(false) }
        for (number, read) in reads {
            guard let end = read.end, read.waiting == 0 else { continue }
            reads[number] = nil
            finish(read, end.failure, skipped: end.skipped)
        }
    }

    private func finish(_ read: Read, _ failure: String?, skipped: Int = 0) {
        let name = read.app.name
        if let failure {
            logger.warning(
                .apns, "feedback could not be read to its end", about: name,
                ["app": "\(name)", "tokens": .count(read.told), "reason": "\(failure)"])
        } else {
            logger.log(
                read.told > 0 ? .info : .debug, .apns, "feedback read, and its dead tokens written", about: name,
                ["app": "\(name)", "tokens": .count(read.told)])
        }
        onEnd(read.app, FeedbackOutcome(app: name, tokens: read.told, skipped: skipped, failure: failure))
    }

    /// Ends all reads, drops the producer, and logs how many tokens of which app are lost, without the tokens. A read
    /// that is cut short and lost nothing ends as failed.
    ///
    /// - Parameter reason: for people, why reads are cut short.
    /// - Returns: the number of lost tokens.
    @discardableResult
    func close(because reason: String) -> Int {
        writer.serve()
        let left = reads.values.sorted { $0.app.index < $1.app.index }
        reads = [:]
        for read in left {
            read.connection?.giveUp(reason)
            guard read.waiting > 0 else {
                finish(read, read.end.map(\.failure) ?? reason, skipped: read.end?.skipped ?? 0)
                continue
            }
            logger.log(
                .critical, .apns,
                """
                DEAD TOKENS ARE LOST: the feedback service told them and forgot them, and Kafka did not acknowledge \
                them
                """,
                about: read.app.name,
                [
                    "app": "\(read.app.name)", "lost": .count(read.waiting), "written": .count(read.acknowledged),
                    "was_read_to_its_end": .boolean(read.end != nil), "trouble": "\(writer.trouble)",
                ])
        }
        writer.close()
        return left.reduce(0) { $0 + $1.waiting }
    }
}

extension FeedbackReader: TurnEnder {
    /// Serves the producer at the end of the turn, so that the tokens of one read of a socket go together.
    private func serveSoon() {
        guard !isAskedToServe else { return }
        isAskedToServe = true
        loop.atTurnEnd(self)
    }

    func turnEnded() {
        isAskedToServe = false
        writer.serve()
    }
}
