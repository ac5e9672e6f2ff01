import EventLoop
import Kafka
import PushRecords

/// How much a command gets.
struct BatchLimits {
    /// Most records at a time.
    var records: Int
    /// Most bytes at a time; one record may be larger.
    var bytes = 1 << 20
    /// Most records in all; `nil`: no limit.
    var total: Int?
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
    private let start: ReadingStart
    private let group: String
    private let question: TopicQuestion
    /// How many partitions the topic had when the command began: `start` is for these. What was added since is read
    /// from its beginning.
    private let partitions: Int
    private let consumer: Consumer
    private var queues: [PartitionQueue] = []
    /// A revocation that waits for the command to end.
    private var isRevoked = false
    private var isLost = false
    private var batch = Batch()
    private var handedOver = 0
    /// How often the command failed since it last took something.
    private var refusals = 0
    private var commits: UInt64 = 0
    private var answered: UInt64 = 0
    /// The last commit was refused, or nobody answered: its records may come again.
    private var isInDoubt = false
    private var troubles = Troubles()
    private var failure: CommandFailure?

    init(
        _ kind: TailKind, _ cluster: ClusterSettings, topic: String, group: String, from start: ReadingStart,
        until deadline: Deadline
    ) throws(CommandFailure) {
        self.kind = kind
        self.topic = topic
        self.group = group
        self.start = start
        do throws(KafkaError) {
            question = try TopicQuestion(cluster, until: deadline)
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
        partitions = try question.partitions(of: topic, else: Denial.reading).count
        do throws(KafkaError) {
            consumer = try Consumer(ConsumerSettings(cluster: cluster, role: .requests, groupID: group))
            // A name that begins with ^ would be a pattern; none of ours does.
            try consumer.subscribe(to: [topic])
        } catch {
            throw CommandFailure("\(topic): \(error)")
        }
    }

    /// Until the deadline, the limit or a signal; then the group is left. A signal leaves the command time to end, and
    /// what it took is committed; at the deadline, or a second signal, it is ended, and nothing is.
    func run(
        _ command: String, _ limits: BatchLimits, until deadline: Deadline, _ signals: borrowing StopSignals
    ) throws(CommandFailure) -> ExitCode {
        var pauseMs: Int64 = 1_000
        var isStopping = false
        while !isStopping, handedOver < limits.total ?? .max {
            serve(timeoutMs: batch.records == 0 ? 100 : 0)
            if let failure { throw failure }
            isStopping = signals.came(withinMs: 0) || deadline.hasPassed
            guard !isStopping, fill(limits) else { continue }
            let ending = try hand(to: command, deadline, signals, &isStopping)
            if ending == .ended(.exited(0)) {
                handedOver += batch.records
                refusals = 0
                pauseMs = 1_000
                commit()
                settle()
                continue
            }
            refusals += 1
            complain(
                "the command \(ending); "
                    + (isStopping
                        ? "its \(batch.records) records are not committed"
                        : "its \(batch.records) records are handed over again in \(pauseMs / 1_000) s"))
            isStopping = wait(pauseMs, deadline, signals) || isStopping
            pauseMs = min(2 * pauseMs, 30_000)
            settle(keepsBatch: true)
        }
        // Leaving forgets both.
        let (left, refused) = (batch.records, refusals)
        leave()
        var isComplete = !isInDoubt
        if left > 0, refused > 0 {
            let times = refused == 1 ? "once" : "\(refused) times in a row"
            complain("apns-worker tail: the command failed \(times), and \(left) records were not taken before the end")
            isComplete = false
        }
        if let total = limits.total, handedOver < total {
            complain("apns-worker tail: \(handedOver) of \(total) records were taken before the end")
            isComplete = false
        }
        return isComplete ? .fine : .failed
    }

    // MARK: Batches

    /// Whether there is something to hand over.
    private func fill(_ limits: BatchLimits) -> Bool {
        guard batch.records == 0 else { return true }
        let most = min(limits.records, (limits.total ?? .max) - handedOver)
        for queue in queues {
            queue.read(max: most) { message in
                guard batch.records < most, batch.lines.count < limits.bytes else { return false }
                let record = ReadRecord(message, of: queue.partition)
                append(record)
                batch.ends[queue.partition] = record.offset + 1
                return true
            }
        }
        // Of records that say nothing, or cannot be read, only the places are kept; they are committed with the others.
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

    /// How a command ended.
    private enum Ending: Equatable, CustomStringConvertible {
        case ended(ShellCommand.Ending)
        /// It was told to end: however it did, nobody knows what it took.
        case cut(String)

        var description: String {
            switch self {
            case .ended(let ending): "\(ending)"
            case .cut(let why): "was ended \(why)"
            }
        }
    }

    /// Runs the command with the batch; the group is served meanwhile.
    private func hand(
        to command: String, _ deadline: Deadline, _ signals: borrowing StopSignals, _ isStopping: inout Bool
    ) throws(CommandFailure) -> Ending {
        let process = try ShellCommand(command, input: batch.lines)
        var cut: (why: String, grace: Deadline)?
        while true {
            if let ending = process.ending() { return cut.map { .cut($0.why) } ?? .ended(ending) }
            serve(timeoutMs: 10)
            var why: String?
            if signals.came(withinMs: 0) {
                if isStopping { why = "by a second signal" }
                isStopping = true
            }
            if deadline.hasPassed { why = "at --deadline" }
            if let why, cut == nil {
                isStopping = true
                cut = (why, Deadline(after: ShellCommand.grace))
                process.terminate()
            }
            if let cut, cut.grace.hasPassed { process.end() }
        }
    }

    private func commit() {
        defer { batch = Batch() }
        guard !isLost, !batch.ends.isEmpty else { return }
        do throws(KafkaError) {
            commits += 1
            try consumer.commit(batch.ends.map { CommitEntry($0.key, offset: $0.value) }, tag: commits)
        } catch {
            answered = commits
            isInDoubt = true
            complain("the commit was not sent, so these records may come again: \(error)")
        }
    }

    /// Answers a revocation that waited for the command.
    private func settle(keepsBatch: Bool = false) {
        guard isRevoked else { return }
        // What is not committed belongs to the next owner.
        if keepsBatch { batch = Batch() }
        awaitCommit()
        unassign()
    }

    // MARK: The group

    private func serve(timeoutMs: Int32) {
        consumer.serve(timeoutMs: timeoutMs) { event in
            switch event {
            case .assigned(let partitions): assign(partitions)
            case .revoked(_, let lost):
                isRevoked = true
                isLost = lost
            case .committed(let reply):
                answered = reply.tag
                // What a rebalance refuses, another member takes.
                isInDoubt = reply.code != .none && !reply.code.isRebalance
                if isInDoubt {
                    complain("a commit was refused, so its records may come again: \(reply.code.text)")
                }
            case .client(.fatal(let error)): failure = CommandFailure("Kafka: \(error)")
            case .client(.error(let error)), .partitionFailed(_, let error):
                if let denial = denial(error.code) { failure = denial } else { troubles.say(error) }
            case .offsetReset(let reset): complain(reset.text)
            case .client(.log), .client(.statistics): break
            }
        }
        if isRevoked, batch.records == 0 { unassign() }
    }

    /// Which right is missing.
    private func denial(_ code: KafkaCode) -> CommandFailure? {
        (Denial.using(group: group, code) ?? Denial.reading(topic, code)).map { CommandFailure($0) }
    }

    private func assign(_ partitions: [TopicPartition]) {
        var starts: [TopicPartition: Int64] = [:]
        do throws(KafkaError) {
            for committed in try consumer.committed(partitions, timeoutMs: 10_000) {
                starts[committed.partition] = committed.offset
            }
        } catch {
            failure = denial(error.code) ?? CommandFailure("\(topic): \(error)")
            return
        }
        do throws(CommandFailure) {
            let fresh = partitions.filter { starts[$0] == nil && $0.partition < self.partitions }
            if start != .beginning, !fresh.isEmpty {
                starts.merge(try question.starts(of: fresh, at: start, question.bounds(of: fresh))) { $1 }
            }
        } catch {
            failure = error
            return
        }
        do throws(KafkaError) {
            queues = try consumer.assign(partitions.map { PartitionStart($0, offset: starts[$0]) })
        } catch {
            failure = CommandFailure("\(topic): \(error)")
        }
    }

    private func unassign() {
        isRevoked = false
        isLost = false
        queues = []
        batch = Batch()
        // What it refused is another member's now.
        refusals = 0
        do throws(KafkaError) {
            try consumer.unassign()
        } catch {
            failure = CommandFailure("\(topic): \(error)")
        }
    }

    // MARK: Waiting

    /// Whether it was told to stop meanwhile.
    private func wait(_ milliseconds: Int64, _ deadline: Deadline, _ signals: borrowing StopSignals) -> Bool {
        let pause = Deadline(after: .milliseconds(milliseconds))
        while !pause.hasPassed {
            serve(timeoutMs: pause.leftMs(atMost: 100))
            if signals.came(withinMs: 0) || deadline.hasPassed { return true }
            // Somebody else gets the records.
            if isRevoked || failure != nil { return false }
        }
        return false
    }

    private func awaitCommit() {
        let limit = Deadline(after: .seconds(10))
        while answered < commits, !limit.hasPassed, failure == nil { serve(timeoutMs: limit.leftMs(atMost: 100)) }
        guard answered < commits else { return }
        answered = commits
        isInDoubt = true
        complain("the last commit was not acknowledged, so its records may come again")
    }

    /// Leaves the group, so that others need not wait for the session's timeout.
    private func leave() {
        batch = Batch()
        awaitCommit()
        guard (try? consumer.startClosing()) != nil else { return }
        let limit = Deadline(after: .seconds(10))
        while !consumer.isClosed, !limit.hasPassed { serve(timeoutMs: limit.leftMs(atMost: 100)) }
    }
}
