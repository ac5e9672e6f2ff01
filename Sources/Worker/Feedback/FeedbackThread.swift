internal import EventLoop
internal import Kafka
internal import Network
internal import Observability
internal import Synchronization

/// Reads the feedback of all apps that have one, each as often as it says, on a thread and with a producer of its own:
/// nothing on a notification's way waits for it. Any thread: what is no constant and not atomic (`state`) is its own
/// thread's, or whose who has joined that. This is what `@unchecked Sendable` stands for.
final class FeedbackThread: @unchecked Sendable {
    /// How an app's feedback stands, by the app's place.
    typealias Told = (app: Int, standing: FeedbackStanding)

    private let thread: LoopThread
    private let logger: Logger
    private let makeState: () throws(SystemError) -> ThreadState
    /// The thread's; whoever has joined it may let go of it.
    private var state: ThreadState?
    private let underWay = Atomic(0)
    /// Calls of `finish` that the thread has not heard of.
    private let unheard = Atomic(0)

    /// Starts the thread; `standings` gets how each app's feedback stands whenever that changes.
    init(
        _ cluster: ClusterSettings, topic: String, logger: Logger, standings: Mailbox<Told>
    ) throws(SystemError) {
        thread = try LoopThread(name: "feedback")
        self.logger = logger
        makeState = { [loop = thread.loop] () throws(SystemError) in
            ThreadState(
                try FeedbackReads(cluster, topic: topic, loop: loop, logger: logger), loop,
                standings)
        }
    }

    /// The apps there are now: what is said of one is in force at its next read, and who is not there is not read
    /// again.
    func set(_ apps: [FeedbackApp]) {
        thread.loop.perform { [self] in
            if state == nil { makeStateIfPossible() }
            state?.set(apps)
        }
    }

    private func makeStateIfPossible() {
        do throws(SystemError) {
            state = try makeState()
            state?.onCount = { [unowned self] in underWay.store($0, ordering: .releasing) }
        } catch {
            logger.error(.apns, "feedback cannot be read before the configuration is read again", ["error": "\(error)"])
        }
    }

    /// Begins no read any more; those under way go on, since the service has forgotten what it told.
    func finish() {
        unheard.add(1, ordering: .acquiringAndReleasing)
        thread.loop.perform { [self] in
            state?.finish()
            unheard.subtract(1, ordering: .acquiringAndReleasing)
        }
    }

    /// Whether no read is under way, and Kafka has all tokens of those before. After `finish` it stays so.
    var isIdle: Bool { unheard.load(ordering: .acquiring) == 0 && underWay.load(ordering: .acquiring) == 0 }

    /// Ends the thread; what Kafka has not acknowledged is lost, and a line says so. The clients' doorbell lives as
    /// long as this object.
    func stop() {
        thread.loop.perform { [self] in state?.close() }
        thread.stop()
        thread.join()
    }

    /// What only the thread touches.
    private final class ThreadState {
        private let reads: FeedbackReads
        private let loop: Loop
        private let standings: Mailbox<Told>
        private var apps: [Int: FeedbackApp] = [:]
        private var plan = FeedbackPlan()
        private var alarm: Alarm?
        /// By the apps' places, and as told last.
        private var current: [Int: FeedbackStanding] = [:]
        private var told: [Int: FeedbackStanding] = [:]
        var onCount: (Int) -> Void = { _ in }

        init(_ reads: FeedbackReads, _ loop: Loop, _ standings: Mailbox<Told>) {
            self.reads = reads
            self.loop = loop
            self.standings = standings
            alarm = Alarm(loop: loop) { [unowned self] in look() }
            reads.onEnd = { [unowned self] in ended($0, $1) }
        }

        func set(_ apps: [FeedbackApp]) {
            self.apps = Dictionary(uniqueKeysWithValues: apps.map { ($0.index, $0) })
            plan.set(self.apps.mapValues(\.intervalNs), nowNs: loop.now.monotonicNs)
            look()
        }

        /// Begins what is due, and tells what has changed.
        private func look() {
            let nowNs = loop.now.monotonicNs
            var trouble: String?
            while let index = plan.due(nowNs: nowNs), let app = apps[index] {
                if trouble == nil { trouble = begin(app, nowNs) }
                if let trouble { postpone(app, because: trouble, nowNs) }
            }
            for index in current.keys { noteWaiting(index) }
            tell()
            let pollNs = reads.count > 0 ? nowNs + 1_000_000_000 : .max
            if let nextNs = [plan.nextNs ?? .max, pollNs].min(), nextNs < .max {
                alarm?.set(atNs: nextNs)
            } else {
                alarm?.clear()
            }
        }

