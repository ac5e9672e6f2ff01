internal import Delivery
internal import Kafka
internal import Observability

/// Sends the delivery machine's offset commits of one group, and passes the replies to the machine. At most one commit
/// is in flight. Core thread.
final class OffsetCommitter {
    private let group: CommitGroup
    private let logger: Logger
    private let name: String
    /// The partitions of the commit in flight, in the order of the machine's entries. `nil` for a partition that was
    /// given up.
    private var pending: [TopicPartition?] = []
    private var sentNs: Int64 = 0
    private var tag: UInt64 = 0
    /// The current problems of commits, with the time at which each began (monotonic).
    private var problems: [Problem.Subject: (problem: Problem, sinceNs: Int64)] = [:]

    /// The time without a reply after which a commit in flight counts as a problem.
    private static let silenceNs: Int64 = 5_000_000_000
    /// How long the coordinator must answer "unknown topic" before the worker treats a commit as impossible. If the
    /// coordinator was just elected or the topic was just created, the coordinator may lack the topic's metadata.
    static let unknownTopicNs: Int64 = 3_000_000_000

    init(_ group: CommitGroup, name: String, logger: Logger) {
        self.group = group
        self.name = name
        self.logger = logger
    }

    /// - Parameters:
    ///   - partitionOf: Returns the partition of an assignment, or `nil` after the partition was given up.
    ///   - send: Sends a commit whose reply has the given tag. Throws if the commit could not be sent.
    func commit(
        _ machine: inout DeliveryMachine, now: DeliveryTime, partitionOf: (PartitionID) -> TopicPartition?,
        send: ([CommitEntry], UInt64) throws(KafkaError) -> Void
    ) {
        guard pending.isEmpty else { return }
        let entries = machine.takeCommit(of: group, now: now)
        guard !entries.isEmpty else { return }
        tag += 1
        sentNs = now.ns
        pending = entries.map { partitionOf($0.partition) }
        let batch = zip(entries, pending).compactMap { entry, partition in
            partition.map { CommitEntry($0, offset: entry.offset, metadata: entry.metadata) }
        }
        do throws(KafkaError) {
            // The batch is empty if all partitions of the commit have been given up.
            guard !batch.isEmpty else { return finish(nil, &machine, now) }
            try send(batch, tag)
        } catch {
            note(.group(name), error.code, Advice.group(name, error.code), now)
            finish(nil, &machine, now)
        }
    }

    func take(_ reply: CommitReply, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard reply.tag == tag, !pending.isEmpty else { return }
        let isAlone = pending.count { $0 != nil } == 1
        let outcomes = pending.map { partition -> CommitOutcome in
            guard let partition else { return .refused }
            return outcome(of: reply.codes[partition] ?? reply.code, partition, isAlone: isAlone, now)
        }
        finish(outcomes, &machine, now)
    }

    private func outcome(
        of code: KafkaCode, _ partition: TopicPartition, isAlone: Bool, _ now: DeliveryTime
    ) -> CommitOutcome {
        if code == .none {
            problems[.group(name)] = nil
            problems[.partition(partition)] = nil
            return .acknowledged
        }
        if code.isRebalance {
            logger.log(.debug, .kafka, "commit refused during a rebalance", ["error": "\(code.name)"])
            return .refusedByGroup
        }
        if code == .offsetMetadataTooLarge || code.isOfGroup {
            note(.group(name), code, Advice.group(name, code), now)
            return code == .offsetMetadataTooLarge ? .metadataTooLarge : .refusedByGroup
        }
        // librdkafka reports one partition's error for all partitions of the commit (rdkafka_request.c, OffsetCommit),
        // so the partition at fault is known only if the commit has a single partition.
        guard isAlone else { return .unattributed }
        note(.partition(partition), code, Advice.reading(partition.topic, group: name, code), now)
        let hasLasted = problems[.partition(partition)].map { now.ns - $0.sinceNs >= Self.unknownTopicNs } ?? false
        return code == .topicAuthorizationFailed || code.isUnknownTopic && hasLasted ? .impossible : .refused
    }

    private func note(_ subject: Problem.Subject, _ code: KafkaCode, _ advice: String, _ now: DeliveryTime) {
        problems[subject] = (Problem(subject, .committing, code, advice), problems[subject]?.sinceNs ?? now.ns)
    }

    /// Returns the current problems of commits. Drops the problems of partitions that were given up, and the group's
    /// problems when no partition is left, because no further commit could end them.
    func problems(now: DeliveryTime, of assigned: [TopicPartition]) -> [Problem] {
        problems = problems.filter { entry in
            if case .partition(let partition) = entry.key { assigned.contains(partition) } else { !assigned.isEmpty }
        }
        var named = problems.values.map(\.problem)
        if !pending.isEmpty, now.ns - sentNs >= Self.silenceNs, problems[.group(name)] == nil {
            named.append(Problem(.group(name), .committing, .timedOut, Advice.group(name, .timedOut)))
        }
        return named
    }

    /// - Parameter outcomes: The commit outcome of each partition, or `nil` if the whole commit failed.
    private func finish(_ outcomes: [CommitOutcome]?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        pending = []
        machine.commitFinished(of: group, outcomes, now: now)
    }
}

extension KafkaCode {
    /// Whether a commit's error concerns the group or its coordinator, and not one partition.
    fileprivate var isOfGroup: Bool {
        switch self {
        case .groupAuthorizationFailed, .clusterAuthorizationFailed, .coordinatorNotAvailable, .notCoordinator,
            .coordinatorLoading, .waitingForCoordinator, .timedOut, .timedOutInQueue, .requestTimedOut, .transport,
            .allBrokersDown, .fencedInstance:
            true
        default: false
        }
    }
}
