internal import Kafka

/// A broker refused the offset that a partition is read from, and librdkafka went to the log's beginning by itself.
/// Where reading really goes on is decided here, by what the log's leader says when it is asked which offsets there
/// are: until then nothing of the partition is read. Decides only; no clock, no I/O.
struct RefusedPosition {
    enum Finding: Equatable {
        /// The log has the offset: reading goes on there.
        case mistaken
        /// Retention took records that were not read: reading goes on at the first that is left.
        case overtaken(first: Int64)
        /// The log ends below: it is another one, and read from its beginning.
        case anotherLog
    }

    private enum Stage: Equatable {
        case asking
        /// Sent back to the offset, at this time.
        case back(ns: Int64)
        /// Where the log begins, the offset being below.
        case ahead(first: Int64)
        case anotherLog
    }

    private var stage = Stage.asking
    private var askNs: Int64

    /// An answer that does not come is asked for again.
    static let askEveryNs: Int64 = 5_000_000_000
    /// A broker that refuses the offset again and again is doubted so often.
    static let leastPauseNs: Int64 = 1_000_000_000

    init(nowNs: Int64) { askNs = nowNs }

    /// It was refused again.
    mutating func refusedAgain(nowNs: Int64) {
        if stage == .asking { return }
        askNs = nowNs
        if case .back(let ns) = stage { askNs = max(nowNs, ns + Self.leastPauseNs) }
        stage = .asking
    }

    /// Nothing is to be read.
    var isAsking: Bool { stage == .asking }

    /// What comes from below is of another log.
    var isAnotherLog: Bool { stage == .anotherLog }

    /// When `mustAsk` has something to say (monotonic).
    var nextNs: Int64? { isAsking ? askNs : nil }

    /// Whether to ask now how the log stands.
    mutating func mustAsk(nowNs: Int64) -> Bool {
        guard isAsking, nowNs >= askNs else { return false }
        askNs = nowNs + Self.askEveryNs
        return true
    }

    /// Takes what the log's leader says; `nil`: nobody asked.
    ///
    /// - Parameter position: the offset that is to be read next.
    mutating func told(first: Int64, end: Int64, position: Int64, nowNs: Int64) -> Finding? {
        guard isAsking else { return nil }
        if position > end {
            stage = .anotherLog
            return .anotherLog
        }
        if position < first {
            stage = .ahead(first: first)
            return .overtaken(first: first)
        }
        stage = .back(ns: nowNs)
        return .mistaken
    }

    /// What is to be done with what comes at an offset.
    enum Step: Equatable {
        case take
        /// The offset that was refused is reached: it is over.
        case arrived
        /// As `arrived`, behind what retention took: this is the first that was left.
        case ahead(first: Int64)
        /// Where reading goes on is not known yet.
        case wait
        /// It was read before.
        case drop
        /// As `drop`; and since going back came to nothing, that is to be done again.
        case dropAndGoBack
    }

    mutating func step(at offset: Int64, position: Int64, nowNs: Int64) -> Step {
        switch stage {
        case .asking: return .wait
        case .anotherLog: return .take
        case .ahead(let first): return offset >= first ? .ahead(first: first) : .take
        case .back(let ns):
            if offset >= position { return .arrived }
            guard nowNs - ns >= Self.leastPauseNs else { return .drop }
            stage = .back(ns: nowNs)
            return .dropAndGoBack
        }
    }
}

/// Offsets that brokers refused although their logs have them. Decides only; no clock, no I/O.
struct FalseRefusals {
    private var lastNs: [TopicPartition: (sinceNs: Int64, lastNs: Int64)] = [:]

    /// How long one is named: a broker that goes on refusing is asked more often.
    static let namedNs: Int64 = 20_000_000_000

    mutating func note(_ partition: TopicPartition, nowNs: Int64) {
        let known = lastNs[partition].flatMap { nowNs - $0.lastNs < Self.namedNs ? $0 : nil }
        lastNs[partition] = (known?.sinceNs ?? nowNs, nowNs)
        lastNs = lastNs.filter { nowNs - $0.value.lastNs < Self.namedNs }
    }

    func problems(nowNs: Int64) -> [KafkaProblem] {
        lastNs.filter { nowNs - $0.value.lastNs < Self.namedNs }.map { partition, times in
            KafkaProblem(
                subject: .partition(partition), trouble: .refusing, code: .offsetOutOfRange,
                advice: "look at the broker that leads it, and at what stands between", sinceNs: times.sinceNs)
        }
    }
}
