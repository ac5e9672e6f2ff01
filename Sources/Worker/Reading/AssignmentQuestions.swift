internal import Delivery
internal import EventLoop
internal import Kafka

/// How long the questions of one turn may wait for brokers, all those together that one group's reader asks. They hold
/// the core up, and with it both groups: each reader has a budget of its own, so a turn waits for two seconds in all,
/// and for one more where a client that was made for a question ends (`Consumer.highWatermarks`).
struct TurnBudget {
    private let endNs: Int64

    /// Of one budget.
    static let milliseconds: Int32 = 1_000
    /// With less, a question waits for the next turn.
    private static let leastMilliseconds: Int32 = 500

    init() { endNs = LoopTime.read().monotonicNs + Int64(Self.milliseconds) * 1_000_000 }

    /// For the next question; `nil`: it is one of the next turn.
    var timeoutMs: Int32? {
        let leftMs = Int32(clamping: (endNs - LoopTime.read().monotonicNs) / 1_000_000)
        return leftMs < Self.leastMilliseconds ? nil : leftMs
    }
}

/// Where an assigned partition is read from, and what is known of its log.
struct AssignedStart {
    var committed: CommittedOffset
    var logStart: Int64?
    var logEnd: Int64?
    /// `nil`: the log's beginning.
    var offset: Int64?
    /// The log is not the one that was committed for.
    var isAnotherLog = false
}

/// What has to be known of partitions before they are read: what is committed for them, and which offsets their logs
/// have. Asked for in as many turns as it takes, in each of which they wait for a second or so (`TurnBudget`), so that
/// all else goes on between them; after one that nobody answered, all else has half a second.
struct AssignmentQuestions {
    let partitions: [TopicPartition]
    private var unasked: [TopicPartition]
    /// One question for all has no answer where one topic is denied: librdkafka fails it as a whole.
    private var isByTopic = false
    private(set) var committed: [CommittedOffset] = []
    /// Partitions of which the topic's error hides what is committed.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    private var starts: [Int64?]?
    private var ends: [Int64?]?
    private var areEndsWhole = false

    init(_ partitions: [TopicPartition]) {
        self.partitions = partitions
        unasked = partitions
    }

    /// Asks on; false: not all is known, and more is to be asked in the next turn. What a log has may stay unknown.
    ///
    /// - Parameter override: what counts as committed for a partition, whatever the group says.
    /// - Throws: why what is committed could not be asked for; what was told stays.
    mutating func ask(
        _ consumer: Consumer, _ budget: TurnBudget, override: (TopicPartition) -> CommittedOffset?
    ) throws(KafkaError) -> Bool {
        while !unasked.isEmpty {
            guard let timeoutMs = budget.timeoutMs else { return false }
            try askCommitted(consumer, timeoutMs, override)
        }
        guard !committed.isEmpty else { return true }
        let names = committed.map(\.partition)
        let unknown: [Int64?] = names.map { _ in nil }
        if starts == nil {
            guard let timeoutMs = budget.timeoutMs else { return false }
            starts = (try? consumer.starts(of: names, timeoutMs: timeoutMs)) ?? unknown
        }
        if ends == nil {
            guard let timeoutMs = budget.timeoutMs else { return false }
            ends = consumer.ends(of: names, timeoutMs: timeoutMs)
        }
        guard !areEndsWhole else { return true }
        // What is beyond the last stable offset need not be beyond the log's end: a transaction may be open.
        let isAnyBeyond = zip(committed, ends ?? unknown).contains { committed, end in
            end.map { committed.offset ?? 0 > $0 } ?? false
        }
        if isAnyBeyond {
            guard let timeoutMs = budget.timeoutMs else { return false }
            ends = consumer.highWatermarks(of: names, timeoutMs: timeoutMs)
        }
        areEndsWhole = true
        return true
    }

