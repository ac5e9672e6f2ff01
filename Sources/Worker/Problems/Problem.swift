internal import Kafka
internal import Observability

/// Something that keeps a part of the worker from doing its work; the rest goes on.
struct Problem: Sendable, Equatable {
    enum Subject: Hashable, Sendable {
        case kafka, configuration
        case broker(String), topic(String), partition(TopicPartition), group(String)
        case app(String)
        /// A topic for which Apple refuses the app's credential.
        case topicOfApp(String, topic: String)
    }

    /// What is wrong with the subject, however it is worded. A problem lasts while its subject has one of its kind.
    /// The names stand on `/status` and in the documentation, and do not change.
    enum Kind: String, CaseIterable, Sendable {
        case kafkaUnreachable = "kafka_unreachable"
        case topicsMissing = "topics_missing"
        case brokerUnreachable = "broker_unreachable"
        case coordinatorSilent = "coordinator_silent"
        case groupDenied = "group_denied"
        case unjoined = "group_not_joined"
        case reading = "not_readable"
        /// Another group of workers writes to the retry topic.
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
        case acceptedLost = "accepted_lost"
        case doubtful = "connections_in_doubt"
        case feedback = "feedback_failed"
        /// A newer configuration or credential file cannot be used, and the one before stays in force.
        case refused = "file_refused"

        fileprivate var reminderNs: Int64 { self == .expiring ? 86_400_000_000_000 : 10_000_000_000 }
    }

    var subject: Subject
    var kind: Kind
    var text: String
    /// One sentence in the imperative that says what to do.
    var advice: String
    /// The time at which `ProblemList` first saw it (wall clock).
    var sinceMs: Int64 = 0

    /// The time for which a loss, or something that happened too often, is reported.
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
}

extension Problem.Subject: CustomStringConvertible {
    var description: String {
        switch self {
        case .kafka: "kafka"
        case .configuration: "configuration"
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
            "a record was produced to it more than 10 s ago and has no acknowledgement; the producer keeps trying"
        case .refusingSingle: "it refuses single records while it takes others; they are tried again"
        case .writing: "it cannot be written; what needs it waits"
        case .committing: "commits are refused"
        default: "it cannot be read"
        }
    }
}

/// The problems there are, and the log lines about them: one when a problem begins, another every 10 s while it lasts
/// (every day for a certificate that ends), and one when its subject has none any more.
struct ProblemList {
    enum Line: Equatable {
        case lasts(Problem)
        case isOver(Problem.Subject, afterMs: Int64)
    }

    private var entries: [(problem: Problem, sinceNs: Int64, saidNs: Int64)] = []
    /// Problems beyond `limit`, which are counted but not named.
    private(set) var leftOut = 0

    /// How many problems of one kind are named.
    static let limit = 25

    var problems: [Problem] { entries.map(\.problem) }

    /// Takes all present problems in the order to show them, and returns the log lines that are due.
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
            lines.append(.lasts(entry.problem))
            return entry
        }
        // A problem that only lost its place in the list is not over.
        let lasting = Set(found.map(\.subject))
        let over = Dictionary(left.map { ($0.problem.subject, $0.sinceNs) }, uniquingKeysWith: min)
            .filter { !lasting.contains($0.key) }
        for (subject, sinceNs) in over.sorted(by: { $0.key.description < $1.key.description }) {
            lines.append(.isOver(subject, afterMs: (nowNs - sinceNs) / 1_000_000))
        }
        return lines
    }
}
