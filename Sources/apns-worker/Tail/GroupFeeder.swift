import Glibc
import Kafka
import PushRecords

/// A member of a consumer group that passes the records of a topic to a shell command in batches. It commits a batch if
/// the command succeeds, and otherwise passes the batch to the command again. Not thread-safe.
///
/// After a crash between the end of the command and the commit, the batch is passed a second time, so the command must
/// be idempotent.
final class GroupFeeder {
    private struct Batch {
        var lines: [UInt8] = []
        var records = 0
        /// The offset to commit for each partition.
        var ends: [TopicPartition: Int64] = [:]
    }

    private enum Revocation { case requested, lost }

    private let kind: TailKind
    private let topic: String
    private let group: String
    /// The offsets at which to start partitions without a committed offset. Partitions added later are read from their
    /// log start offset.
    private let starts: [TopicPartition: Int64]
    private let consumer: Consumer
    private var queues: [PartitionQueue] = []
    /// Partitions that are read from their log start offset because their committed offset is out of range.
    private var outOfRange: Set<TopicPartition> = []
    /// The group's revocation, which the feeder answers after the running command has ended.
    private var revocation: Revocation?
    private var batch = Batch()
    private var taken = 0
    private var commits: UInt64 = 0
    private var commitReply: KafkaCode?
    /// Whether the last commit was refused or not answered, so that the batch's records may be read again.
    private var isInDoubt = false
    private let troubles = Troubles()
    private var failure: CommandFailure?

    /// The size in bytes at which a batch is full. A single record may be larger.
    private static let byteLimit = 1 << 20

    init(
        _ kind: TailKind, _ cluster: ClusterSettings, topic: String, group: String, sessionTimeoutMs: Int?,
        from start: ReadingStart, until deadline: Deadline
    ) throws {
        self.kind = kind
        self.topic = topic
        self.group = group
        starts = try TopicReader(cluster, topic: topic, BrokerWait(cluster, until: deadline)).starts(at: start)
        var settings = ConsumerSettings(cluster: cluster, role: .requests, groupID: group)
        if let sessionTimeoutMs { settings.sessionTimeoutMs = sessionTimeoutMs }
        consumer = try Consumer(settings)
        // librdkafka would treat a name that begins with ^ as a pattern, but no topic has such a name.
        try consumer.subscribe(to: [topic])
    }

    /// Runs until `total` records are processed, the deadline passes or a signal arrives, then leaves the group.
    ///
    /// - After the first signal, the feeder waits until the running command has ended, and commits its batch.
    /// - At the deadline or after a second signal, the feeder stops the running command (SIGTERM, then SIGKILL) and
    ///   does not commit its batch.
    ///
    /// - Returns: Whether all records that were read are processed and committed, and `total` (unless it is `Int.max`)
    ///   is reached.
    func run(
        _ command: String, batch limit: Int, total: Int, until deadline: Deadline, _ signals: borrowing StopSignals
    ) throws -> Bool {
        var pauseMs: Int64 = 1_000
        var isStopping = false
        while !isStopping, taken < total {
            try serve(timeoutMs: 100)
            ShellCommand.reapOrphans()
            isStopping = signals.take() || deadline.hasPassed
            guard !isStopping, fill(min(limit, total - taken)) else { continue }
            if let problem = try hand(to: command, deadline, signals, &isStopping) {
                let fate = isStopping ? "not committed" : "passed to the command again in \(pauseMs / 1_000) s"
                complain("the command \(problem); \(batch.records) records are \(fate)")
                isStopping = try wait(pauseMs, deadline, signals) || isStopping
                pauseMs = min(2 * pauseMs, 30_000)
                // The next owner of the partition reads the uncommitted records again.
                if revocation != nil { batch = Batch() }
            } else {
                taken += batch.records
                pauseMs = 1_000
                try commit()
            }
            try settleRevocation()
        }
        let left = batch.records
        leave()
        if left > 0 { complain("apns-worker tail: \(left) records were not processed before tail ended") }
        if total != .max, taken < total {
            complain("apns-worker tail: \(taken) of \(total) records were processed before tail ended")
        }
        return !isInDoubt && left == 0 && (total == .max || taken >= total)
    }

    // MARK: Batches

    /// Fills the batch, and returns whether it has records for the command. Unreadable records and tombstones are only
    /// committed.
    private func fill(_ limit: Int) -> Bool {
        guard batch.records == 0 else { return true }
        for queue in queues {
            queue.read(max: limit) { message in
                guard batch.records < limit, batch.lines.count < Self.byteLimit else { return false }
                append(message, of: queue.partition)
                batch.ends[queue.partition] = message.offset + 1
                return true
            }
        }
        return batch.records > 0
    }

    private func append(_ message: borrowing Message, of partition: TopicPartition) {
        do throws(RecordError) {
            guard let record = try PublishedRecord(kind, message) else { return }
            batch.lines += (record.json + "\n").utf8
            batch.records += 1
        } catch {
            complain("\(partition)/\(message.offset) cannot be read and is skipped: \(error)")
        }
    }