    private mutating func askCommitted(
        _ consumer: Consumer, _ timeoutMs: Int32, _ override: (TopicPartition) -> CommittedOffset?
    ) throws(KafkaError) {
        let topic = unasked[0].topic
        let batch = isByTopic ? unasked.filter { $0.topic == topic } : unasked
        do throws(KafkaError) {
            for answer in try consumer.committed(batch, timeoutMs: timeoutMs) {
                let answer = override(answer.partition) ?? answer
                if answer.code == .none || answer.code == .noOffset {
                    committed.append(answer)
                } else {
                    failed.append((answer.partition, answer.code))
                }
            }
        } catch {
            guard error.code.isOfTopic else { throw error }
            if !isByTopic, unasked.contains(where: { $0.topic != topic }) {
                isByTopic = true
                return
            }
            for partition in batch {
                if let answer = override(partition) {
                    committed.append(answer)
                } else {
                    failed.append((partition, error.code))
                }
            }
        }
        unasked = batch.count == unasked.count ? [] : unasked.filter { $0.topic != topic }
    }

    /// Of those for which it is known what is committed, once all was asked.
    func assignedStarts(roleOfTopic: (String) -> PartitionRole) -> [AssignedStart] {
        let unknown: [Int64?] = committed.map { _ in nil }
        return zip(committed, zip(starts ?? unknown, ends ?? unknown)).map { committed, log in
            var start = AssignedStart(committed: committed, logStart: log.0, logEnd: log.1)
            switch ReadingStart(
                committed: committed.offset, logStart: start.logStart, logEnd: start.logEnd)
            {
            case .at(let offset): start.offset = offset
            case .beginning:
                start.offset = nil
                start.isAnotherLog = committed.offset != nil
            }
            // A tier of which nothing is committed starts at its first record: that offset is committed at once, for
            // the tier to be found by it when it is taken out of the configuration.
            if committed.offset == nil, roleOfTopic(committed.partition.topic).isRetry, let logStart = start.logStart {
                start.committed = CommittedOffset(partition: committed.partition, offset: logStart, metadata: [])
                start.offset = logStart
            }
            return start
        }
    }
}

/// Partitions that are not read, since nobody tells what is committed for them, and when to ask again.
struct UntoldPartitions {
    private(set) var partitions: [TopicPartition]
    private(set) var retryNs: Int64
    private var pauseNs = Self.leastPauseNs

    private static let leastPauseNs: Int64 = 1_000_000_000
    private static let longestPauseNs: Int64 = 30_000_000_000

    /// `nil` where there are none.
    init?(_ partitions: [TopicPartition], nowNs: Int64) {
        guard !partitions.isEmpty else { return nil }
        self.partitions = partitions
        retryNs = nowNs + pauseNs
    }

    /// Asks one topic after the other, as far as the budget goes; the others come first the next time. True: one can be
    /// read again.
    mutating func ask(_ consumer: Consumer, _ budget: TurnBudget, nowNs: Int64) -> Bool {
        pauseNs = min(2 * pauseNs, Self.longestPauseNs)
        retryNs = nowNs + pauseNs
        for _ in Set(partitions.map(\.topic)) {
            guard let timeoutMs = budget.timeoutMs else { return false }
            let batch = partitions.filter { $0.topic == partitions[0].topic }
            partitions.removeAll { $0.topic == batch[0].topic }
            partitions += batch
            do throws(KafkaError) {
                let answers = try consumer.committed(batch, timeoutMs: timeoutMs)
                if answers.contains(where: { $0.code == .none || $0.code == .noOffset }) { return true }
            } catch {
                // Nobody answers: the next would only wait as long.
                guard error.code.isOfTopic else { return false }
            }
        }
        return false
    }
}

extension KafkaCode {
    /// It says something of one topic and nothing of another.
    fileprivate var isOfTopic: Bool { isUnknownTopic || self == .topicAuthorizationFailed }
}

extension PartitionRole {
    fileprivate var isRetry: Bool {
        if case .retry = self { true } else { false }
    }
}
