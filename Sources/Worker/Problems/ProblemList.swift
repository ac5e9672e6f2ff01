internal import Observability

/// Something that keeps the worker from doing its work as it should; it works on.
struct Fault: Sendable, Hashable {
    /// What is the matter with a subject, however it is worded: a fault goes on as long as there is one of its kind.
    enum Kind: Sendable, Hashable {
        /// Nobody answers, or is connected.
        case silent
        /// The client that asks does not come back.
        case stuck
        case missing
        case denied
        case unusable
        /// Some of its partitions have no leader.
        case leaderless
        /// Some of its partitions take nothing: too few of their replicas are in sync.
        case outOfSync
        /// Its configuration loses records.
        case unsafe
        /// Its configuration loses records when many wait.
        case bounded
        /// Records were gone before they were read.
        case lost
        case unjoined
        case unwritable
        case unreadable
        /// Records wait for the end of a transaction.
        case stalled
        case uncommitted
        case credential
        /// A newer one is there and cannot be used.
        case refused
        case topicCredential(String)
        case slowed
        /// Its feedback cannot be read, or its dead tokens not be written.
        case feedback
        /// Its certificate is in its last days, or past them.
        case expiring
        case unconnected
        /// Its connections end while something on them is in doubt, again and again.
        case doubtful
        /// Its host, or the broker, takes requests and answers none.
        case unanswered
        /// A quota of the broker's is exceeded.
        case throttled

        /// The kind, whatever it names.
        fileprivate var family: Self { if case .topicCredential = self { .topicCredential("") } else { self } }

        /// How often it is said while it lasts.
        fileprivate var sayEveryNs: Int64 { self == .expiring ? 86_400_000_000_000 : 10_000_000_000 }
    }

    /// The thing: `kafka`, `topic apns.requests`, `group apns-worker`, `app shop`.
    var subject: String
    var kind: Kind
    /// What is wrong with it.
    var text: String
    /// What to do.
    var advice: String

    init(_ subject: String, _ kind: Kind, _ text: String, _ advice: String) {
        self.subject = subject
        self.kind = kind
        self.text = namesOnce(text)
        self.advice = advice
    }
}

/// A fault, and how long it has lasted.
struct Problem: Sendable, Equatable {
    var subject: String
    var text: String
    var advice: String
    /// Wall clock.
    var sinceMs: Int64

    init(_ fault: Fault, sinceMs: Int64) {
        subject = fault.subject
        text = fault.text
        advice = fault.advice
        self.sinceMs = sinceMs
    }
}

/// The faults there are, and what is to be said about them: a line when one begins, another every 10 s while it lasts
/// (a certificate that ends: every day), and one when its subject has none any more.
struct ProblemList {
    enum Line: Equatable {
        case lasts(Problem)
        /// Of a subject, after so many milliseconds.
        case isOver(subject: String, afterMs: Int64)
    }

    private struct Entry {
        var problem: Problem
        let kind: Fault.Kind
        var sinceNs: Int64
        var saidNs: Int64
    }

    private var entries: [Entry] = []
    /// Left out because there are too many.
    private(set) var leftOut = 0

    /// More are counted, not named.
    static let limit = 50

    var problems: [Problem] { entries.map(\.problem) }

    /// Takes what is wrong now, in the order in which it is to be shown, and returns what to say. A subject's fault
    /// goes on whatever words it changes, as long as its kind is the same.
    mutating func update(_ faults: [Fault], nowNs: Int64, nowMs: Int64) -> [Line] {
        var lines: [Line] = []
        var fresh: [Entry] = []
        var left = entries
        leftOut = max(0, faults.count - Self.limit)
        for fault in Self.named(of: faults) {
            let place =
                left.firstIndex { $0.problem.subject == fault.subject && $0.kind == fault.kind }
            if let place {
                var entry = left.remove(at: place)
                entry.problem = Problem(fault, sinceMs: entry.problem.sinceMs)
                if nowNs - entry.saidNs >= fault.kind.sayEveryNs {
                    entry.saidNs = nowNs
                    lines.append(.lasts(entry.problem))
                }
                fresh.append(entry)
            } else {
                let problem = Problem(fault, sinceMs: nowMs)
                fresh.append(Entry(problem: problem, kind: fault.kind, sinceNs: nowNs, saidNs: nowNs))
                lines.append(.lasts(problem))
            }
        }
        entries = fresh
        var over: [String: Int64] = [:]
        for entry in left { over[entry.problem.subject] = min(over[entry.problem.subject] ?? .max, entry.sinceNs) }
        // What is only not named any more is not over.
        for (subject, sinceNs) in over.sorted(by: { $0.key < $1.key })
        where !faults.contains(where: { $0.subject == subject }) {
            lines.append(.isOver(subject: subject, afterMs: (nowNs - sinceNs) / 1_000_000))
        }
        return lines
    }

    /// Those that there is room for, in their order: the first of each kind, then the second of each, and so on, so
    /// that many of one kind hide none of another.
    private static func named(of faults: [Fault]) -> [Fault] {
        guard faults.count > limit else { return faults }
        var counts: [Fault.Kind: Int] = [:]
        let ranked = faults.indices.map { index in
            let kind = faults[index].kind.family
            defer { counts[kind, default: 0] += 1 }
            return (rank: counts[kind] ?? 0, index: index)
        }
        let kept = ranked.sorted { ($0.rank, $0.index) < ($1.rank, $1.index) }.prefix(limit)
        return kept.map(\.index).sorted().map { faults[$0] }
    }
}