    /// Runs the command with the batch while handling the consumer's events. Returns the command's error, or `nil` on
    /// success.
    private func hand(
        to command: String, _ deadline: Deadline, _ signals: borrowing StopSignals, _ isStopping: inout Bool
    ) throws -> String? {
        let process = try ShellCommand(command, input: batch.lines)
        var cut: (reason: String, grace: Deadline)?
        while true {
            if let status = process.status() {
                // A killed command may have processed some records, so the batch does not count as processed.
                if let cut { return "was stopped \(cut.reason)" }
                // wait(2): bits 0 to 6 are the signal, bits 8 to 15 the exit status.
                if status & 0x7F != 0 { return "was killed by signal \(status & 0x7F)" }
                return status == 0 ? nil : "exited with \(status >> 8 & 0xFF)"
            }
            try serve(timeoutMs: 10)
            let isSignal = signals.take()
            if cut == nil, deadline.hasPassed || isSignal && isStopping {
                cut = (
                    deadline.hasPassed ? "at --deadline" : "by a second signal", Deadline(after: ShellCommand.grace)
                )
                process.send(SIGTERM)
            }
            isStopping = isStopping || isSignal || cut != nil
            if let cut, cut.grace.hasPassed { process.send(SIGKILL) }
        }
    }

    /// Commits the batch, and waits up to ten seconds for the broker's answer.
    private func commit() throws {
        defer { batch = Batch() }
        guard revocation != .lost, !batch.ends.isEmpty else { return }
        commits += 1
        commitReply = nil
        try consumer.commit(batch.ends.map { CommitEntry($0.key, offset: $0.value) }, tag: commits)
        let limit = Deadline(after: .seconds(10))
        while commitReply == nil, !limit.hasPassed { try serve(timeoutMs: limit.leftMs(atMost: 100)) }
        // A commit that the broker refuses because of a rebalance is not in doubt: the partition's next owner reads the
        // records again.
        isInDoubt = commitReply.map { $0 != .none && !$0.isRebalance } ?? true
        if isInDoubt {
            complain(
                "the commit was not acknowledged, so the records of this batch may be read again: \(commitReply?.text ?? "no answer")"
            )
        }
    }

    // MARK: The group

    private func serve(timeoutMs: Int32) throws {
        consumer.serve(timeoutMs: batch.records == 0 ? timeoutMs : min(timeoutMs, 10)) { event in
            switch event {
            case .assigned(let partitions): assign(partitions)
            case .revoked(_, let isLost): revocation = isLost ? .lost : .requested
            case .committed(let reply): if reply.tag == commits { commitReply = reply.code }
            case .client(.fatal(let error)): failure = CommandFailure("Kafka: \(error)")
            case .partitionFailed(let partition, let error) where error.code == .autoOffsetReset:
                complain("\(partition) is read from its beginning: \(error.text)")
                outOfRange.insert(partition)
            case .client(.error(let error)), .partitionFailed(_, let error):
                if let line = denial(error.code) { failure = CommandFailure(line) } else { troubles.say(error.text) }
            case .client(.log), .client(.statistics): break
            }
        }
        if let failure { throw failure }
        if !outOfRange.isEmpty, queues.contains(where: { outOfRange.contains($0.partition) }) {
            queues = []
            try consumer.rejoin([topic])
        }
        if batch.records == 0 { try settleRevocation() }
    }

    private func denial(_ code: KafkaCode) -> String? {
        Denial.using(group: group, code) ?? Denial.reading(topic, code)
    }

    private func assign(_ partitions: [TopicPartition]) {
        do throws(KafkaError) {
            let committed = try consumer.committed(partitions, timeoutMs: 10_000)
            if let unknown = committed.first(where: { $0.code != .none && $0.code != .noOffset }) {
                throw KafkaError(unknown.code, "committed offset of \(unknown.partition): \(unknown.code.text)")
            }
            queues = try consumer.assign(
                committed.map { found in
                    let isKnown = outOfRange.remove(found.partition) == nil
                    return (found.partition, isKnown ? found.offset ?? starts[found.partition] : nil)
                })
        } catch {
            failure = CommandFailure(denial(error.code) ?? "\(topic): \(error)")
        }
    }

    private func settleRevocation() throws {
        guard revocation != nil else { return }
        revocation = nil
        queues = []
        batch = Batch()
        try consumer.unassign()
    }

    /// Waits before the feeder passes the batch again. Returns whether this process should stop.
    private func wait(_ milliseconds: Int64, _ deadline: Deadline, _ signals: borrowing StopSignals) throws -> Bool {
        let pause = Deadline(after: .milliseconds(milliseconds))
        // A revocation ends the wait, because this member must give up the partitions.
        while !pause.hasPassed, revocation == nil {
            if signals.take() || deadline.hasPassed { return true }
            try serve(timeoutMs: pause.leftMs(atMost: 100))
        }
        return false
    }

    /// Leaves the group, so that other members do not have to wait for the session timeout.
    private func leave() {
        batch = Batch()
        guard (try? consumer.startClosing()) != nil else { return }
        let limit = Deadline(after: .seconds(10))
        while !consumer.isClosed, !limit.hasPassed { try? serve(timeoutMs: limit.leftMs(atMost: 100)) }
    }
}
