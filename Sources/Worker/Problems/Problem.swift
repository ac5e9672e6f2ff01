internal import Kafka
internal import Observability

/// Something that keeps a part of the worker from doing its work; the rest goes on.
struct Problem: Sendable, Equatable {
    enum Subject: Hashable, Sendable {
        case kafka, configuration
        case broker(String), topic(String), partition(TopicPartition), group(String)
        case app(String)
    }

    /// What is wrong with the subject, however it is worded. A problem lasts while its subject has one of its kind.
    enum Kind: Hashable, Sendable {
        /// It does not answer.
        case silent, unanswered
        case unconnected
        case denied
        /// Records or notifications were lost.
        case lost
        /// A topic that cannot be written.
        case writing, refusingSingle, unacknowledged
        /// A topic or partition that cannot be read.
        case reading
        /// A retry topic that another group of workers writes to.
        case shared
        case committing
        case unjoined
        case credential, topicCredential(String)
        /// A newer file is there and cannot be used.
        case refused
        case slowed
        /// Feedback that cannot be read, or dead tokens that cannot be written.
        case feedback
        /// A certificate in its last days, or past them.
        case expiring
        /// Connections that end again and again while something on them is in doubt.
        case doubtful

        /// The kind whatever topic it names.
        fileprivate var family: Self { if case .topicCredential = self { .topicCredential("") } else { self } }

        fileprivate var reminderNs: Int64 { self == .expiring ? 86_400_000_000_000 : 10_000_000_000 }
    }

    var subject: Subject
    var kind: Kind
    /// What is wrong.
    var text: String
    /// What a person can do about it.
    var advice: String
    /// Kafka's error; `.none` for other problems.
    var code: KafkaCode
    /// When it began (monotonic).
    var sinceNs: Int64
    /// When `ProblemList` first saw it (wall clock).
    var sinceMs: Int64 = 0

    /// How long something is reported that was lost for good, or that happened too often.
    static let lossNs: Int64 = 10 * 60 * 1_000_000_000

    init(
        _ subject: Subject, _ kind: Kind, _ text: String, _ advice: String, code: KafkaCode = .none, sinceNs: Int64 = 0
    ) {
        self.subject = subject
        self.kind = kind
        self.text = namesOnce(text)
        self.advice = advice
        self.code = code
        self.sinceNs = sinceNs
    }

    /// A problem that an error code of Kafka's tells of.
    init(subject: Subject, kind: Kind, code: KafkaCode, advice: String, sinceNs: Int64) {
        self.init(subject, kind, "\(kind.kafkaText): \(code.name)", advice, code: code, sinceNs: sinceNs)
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
        }
    }
}

extension Problem.Kind {
    fileprivate var kafkaText: String {
        switch self {
        case .unacknowledged:
            "a record was written to it more than 10 s ago and has no acknowledgement; the producer tries on, and what "
                + "waits for it stays open"
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

    static let limit = 50

    var problems: [Problem] { entries.map(\.problem) }

    /// Takes all present problems in the order to show them, and returns the log lines that are due.
    mutating func update(_ found: [Problem], nowNs: Int64, nowMs: Int64) -> [Line] {
        var lines: [Line] = []
        var left = entries
        leftOut = max(0, found.count - Self.limit)
        entries = Self.named(of: found).map { problem in
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

    /// The first `limit` problems, in their order: the first of each kind, then the second of each, and so on, so that
    /// many of one kind hide none of another.
    private static func named(of problems: [Problem]) -> [Problem] {
        guard problems.count > limit else { return problems }
        var counts: [Problem.Kind: Int] = [:]
        let ranked = problems.enumerated().map { index, problem in
            let rank = counts[problem.kind.family, default: 0]
            counts[problem.kind.family] = rank + 1
            return (rank, index)
        }
        return ranked.sorted(by: <).prefix(limit).map(\.1).sorted().map { problems[$0] }
    }
}
