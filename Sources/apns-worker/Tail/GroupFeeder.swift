import Kafka
import PushRecords

/// How much a command gets.
struct BatchLimits {
    /// The most records at a time.
    var records: Int
    /// The most bytes at a time; one record may be larger.
    var bytes = 1 << 20
    /// The most records in all.
    var total: Int
}

/// Reads a topic as a member of a group and hands its records to a command, one batch after the other: what the command
/// took is committed, what it did not take is handed over again. One thread.
///
/// A crash between the command's end and the commit hands a batch over once more, so the command must bear that.
final class GroupFeeder {
    private struct Batch {
        var lines: [UInt8] = []
        var records = 0
        /// The next offset to read of each partition.
        var ends: [TopicPartition: Int64] = [:]
    }

    private let kind: TailKind
    private let topic: String
    private let group: String
    /// Where partitions begin for which the group has no commit. Partitions that are added later begin at their start.
    private let starts: [TopicPartition: Int64]
    private let consumer: Consumer
    private var queues: [PartitionQueue] = []
    /// A revocation that waits for the command to end, and whether the partitions are lost already.
    private var revocation: (isPending: Bool, isLost: Bool) = (false, false)
    private var batch = Batch()
    private var handedOver = 0
    /// How often the command has failed since it last took something.
    private var refusals = 0
    private var commits: UInt64 = 0
    private var answered: UInt64 = 0
    /// The last commit was refused or not answered, so that its records may come again.
    private var isInDoubt = false
    private let troubles = Troubles()
    private var failure: CommandFailure?

