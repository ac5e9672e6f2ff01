internal import APNs
internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import PushRecords

/// Reads apps' feedback, and writes each dead token that it tells to the unregistered topic. One loop's thread.
///
/// A read is over once Kafka has acknowledged all that it brought: the service forgets what it told. For the same
/// reason none is begun while Kafka does not answer. What waits for Kafka is bounded (`FeedbackWriter`): beyond,
/// connections are not read, and the service keeps what TCP has no room for.
final class FeedbackReads {
    /// How a read ended.
    struct Outcome: Equatable {
        var kind: FeedbackStanding.Outcome
        /// Dead tokens that Kafka acknowledged.
        var tokens: Int
        var skipped: Int
        /// Why it is not complete.
        var failure: String?
    }

    private final class Read {
        let app: FeedbackApp
        let startedNs: Int64
        var connection: FeedbackConnection?
        /// `nil`: it goes on.
        var end: FeedbackConnection.End?
        var acknowledged = 0
        var told = 0
        /// When Kafka took one of its tokens last, or the first came (monotonic).
        var movedNs: Int64 = 0
        @exclusivity(unchecked) var writer: UnregisteredWriter

        init(_ app: FeedbackApp, nowNs: Int64) {
            self.app = app
            startedNs = nowNs
            writer = UnregisteredWriter(apps: [app.record])
        }
    }

    private let loop: Loop
    private let dialer: Dialer
    private let logger: Logger
    private let writer: FeedbackWriter
    /// By their numbers, which are the tags of their records.
    private var reads: [UInt64: Read] = [:]
    private var lastNumber: UInt64 = 0
    private var isPaused = false
    /// A read is over.
    var onEnd: (FeedbackApp, Outcome) -> Void = { _, _ in }

    init(
        _ cluster: ClusterSettings, topic: String, loop: Loop, logger: Logger
    ) throws(SystemError) {
        self.loop = loop
        self.logger = logger
        dialer = Dialer(loop: loop)
        writer = try FeedbackWriter(cluster, topic: topic, loop: loop, logger: logger)
        writer.onAcknowledged = { [unowned self] in acknowledged($0) }
        writer.onServed = { [unowned self] in served() }
    }

    /// Reads that are not over.
    var count: Int { reads.count }

    /// Of an app's read that is not over: tokens that wait for Kafka, and since when it took none (monotonic).
    func waiting(of app: Int) -> (tokens: Int, sinceNs: Int64) {
        guard let read = reads.values.first(where: { $0.app.index == app }) else { return (0, 0) }
        return (read.told - read.acknowledged, read.movedNs)
    }

    /// What keeps Kafka from taking tokens, in the client's words; empty: nothing that it told.
    var trouble: String { writer.trouble }

    /// How long a question to Kafka may take; the thread waits.
    private static let questionMs: Int32 = 1_500

    /// Begins to read an app's feedback, unless Kafka could not take it now.
    ///
    /// - Throws: `KafkaError`: why it could not. Nothing was read.
    func begin(_ app: FeedbackApp) throws(KafkaError) {
        guard !reads.values.contains(where: { $0.app.index == app.index }) else { return }
        try writer.check(timeoutMs: Self.questionMs)
        lastNumber += 1
        let number = lastNumber
        let read = Read(app, nowNs: loop.now.monotonicNs)
        reads[number] = read
        read.connection = FeedbackConnection(
            app.target, context: app.context, dialer: dialer, loop: loop,
            onItem: { [weak self] seconds, token in self?.take(seconds, token, number) },
            onEnd: { [weak self] end in self?.ended(number, end) })
        read.connection?.pause(isPaused)
    }

    /// No more silence is waited for: the worker is to stop.
    func hurry() { for read in reads.values { read.connection?.hurry() } }

    // MARK: What comes

    private func take(_ seconds: UInt32, _ token: UnsafeRawBufferPointer, _ number: UInt64) {
        guard let read = reads[number] else { return }
        if read.told == read.acknowledged { read.movedNs = loop.now.monotonicNs }
        read.told += 1
        var topic = read.app.topic
        topic.withUTF8 { topic in
            writer.write(
                read.writer.write(
                    feedback: token, topic: UnsafeRawBufferPointer(topic), app: 0,
                    unregisteredAtMs: Int64(seconds) * 1_000, observedAtMs: loop.now.wallMs),
                tag: number)
        }
        if !isPaused, writer.isFull { pause(true) }
        serveSoon()
    }

    private var isAskedToServe = false

    /// At the end of the turn, so that what one read of a socket brought goes together.
    private func serveSoon() {
        guard !isAskedToServe else { return }
        isAskedToServe = true
        loop.atTurnEnd(self)
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

    // MARK: What becomes of it

    private func acknowledged(_ number: UInt64) {
        guard let read = reads[number] else { return }
        read.acknowledged += 1
        read.movedNs = loop.now.monotonicNs
    }

    private func served() {
        if isPaused, writer.hasRoom { pause(false) }
        for (number, read) in reads {
            guard let end = read.end, read.told == read.acknowledged else { continue }
            reads[number] = nil
            finish(read, end)
        }
    }

    private func finish(_ read: Read, _ end: FeedbackConnection.End) {
        let kind: FeedbackStanding.Outcome =
            end.failure == nil ? .complete : read.told > 0 || end.skipped > 0 ? .incomplete : .failed
        let outcome = Outcome(kind: kind, tokens: read.told, skipped: end.skipped, failure: end.failure)
        if let failure = end.failure {
            logger.warning(
                .apns, "feedback could not be read to its end", about: read.app.name,
                ["app": "\(read.app.name)", "tokens": .count(read.told), "reason": "\(failure)"])
        } else {
            logger.log(
                read.told > 0 ? .info : .debug, .apns, "feedback read, and its dead tokens written",
                about: read.app.name, ["app": "\(read.app.name)", "tokens": .count(read.told)])
        }
        onEnd(read.app, outcome)
    }

    /// Ends all reads and lets go of the producer. Says how many tokens of which app are lost; none is named.
    ///
    /// A read that is cut short before its end, and of which Kafka has all that was told, ends as one that failed.
    ///
    /// - Parameter reason: for people: why it is cut short.
    /// - Returns: how many are lost in all.
    @discardableResult
    func close(because reason: String) -> Int {
        writer.serve()
        var lost = 0
        let left = reads.values.sorted { $0.app.index < $1.app.index }
        reads = [:]
        for read in left {
            let missing = read.told - read.acknowledged
            lost += missing
            read.connection?.giveUp(reason)
            guard missing > 0 else {
                finish(read, read.end ?? .init(tokens: read.told, skipped: 0, isCut: false, failure: reason))
                continue
            }
            logger.log(
                .critical, .apns,
                "DEAD TOKENS ARE LOST: the feedback service told them and forgot them, and Kafka did not acknowledge them",
                about: read.app.name,
                [
                    "app": "\(read.app.name)", "lost": .count(missing), "written": .count(read.acknowledged),
                    "was_read_to_its_end": .boolean(read.end != nil), "trouble": "\(writer.trouble)",
                ])
        }
        writer.close()
        return lost
    }
}

extension FeedbackReads: TurnEnder {
    func turnEnded() {
        isAskedToServe = false
        writer.serve()
        served()
    }
}
