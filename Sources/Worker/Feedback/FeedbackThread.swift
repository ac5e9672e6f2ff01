internal import EventLoop
internal import Kafka
internal import Observability
internal import Synchronization

/// Reads the feedback of all apps at their intervals. The separate thread and producer ensure that no notification
/// waits for a feedback read.
///
/// Any thread may call the methods. `@unchecked Sendable` is correct, because only the feedback thread uses the mutable
/// state until `stop` has joined this thread.
final class FeedbackThread: @unchecked Sendable {
    /// An app's index and the state of its feedback reads, posted to the core thread.
    typealias StandingUpdate = (app: Int, standing: FeedbackStanding)

    private let standings: Mailbox<StandingUpdate>
    private let thread: LoopThread
    private let isOver = Atomic(false)

    private let reader: FeedbackReader
    private var apps: [Int: FeedbackApp] = [:]
    private var plan = FeedbackPlan()
    private var alarm: Alarm?
    private var current: [Int: FeedbackStanding] = [:]
    private var isFinishing = false

    init(
        _ cluster: ClusterSettings, topic: String, logger: Logger, standings: Mailbox<StandingUpdate>
    ) throws(SystemError) {
        self.standings = standings
        thread = try LoopThread(name: "feedback")
        reader = FeedbackReader(cluster, topic: topic, loop: thread.loop, logger: logger)
        reader.onEnd = { [unowned self] in ended($0, $1) }
        alarm = Alarm(loop: thread.loop) { [unowned self] in runDueReads() }
    }

    /// Sets the apps whose feedback is read. A changed app takes effect at its next read.
    func set(_ apps: [FeedbackApp]) {
        thread.loop.perform { [self] in
            self.apps = Dictionary(uniqueKeysWithValues: apps.map { ($0.index, $0) })
            plan.set(self.apps.mapValues(\.intervalNs), nowNs: thread.loop.now.monotonicNs)
            runDueReads()
        }
    }

    /// Begins no more reads. Current reads continue, because the service has deleted the tokens that it has sent.
    func finish() {
        thread.loop.perform { [self] in
            isFinishing = true
            plan.set([:], nowNs: 0)
            reader.hurry()
            runDueReads()
        }
    }

    /// Whether, after `finish`, all reads have ended and Kafka has acknowledged their tokens.
    var hasFinished: Bool { isOver.load(ordering: .acquiring) }

    /// Ends the thread, and logs the number of tokens that are lost because Kafka has not acknowledged them. The
    /// producer's doorbell exists until this object is freed, because librdkafka may still use the doorbell.
    func stop() {
        thread.loop.perform { [self] in
            alarm = nil
            reader.close(because: "the worker stopped")
        }
        thread.stop()
        thread.join()
    }

    // MARK: Feedback thread

    private func runDueReads() {
        if isFinishing, reader.count == 0 { isOver.store(true, ordering: .releasing) }
        let nowNs = thread.loop.now.monotonicNs
        while let index = plan.due(nowNs: nowNs), let app = apps[index] {
            do throws(KafkaError) {
                try reader.begin(app)
                plan.began(index, nowNs: nowNs)
                current[index] = current[index] ?? FeedbackStanding()
            } catch {
                // All due reads are postponed, because checking Kafka for each of them would block the thread each
                // time.
                for index in plan.postpone(nowNs: nowNs) {
                    current[index, default: FeedbackStanding()].failure =
                        "Kafka cannot accept the app's dead tokens now: \(error.text)"
                }
            }
        }
        for (index, var standing) in current {
            (standing.waiting, standing.waitingSinceNs) = reader.waiting(of: index)
            standings.post((index, standing))
        }
        let nextNs = min(plan.nextNs, reader.count > 0 ? nowNs + 1_000_000_000 : .max)
        if nextNs < .max { alarm?.set(atNs: nextNs) } else { alarm?.clear() }
    }

    private func ended(_ app: FeedbackApp, _ outcome: FeedbackOutcome) {
        current[app.index, default: FeedbackStanding()].tokens += outcome.tokens
        current[app.index]?.reads[outcome.kind, default: 0] += 1
        current[app.index]?.failure = outcome.failure
        plan.ended(app.index, isComplete: outcome.kind == .complete, nowNs: thread.loop.now.monotonicNs)
        thread.loop.schedule(afterNs: 0) { [weak self] in self?.runDueReads() }
    }
}

/// The schedule of feedback reads. A value type without a clock or I/O.
struct FeedbackPlan {
    private struct Entry {
        var intervalNs: Int64
        /// The time of the app's next read, or `Int64.max` during a read.
        var dueNs: Int64
        /// The start time of the app's current or last read.
        var startedNs: Int64 = 0
    }

    private var entries: [Int: Entry] = [:]

    /// The delay before the first read of an app, and before the first read after its interval changed.
    static let firstNs: Int64 = 1_000_000_000
    /// The delay before an incomplete or failed read is repeated, unless the interval is shorter.
    static let retryNs: Int64 = 60_000_000_000
    /// The delay before another attempt to begin a read after Kafka did not answer.
    static let postponedNs: Int64 = 5_000_000_000

    /// Sets the apps with their intervals. With an interval of 0, the app's feedback is not read.
    mutating func set(_ intervals: [Int: Int64], nowNs: Int64) {
        let former = entries
        entries = [:]
        for (app, intervalNs) in intervals where intervalNs > 0 {
            var entry = former[app] ?? Entry(intervalNs: 0, dueNs: 0)
            if entry.intervalNs != intervalNs, entry.dueNs < .max { entry.dueNs = nowNs + Self.firstNs }
            entry.intervalNs = intervalNs
            entries[app] = entry
        }
    }

    /// The time of the next read of any app, or `Int64.max` if none is scheduled.
    var nextNs: Int64 { entries.values.lazy.map(\.dueNs).min() ?? .max }

    func due(nowNs: Int64) -> Int? {
        entries.filter { $0.value.dueNs <= nowNs }.min { ($0.value.dueNs, $0.key) < ($1.value.dueNs, $1.key) }?.key
    }

    mutating func began(_ app: Int, nowNs: Int64) {
        entries[app]?.startedNs = nowNs
        entries[app]?.dueNs = .max
    }

    /// Postpones all due reads and returns the indexes of their apps.
    mutating func postpone(nowNs: Int64) -> [Int] {
        let due = entries.filter { $0.value.dueNs <= nowNs }.map(\.key)
        for app in due { entries[app]?.dueNs = nowNs + Self.postponedNs }
        return due
    }

    /// Registers the end of a read. The app's next read is due an interval after this read began, or earlier if this
    /// read was incomplete.
    mutating func ended(_ app: Int, isComplete: Bool, nowNs: Int64) {
        guard let entry = entries[app] else { return }
        let regularNs = entry.startedNs + entry.intervalNs
        entries[app]?.dueNs =
            isComplete ? regularNs : min(max(regularNs, nowNs + 1_000_000_000), nowNs + Self.retryNs)
    }
}
