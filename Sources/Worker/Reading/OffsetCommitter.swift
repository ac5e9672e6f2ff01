internal import Delivery
internal import Kafka
internal import Observability

/// The member of a group that sends a committer's commits.
protocol CommitSender: AnyObject {
    /// The partition of an assignment; `nil`: it is not ours any more.
    func partition(of id: PartitionID) -> TopicPartition?
    /// Sends a commit, whose reply comes with this tag. Throws when nothing could be sent.
    func send(_ entries: [CommitEntry], tag: UInt64) throws(KafkaError)
}

/// Sends the machine's commits of one group, and brings the replies back; at most one is in flight. Core thread.
final class OffsetCommitter {
    private let group: CommitGroup
    private let logger: Logger
    /// As its log lines name it.
    private let name: String
    /// The partitions of the commit in flight, in the machine's order; `nil`: given up meanwhile.
    private var pending: [TopicPartition?] = []
    private var sentNs: Int64 = 0
    private var tag: UInt64 = 0
    private var problems: [Problem.Subject: Problem] = [:]

    /// A reply that takes longer is told.
    private static let silenceNs: Int64 = 5_000_000_000
    /// One that takes longer is not waited for: librdkafka gives a commit up sooner (after the session's time while
    /// there is no coordinator, then after `socket.timeout.ms`, 10 s), so none comes any more. It is committed anew.
    let lostNs: Int64
    /// A coordinator that knows no such topic for so long is right. One that has just begun to coordinate, or of a
    /// topic that was just created, may not know it yet.
    static let unknownTopicNs: Int64 = 3_000_000_000

    /// - Parameter sessionMs: of the group's members.
    init(_ group: CommitGroup, name: String, sessionMs: Int, logger: Logger) {
        self.group = group
        self.name = name
        self.logger = logger
        lostNs = (Int64(sessionMs) + 20_000) * 1_000_000
    }

    /// Commits what is due.
    func commit(_ machine: inout DeliveryMachine, _ sender: some CommitSender, now: DeliveryTime) {
        if !pending.isEmpty, now.ns - sentNs >= lostNs {
            note(.group(name), .timedOut, Advice.group(name, .timedOut), now)
            tag += 1
            finish(nil, &machine, now)
        }
        guard pending.isEmpty else { return }
        let entries = machine.takeCommit(of: group, now: now)
        guard !entries.isEmpty else { return }
        tag += 1
        sentNs = now.ns
        var batch: [CommitEntry] = []
        for entry in entries {
            let partition = sender.partition(of: entry.partition)
            pending.append(partition)
            guard let partition else { continue }
            batch.append(CommitEntry(partition, offset: entry.offset, metadata: entry.metadata))
        }
        do throws(KafkaError) {
            // A commit of nothing has no reply.
            guard !batch.isEmpty else { return finish(nil, &machine, now) }
            try sender.send(batch, tag: tag)
        } catch {
            note(.group(name), error.code, Advice.group(name, error.code), now)
            finish(nil, &machine, now)
        }
    }

    /// Takes a reply to this group's commits.
    func take(_ reply: CommitReply, _ machine: inout DeliveryMachine, now: DeliveryTime) {
        guard reply.tag == tag, !pending.isEmpty else { return }
        let isAlone = pending.count { $0 != nil } == 1
        var answers = Answers(reply)
        let outcomes = pending.map { partition -> CommitOutcome in
            guard let partition else { return .refused }
            return outcome(of: answers.next(of: partition), partition, isAlone: isAlone, now)
        }
        finish(outcomes, &machine, now)
    }

    /// The answers of a reply, each found where it is expected: they come in the order of the commit, but that
    /// librdkafka puts the partitions of each topic together.
    private struct Answers {
        private let reply: CommitReply
        private var index = 0
        private var byPartition: [TopicPartition: KafkaCode]?

        init(_ reply: CommitReply) { self.reply = reply }

        mutating func next(of partition: TopicPartition) -> KafkaCode {
            if byPartition == nil, index < reply.results.count, reply.results[index].partition == partition {
                index += 1
                return reply.results[index - 1].code
            }
            let all =
                byPartition
                ?? Dictionary(reply.results.map { ($0.partition, $0.code) }, uniquingKeysWith: { first, _ in first })
            byPartition = all
            return all[partition] ?? reply.code
        }
    }

    private func outcome(
        of code: KafkaCode, _ partition: TopicPartition, isAlone: Bool, _ now: DeliveryTime
    ) -> CommitOutcome {
        if code == .none {
            if !problems.isEmpty {
                problems = problems.filter { $0.key != .group(name) && $0.key != .partition(partition) }
            }
            return .acknowledged
        }
        if code == .offsetMetadataTooLarge { return .metadataTooLarge }
        if code.isRebalance {
            logger.debug(.kafka, "a commit came between a rebalance", ["error": "\(code.name)"])
            return .refusedByGroup
        }
        if code.isOfGroup {
            note(.group(name), code, Advice.group(name, code), now)
            return .refusedByGroup
        }
        // librdkafka gives one partition's error to all of the commit (rdkafka_request.c, OffsetCommit).
        guard isAlone else { return .unattributed }
        note(.partition(partition), code, Advice.reading(partition.topic, group: name, code), now)
        let hasLasted = problems[.partition(partition)].map { now.ns - $0.sinceNs >= Self.unknownTopicNs } ?? false
        return code == .topicAuthorizationFailed || code.isUnknownTopic && hasLasted ? .impossible : .refused
    }

    private func note(_ subject: Problem.Subject, _ code: KafkaCode, _ advice: String, _ now: DeliveryTime) {
        let sinceNs = problems[subject]?.sinceNs ?? now.ns
        problems[subject] = Problem(
            subject: subject, kind: .committing, code: code, advice: advice, sinceNs: sinceNs)
        logger.debug(
            .kafka, "a commit is refused; committing again", about: "\(subject) \(code.name)",
            ["subject": "\(subject)", "error": "\(code.name)", "advice": "\(advice)"])
    }

    /// What commits are refused for now, or wait for.
    func problems(now: DeliveryTime) -> [Problem] {
        var named = Array(problems.values)
        if !pending.isEmpty, now.ns - sentNs >= Self.silenceNs, problems[.group(name)] == nil {
            named.append(
                Problem(
                    subject: .group(name), kind: .committing, code: .timedOut,
                    advice: Advice.group(name, .timedOut), sinceNs: sentNs))
        }
        return named
    }

    /// The trouble of partitions that are not ours any more is nobody's.
    func keepOnly(_ isOurs: (TopicPartition) -> Bool) {
        guard !problems.isEmpty else { return }
        problems = problems.filter { entry in
            if case .partition(let partition) = entry.key { isOurs(partition) } else { true }
        }
    }

    /// - Parameter outcomes: `nil`: refused as a whole.
    private func finish(_ outcomes: [CommitOutcome]?, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        pending.removeAll(keepingCapacity: true)
        machine.commitFinished(of: group, outcomes, now: now)
    }
}

extension KafkaCode {
    /// Of a commit: it says something of the group or its coordinator, and nothing of one partition.
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
