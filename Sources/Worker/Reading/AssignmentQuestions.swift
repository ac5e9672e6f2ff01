internal import Delivery
internal import EventLoop
internal import Kafka

/// How long the questions of one turn may wait for brokers, all those together that one group's reader asks. They hold
/// the core up, and with it both groups: each reader has a budget of its own, so a turn waits for two seconds in all.
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
    /// The topic has another id than the one for which was committed.
    var isRecreated = false
}

/// Asks what has to be known of partitions before they are read: the ids of their topics, what is committed for them,
/// and which offsets their logs have. It takes as many turns as it needs, in each of which it waits for a second or so
/// (`TurnBudget`), so that all else goes on between them.
struct AssignmentQuestions {
    let partitions: [TopicPartition]
    private var unasked: [TopicPartition]
    /// One question for all has no answer where one topic is denied: librdkafka fails it as a whole.
    private var isByTopic = false
    /// `nil` until they were asked for.
    private var ids: [String: TopicID]?
    private var committed: [CommittedOffset] = []
    /// Partitions of which the topic's error hides what is committed.
    private(set) var failed: [(partition: TopicPartition, code: KafkaCode)] = []
    private var starts: [Int64?]?
    private var ends: [Int64?]?

    init(_ partitions: [TopicPartition]) {
        self.partitions = partitions
        unasked = partitions
    }

    /// The ids of the partitions' topics, as far as they were told.
    var topicIDs: [String: TopicID] { ids ?? [:] }

    /// Asks on; false: not all is known, and more is to be asked in the next turn. Ids and what a log has may stay
    /// unknown.
    ///
    /// - Throws: why what is committed could not be asked for; what was told stays.
    mutating func ask(_ consumer: Consumer, _ budget: TurnBudget) throws(KafkaError) -> Bool {
        if ids == nil {
            guard let timeoutMs = budget.timeoutMs else { return false }
            ids = consumer.topicIDs(of: Set(partitions.map(\.topic)), timeoutMs: timeoutMs)
        }
        while !unasked.isEmpty {
            guard let timeoutMs = budget.timeoutMs else { return false }
            try askCommitted(consumer, timeoutMs)
        }
        guard !committed.isEmpty else { return true }
        let names = committed.map(\.partition)
        if starts == nil {
            guard let timeoutMs = budget.timeoutMs else { return false }
            starts = (try? consumer.starts(of: names, timeoutMs: timeoutMs)) ?? names.map { _ in nil }
        }
        if ends == nil {
            guard let timeoutMs = budget.timeoutMs else { return false }
            ends = consumer.ends(of: names, timeoutMs: timeoutMs)
        }
        return true
    }

    private mutating func askCommitted(_ consumer: Consumer, _ timeoutMs: Int32) throws(KafkaError) {
        let topic = unasked[0].topic
        let batch = isByTopic ? unasked.filter { $0.topic == topic } : unasked
        do throws(KafkaError) {
            for answer in try consumer.committed(batch, timeoutMs: timeoutMs) {
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
            failed += batch.map { ($0, error.code) }
        }
        unasked = batch.count == unasked.count ? [] : unasked.filter { $0.topic != topic }
    }

    /// Of those for which it is known what is committed, once all was asked.
    func assignedStarts(
        knownIDs: [String: TopicID], roleOfTopic: (String) -> PartitionRole
    ) -> [AssignedStart] {
        let unknown: [Int64?] = committed.map { _ in nil }
        return zip(committed, zip(starts ?? unknown, ends ?? unknown)).map { committed, log in
            let topic = committed.partition.topic
            var start = AssignedStart(committed: committed, logStart: log.0, logEnd: log.1)
            // This end is the last stable offset, which an open transaction keeps below what was committed. An offset
            // that really is beyond the log's end is refused when it is read.
            if let end = start.logEnd, let offset = committed.offset, OffsetLimit.holds(offset), offset > end {
                start.logEnd = nil
            }
            if case .at(let offset) = DeliveryMachine.readingStart(
                committed: committed.offset, logStart: start.logStart, logEnd: start.logEnd)
            {
                start.offset = offset
            }
            if let known = knownIDs[topic], let id = topicIDs[topic], known != id {
                start.isRecreated = true
                start.offset = nil
            }
            // A tier of which nothing is committed starts at its first record: that offset is committed at once, for
            // the tier to be found by it when it is taken out of the configuration.
            if committed.offset == nil, roleOfTopic(topic).isRetry, let logStart = start.logStart {
                start.committed = CommittedOffset(partition: committed.partition, offset: logStart, metadata: [])
                start.offset = logStart
            }
            return start
        }
    }
}

/// Assigned partitions that are not read, since nobody tells what is committed for them, and when to ask again.
struct PartitionsAwaitingOffsets {
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