        /// Why Kafka keeps it from beginning; `nil`: it has begun.
        private func begin(_ app: FeedbackApp, _ nowNs: Int64) -> String? {
            do throws(KafkaError) {
                try reads.begin(app)
            } catch {
                return error.text
            }
            plan.began(app.index, nowNs: nowNs)
            onCount(reads.count)
            if current[app.index] == nil { current[app.index] = FeedbackStanding() }
            return nil
        }

        /// Whoever else is due is not begun either: the question would take its time again.
        private func postpone(_ app: FeedbackApp, because trouble: String, _ nowNs: Int64) {
            plan.postponed(app.index, nowNs: nowNs)
            current[app.index, default: FeedbackStanding()].failure =
                "Kafka cannot take its dead tokens now: \(trouble)"
        }

        private func ended(_ app: FeedbackApp, _ outcome: FeedbackReads.Outcome) {
            current[app.index, default: FeedbackStanding()].tokens += outcome.tokens
            current[app.index]?.count(outcome.kind)
            current[app.index]?.failure = outcome.failure
            plan.ended(app.index, isComplete: outcome.kind == .complete, nowNs: loop.now.monotonicNs)
            onCount(reads.count)
            loop.schedule(afterNs: 0) { [weak self] in self?.look() }
        }

        private func noteWaiting(_ index: Int) {
            let (tokens, sinceNs) = reads.waiting(of: index)
            current[index]?.waiting = tokens
            current[index]?.waitingSinceNs = tokens > 0 ? sinceNs : 0
        }

        private func tell() {
            for (index, standing) in current where told[index] != standing {
                if standings.post((index, standing)) { told[index] = standing }
            }
        }

        func finish() {
            set([])
            reads.hurry()
        }

        func close() {
            alarm = nil
            apps = [:]
            reads.close(because: "the worker stopped")
        }
    }
}

/// When which app's feedback is to be read. Decides only; no clock, no I/O.
struct FeedbackPlan {
    private struct Entry {
        var intervalNs: Int64
        var dueNs: Int64
        /// When the read began that goes on, or the last one.
        var startedNs: Int64?
        var isReading = false
        /// The last one failed.
        var isRetry = false
    }

    /// By the apps' places.
    private var entries: [Int: Entry] = [:]

    /// Before the first read of an app.
    static let firstNs: Int64 = 1_000_000_000
    /// Before one that failed is tried again, unless its interval is shorter.
    static let retryNs: Int64 = 60_000_000_000
    /// Before one is tried again that Kafka kept from beginning.
    static let postponedNs: Int64 = 5_000_000_000

    /// The apps there are now, and how often they are read; whose interval is 0 is not.
    mutating func set(_ intervals: [Int: Int64], nowNs: Int64) {
        entries = entries.filter { intervals[$0.key] ?? 0 > 0 }
        for (app, intervalNs) in intervals where intervalNs > 0 {
            var entry = entries[app] ?? Entry(intervalNs: intervalNs, dueNs: nowNs + Self.firstNs)
            if entry.intervalNs != intervalNs, let startedNs = entry.startedNs, !entry.isRetry {
                entry.dueNs = startedNs + intervalNs
            }
            entry.intervalNs = intervalNs
            entries[app] = entry
        }
    }

    /// When the next read is to begin; `nil`: none is.
    var nextNs: Int64? { entries.values.lazy.filter { !$0.isReading }.map(\.dueNs).min() }

    /// An app whose read is to begin now.
    func due(nowNs: Int64) -> Int? {
        entries.filter { !$0.value.isReading && $0.value.dueNs <= nowNs }
            .min { ($0.value.dueNs, $0.key) < ($1.value.dueNs, $1.key) }?.key
    }

    mutating func began(_ app: Int, nowNs: Int64) {
        entries[app]?.startedNs = nowNs
        entries[app]?.isReading = true
    }

    /// Its read could not begin.
    mutating func postponed(_ app: Int, nowNs: Int64) { entries[app]?.dueNs = nowNs + Self.postponedNs }

    /// Its read is over; the next is due an interval after it began.
    mutating func ended(_ app: Int, isComplete: Bool, nowNs: Int64) {
        guard var entry = entries[app] else { return }
        let regularNs = (entry.startedNs ?? nowNs) + entry.intervalNs
        entry.isReading = false
        entry.isRetry = !isComplete
        entry.dueNs = isComplete ? regularNs : min(max(regularNs, nowNs + 1_000_000_000), nowNs + Self.retryNs)
        entries[app] = entry
    }
}
