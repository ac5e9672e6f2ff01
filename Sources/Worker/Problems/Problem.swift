internal import Kafka
internal import Observability

/// A condition that requires the operator's attention, with advice. The worker's unaffected parts continue.
struct Problem: Sendable, Equatable {
    enum Subject: Hashable, Sendable {
        case kafka, configuration, machine
        case broker(String), topic(String), partition(TopicPartition), group(String)
        case app(String)
        /// A topic for which Apple refuses the app's credential.
        case topicOfApp(String, topic: String)
    }

    /// The kind of a problem. Subject and kind identify a problem: if only its text changes, it is still the same
    /// problem. The raw values are stable, because they appear on `/status` and in the documentation.
    enum Kind: String, CaseIterable, Sendable {
        case kafkaUnreachable = "kafka_unreachable"
        case topicsMissing = "topics_missing"
        case brokerUnreachable = "broker_unreachable"
        case coordinatorSilent = "coordinator_silent"
        case groupDenied = "group_denied"
        case unjoined = "group_not_joined"
        /// Another program has committed offsets in the worker's group.
        case foreignCommit = "group_shared"
        /// The group has no committed offset for partitions that contain records.
        case missingOffsets = "offsets_missing"
        case reading = "not_readable"
        /// Another consumer group's workers write to the retry topic.
        case shared = "retry_topic_shared"
        case committing = "commits_refused"
        case recordsLost = "records_lost"
        case writing = "not_writable"
        case refusingSingle = "records_refused"
        case unacknowledged = "records_unacknowledged"
        case unconnected = "app_unreachable"
        case unanswered = "app_unanswered"
        case credential = "credential_refused"
        case credentialUnusable = "credential_unusable"
        case expiring = "certificate_expiring"
        case slowed = "device_tokens_bad"
        case expired = "requests_expired"
        case clock = "clock_wrong"
        case acceptedLost = "accepted_lost"
        case doubtful = "connections_in_doubt"
        case feedback = "feedback_failed"
        /// A changed configuration or credential file cannot be used, so the worker still uses the previous version.
        case refused = "file_refused"
        /// A setting or a file of the Kafka clients changed, and only a restart applies the change.
        case restartNeeded = "restart_needed"

        fileprivate var reminderNs: Int64 { self == .expiring ? 86_400_000_000_000 : 10_000_000_000 }
    }

    var subject: Subject
    var kind: Kind
    var text: String
    /// The advice to the operator, in one line without a full stop.
    var advice: String
    /// The time at which `ProblemList` first received the problem (wall clock).
    var sinceMs: Int64 = 0

    /// The time for which the worker reports a past event, such as a loss of records, as a problem.
    static let lossNs: Int64 = 10 * 60 * 1_000_000_000

    init(_ subject: Subject, _ kind: Kind, _ text: String, _ advice: String) {
        self.subject = subject
        self.kind = kind
        self.text = namesOnce(text)
        self.advice = advice
    }

    init(_ subject: Subject, _ kind: Kind, _ code: KafkaCode, _ advice: String) {
        self.init(subject, kind, "\(kind.kafkaText): \(code.name)", advice)
    }

    /// - Parameter clockAheadMs: The time of this machine's clock minus that of the brokers' clocks, in milliseconds.
    init(clockAheadMs: Int64) {
        let minutes = (abs(clockAheadMs) + 30_000) / 60_000
        let difference = minutes < 180 ? "\(minutes) minutes" : "\((minutes + 30) / 60) hours"
        let isAhead = clockAheadMs > 0
        self.init(
            .machine, .clock,
            "this machine's clock is \(difference) \(isAhead ? "ahead of" : "behind") the brokers' clocks: APNs may refuse "
                + "provider tokens, and scheduled requests are \(isAhead ? "early" : "late")",
            "correct this machine's clock; if it is right, correct the clocks of the brokers")
    }
}

extension Problem.Subject: CustomStringConvertible {
    var description: String {
        switch self {
        case .kafka: "kafka"
        case .configuration: "configuration"
        case .machine: "machine"
        case .broker(let name): "broker \(name)"
        case .topic(let name): "topic \(name)"
        case .partition(let partition): "partition \(partition)"
        case .group(let name): "group \(name)"
        case .app(let name): "app \(name)"
        case .topicOfApp(let app, let topic): "app \(app), topic \(topic)"
        }
    }
}

extension Problem.Kind {
    fileprivate var kafkaText: String {
        switch self {
        case .unacknowledged:
            "a record produced to the topic more than 10 s ago is not acknowledged; the producer keeps trying"
        case .refusingSingle: "brokers refuse some records and accept others; the refused records are produced again"
        case .writing: "records cannot be written to the topic; the worker keeps them and tries again"
        case .committing: "commits are refused"
        default: "records cannot be read"
        }
    }
}

/// The current problems. A log line is due when a problem begins, every 10 s while it lasts (daily for an expiring
/// certificate), and when the subject no longer has any problem.
struct ProblemList {
    enum Line: Equatable {
        case lasts(Problem, forMs: Int64)
        case isOver(Problem.Subject, afterMs: Int64)
    }

    private var entries: [(problem: Problem, sinceNs: Int64, saidNs: Int64)] = []
    /// The number of problems beyond `limit`, which `problems` does not contain.
    private(set) var leftOut = 0

    /// The maximum number of problems of one kind in `problems`.
    static let limit = 25

    var problems: [Problem] { entries.map(\.problem) }

    /// Replaces the list with all current problems, in display order, and returns the log lines that are due.
    mutating func update(_ found: [Problem], nowNs: Int64, nowMs: Int64) -> [Line] {
        var lines: [Line] = []
        var left = entries
        var counts: [Problem.Kind: Int] = [:]
        let named = found.filter { problem in
            counts[problem.kind, default: 0] += 1
            return counts[problem.kind, default: 0] <= Self.limit
        }
        leftOut = found.count - named.count
        entries = named.map { problem in
            var entry = (problem: problem, sinceNs: nowNs, saidNs: nowNs)
            entry.problem.sinceMs = nowMs
            let place = left.firstIndex { $0.problem.subject == problem.subject && $0.problem.kind == problem.kind }
            if let before = place.map({ left.remove(at: $0) }) {
                entry.problem.sinceMs = before.problem.sinceMs
                entry.sinceNs = before.sinceNs
                if nowNs - before.saidNs < problem.kind.reminderNs {
                    entry.saidNs = before.saidNs
                    return entry
                }
            }
            lines.append(.lasts(entry.problem, forMs: (nowNs - entry.sinceNs) / 1_000_000))
            return entry
        }
        // A problem that `limit` removes from the list has not ended.
        let lasting = Set(found.map(\.subject))
        let over = Dictionary(left.map { ($0.problem.subject, $0.sinceNs) }, uniquingKeysWith: min)
            .filter { !lasting.contains($0.key) }
        for (subject, sinceNs) in over.sorted(by: { $0.key.description < $1.key.description }) {
            lines.append(.isOver(subject, afterMs: (nowNs - sinceNs) / 1_000_000))
        }
        return lines
    }
}