    init(
        _ kind: TailKind, _ cluster: ClusterSettings, topic: String, group: String, from start: ReadingStart,
        until deadline: Deadline
    ) throws(CommandFailure) {
        self.kind = kind
        self.topic = topic
        self.group = group
        starts = try TopicReader(cluster, topic: topic, BrokerWait(cluster, until: deadline)).starts(at: start)
        do throws(KafkaError) {
            consumer = try Consumer(ConsumerSettings(cluster: cluster, role: .requests, groupID: group))
            // A name that begins with ^ would be a pattern, and no topic has such a name.
            try consumer.subscribe(to: [topic])
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
    }

    /// Runs until the deadline, the limit or a signal, leaves the group, and returns whether all that was handed over
    /// is committed. A signal leaves the command time to end, and what it took is committed; at the deadline, or a
    /// second signal, the command is ended, and nothing is committed.
    func run(
        _ command: String, _ limits: BatchLimits, until deadline: Deadline, _ signals: borrowing StopSignals
    ) throws(CommandFailure) -> Bool {
        var pauseMs: Int64 = 1_000
        var isStopping = false
        while !isStopping, handedOver < limits.total {
            serve(timeoutMs: batch.records == 0 ? 100 : 0)
            if let failure { throw failure }
            isStopping = signals.came(withinMs: 0) || deadline.hasPassed
            guard !isStopping, fill(limits) else { continue }
            let problem = try hand(to: command, deadline, signals, &isStopping)
            guard let problem else {
                handedOver += batch.records
                (refusals, pauseMs) = (0, 1_000)
                commit()
                settleRevocation()
                continue
            }
            refusals += 1
            let fate = isStopping ? "not committed" : "handed over again in \(pauseMs / 1_000) s"
            complain("the command \(problem); its \(batch.records) records are \(fate)")
            isStopping = wait(pauseMs, deadline, signals) || isStopping
            pauseMs = min(2 * pauseMs, 30_000)
            // What is not committed belongs to the next owner.
            if revocation.isPending { batch = Batch() }
            settleRevocation()
        }
        let (left, refused) = (batch.records, refusals)
        leave()
        var isComplete = !isInDoubt
        if left > 0, refused > 0 {
            let times = refused == 1 ? "once" : "\(refused) times in a row"
            complain("apns-worker tail: the command failed \(times), and \(left) records were not taken before the end")
            isComplete = false
        }
        if limits.total != .max, handedOver < limits.total {
            complain("apns-worker tail: \(handedOver) of \(limits.total) records were taken before the end")
            isComplete = false
        }
        return isComplete
    }

    // MARK: Batches

    /// Returns whether there is something to hand over. Of records without a value, or that cannot be read, only the
    /// places are kept, which are committed with the others.
    private func fill(_ limits: BatchLimits) -> Bool {
        guard batch.records == 0 else { return true }
        let most = min(limits.records, limits.total - handedOver)
        for queue in queues {
            queue.read(max: most) { message in
                guard batch.records < most, batch.lines.count < limits.bytes else { return false }
                let record = ReadRecord(message, of: queue.partition)
                append(record)
                batch.ends[queue.partition] = record.offset + 1
                return true
            }
        }
        return batch.records > 0
    }

    private func append(_ record: ReadRecord) {
        do throws(RecordError) {
            guard let line = try kind.line(record, .json) else { return }
            batch.lines += line.utf8
            batch.lines.append(UInt8(ascii: "\n"))
            batch.records += 1
        } catch {
            complain("\(record.place) cannot be read and is left out: \(error)")
        }
    }

    /// Runs the command with the batch while the group is served; returns why it did not take it, or `nil` if it did.
    private func hand(
        to command: String, _ deadline: Deadline, _ signals: borrowing StopSignals, _ isStopping: inout Bool
    ) throws(CommandFailure) -> String? {
        let process = try ShellCommand(command, input: batch.lines)
        var cut: (why: String, grace: Deadline)?
        while true {
            if let ending = process.ending() {
                // What a command took that was told to end is not known, however it ended.
                return cut.map { "was ended \($0.why)" } ?? (ending == .exited(0) ? nil : "\(ending)")
            }
            serve(timeoutMs: 10)
            let isSignal = signals.came(withinMs: 0)
            if cut == nil, deadline.hasPassed || isSignal && isStopping {
                cut = (
                    deadline.hasPassed ? "at --deadline" : "by a second signal", Deadline(after: ShellCommand.grace)
                )
                process.terminate()
            }
            isStopping = isStopping || isSignal || cut != nil
            if let cut, cut.grace.hasPassed { process.end() }
        }
    }

    private func commit() {
        defer { batch = Batch() }
        guard !revocation.isLost, !batch.ends.isEmpty else { return }
        do throws(KafkaError) {
            commits += 1
            try consumer.commit(batch.ends.map { CommitEntry($0.key, offset: $0.value) }, tag: commits)
        } catch {
            answered = commits
            isInDoubt = true
            complain("the commit was not sent, so these records may come again: \(error)")
        }
    }

    private func awaitCommit() {
        let limit = Deadline(after: .seconds(10))
        while answered < commits, !limit.hasPassed, failure == nil { serve(timeoutMs: limit.leftMs(atMost: 100)) }
        guard answered < commits else { return }
        answered = commits
        isInDoubt = true
        complain("the last commit was not acknowledged, so its records may come again")
    }

    // MARK: The group

    private func serve(timeoutMs: Int32) {
        consumer.serve(timeoutMs: timeoutMs) { event in
            switch event {
            case .assigned(let partitions): assign(partitions)
            case .revoked(_, let isLost): revocation = (true, isLost)
            case .committed(let reply):
                answered = reply.tag
                // What a rebalance refuses, another member takes.
                isInDoubt = reply.code != .none && !reply.code.isRebalance
                if isInDoubt { complain("a commit was refused, so its records may come again: \(reply.code.text)") }
            case .client(.fatal(let error)): failure = CommandFailure("Kafka: \(error)")
            case .client(.error(let error)), .partitionFailed(_, let error):
                if let line = denial(error.code) { failure = CommandFailure(line) } else { troubles.say(error.text) }
            case .offsetReset(let reset): complain(reset.text)
            case .client(.log), .client(.statistics): break
            }
        }
        if batch.records == 0 { settleRevocation() }
    }

    private func denial(_ code: KafkaCode) -> String? {
        Denial.using(group: group, code) ?? Denial.reading(topic, code)
    }

    private func assign(_ partitions: [TopicPartition]) {
        do throws(KafkaError) {
            let committed = try consumer.committed(partitions, timeoutMs: 10_000)
            queues = try consumer.assign(
                committed.map { ($0.partition, $0.offset ?? starts[$0.partition]) })
        } catch {
            failure = CommandFailure(denial(error.code) ?? "\(topic): \(error)")
        }
    }

    /// Answers a revocation that waited for the command.
    private func settleRevocation() {
        guard revocation.isPending else { return }
        revocation.isPending = false
        awaitCommit()
        revocation.isLost = false
        queues = []
        batch = Batch()
        // The records that the command refused are another member's now.
        refusals = 0
        do throws(KafkaError) {
            try consumer.unassign()
        } catch {
            failure = CommandFailure("\(topic): \(error)")
        }
    }

    /// Returns whether it was told to stop meanwhile.
    private func wait(_ milliseconds: Int64, _ deadline: Deadline, _ signals: borrowing StopSignals) -> Bool {
        let pause = Deadline(after: .milliseconds(milliseconds))
        while !pause.hasPassed {
            serve(timeoutMs: pause.leftMs(atMost: 100))
            if signals.came(withinMs: 0) || deadline.hasPassed { return true }
            // Another member gets the records.
            if revocation.isPending || failure != nil { return false }
        }
        return false
    }

    /// Leaves the group, so that other members need not wait for the session's timeout.
    private func leave() {
        batch = Batch()
        awaitCommit()
        guard (try? consumer.startClosing()) != nil else { return }
        let limit = Deadline(after: .seconds(10))
        while !consumer.isClosed, !limit.hasPassed { serve(timeoutMs: limit.leftMs(atMost: 100)) }
    }
}
