internal import EventLoop
package import Kafka
package import PushRecords

typealias ReplayRecord = (record: OwnedRecord, topic: String, partition: Int32)

/// A transactional producer of a job's requests. Requests and the job's offsets are committed in one transaction, so
/// both become visible or neither does. The job's group is also the transactional id, so if two runs overlap, only the
/// newer run continues. Use it on one thread.
final class ReplayTransactions {
    private let order: ReplayOrder
    private let cluster: ClusterSettings
    private let wait: BrokerWait
    private let reader: OffsetReader
    private var producer: Producer
    /// Whether librdkafka has reported that the current transaction failed.
    private var hasFailed = false
    /// The reason why the records cannot be written together: a broker refused the content or size of a record or of a
    /// batch, or librdkafka's queue is too small for all records.
    private var refusal: KafkaCode?
    /// Any other reason why a record was not written.
    private var failure: KafkaCode?

    /// The transaction timeout in nanoseconds. The open transaction of a killed run delays the readers of the request
    /// topics for at most this time. A transaction normally takes about ten milliseconds, because the run fetches the
    /// requests before it begins the transaction.
    private static let timeoutNs = Int64(ProducerSettings.transactionTimeoutMs) * 1_000_000

    /// - Parameter reader: A client that can read the committed offsets of the job's group.
    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ reader: OffsetReader, _ wait: BrokerWait) throws {
        self.order = order
        self.cluster = cluster
        self.reader = reader
        self.wait = wait
        producer = try Producer(ProducerSettings(cluster: cluster, transactionalID: order.group))
    }

    /// Aborts the transaction of an earlier run or producer, and fences that run. Returns the job that is stored in the
    /// group's committed offsets, or `nil` if there is none. Call the method once for each producer.
    func begin(_ partitions: [TopicPartition]) throws -> ReplayJob? {
        while true {
            try wait.check()
            do throws(KafkaError) {
                try producer.initializeTransactions(timeoutMs: 5_000)
                break
            } catch {
                if let line = denial(error.code) { throw CommandFailure(line) }
                guard error.isPassing else { throw CommandFailure("cannot initialize transactions: \(error)") }
                wait.say("cannot initialize transactions: \(error.text)")
            }
            serve(timeoutMs: 200)
        }
        let found = try wait.answer(about: order.group, from: reader, denial: denial) { timeoutMs throws(KafkaError) in
            let found = try reader.committed(partitions, timeoutMs: timeoutMs)
            for commit in found where commit.code != .none { throw KafkaError(commit.code) }
            return found
        }
        return try ReplayJob(order, found)
    }

    private func denial(_ code: KafkaCode) -> String? {
        Denial.using(group: order.group, code) ?? Denial.writing(transactionalID: order.group, code)
    }

    private var takenOver: CommandFailure {
        CommandFailure("another run of this job has taken over (group \(order.group)), so this run ends")
    }

    /// Produces the records and commits the job's progress in one transaction. Repeats it after a temporary error.
    ///
    /// - Parameter committed: The job's last committed state, or `nil` before the first commit.
    /// - Returns: `nil` after the commit, or else the reason why the records cannot be written in one transaction. In
    ///   this case, nothing was committed.
    func write(_ records: [ReplayRecord], _ job: ReplayJob, after committed: ReplayJob?) throws -> KafkaCode? {
        let entries = job.entries(since: committed)
        if records.isEmpty, entries.isEmpty { return nil }
        while true {
            try wait.check()
            let ending = try transact(records, entries)
            if case .success(nil) = ending { return nil }
            if case .failure(let error) = ending {
                wait.say("\(error.text); uncommitted records will be produced again")
                try wait.pause(ms: 1_000)
            }
            // A new producer aborts the transaction if it is still open. The group's offsets show whether it was
            // committed.
            producer = try Producer(ProducerSettings(cluster: cluster, transactionalID: order.group))
            let found = try begin(Array(job.partitions.keys))
            if found == job { return nil }
            guard found == committed else { throw takenOver }
            if case .success(let refused) = ending { return refused }
        }
    }

    /// Produces the records and commits the offsets in one transaction. A success with a code (`refusal`) means that
    /// the records cannot be written together, so nothing was committed. After a failure, the transaction may have been
    /// committed.
    private func transact(_ records: [ReplayRecord], _ entries: [CommitEntry]) throws -> Result<KafkaCode?, KafkaError>
    {
        let beganNs = LoopTime.read().monotonicNs
        var isWritten = false
        (refusal, failure, hasFailed) = (nil, nil, false)
        do {
            try producer.beginTransaction()
            try produce(records)
            if let refusal { return .success(refusal) }
            isWritten = failure == nil && !hasFailed && producer.outstanding == 0
            // If the transaction has failed, `addOffsets` throws the reason.
            try producer.addOffsets(entries, group: order.group)
            guard isWritten else { throw KafkaError(failure ?? .timedOut) }
            try producer.commitTransaction()
            return .success(nil)
        } catch let error as KafkaError {
            let code = error.code
            let isInTime = LoopTime.read().monotonicNs - beganNs < Self.timeoutNs
            // Brokers also fence a producer whose transaction took too long.
            if code.isFenced, isInTime { throw takenOver }
            let targets = Set(records.map(\.topic)).sorted()
            // Committing offsets of a topic requires READ on the topic.
            let line = isWritten ? Denial.reading(order.topic, code) : Denial.writing(targets, code)
            if let line = denial(code) ?? line { throw CommandFailure(line) }
            return .failure(error)
        }
    }

    /// Produces the records. Returns at the first of these events:
    /// - Kafka has acknowledged all records.
    /// - A record was refused (`refusal`).
    /// - Half a second has passed since any other failure.
    /// - The transaction timeout has passed.
    private func produce(_ records: [ReplayRecord]) throws {
        for record in records where refusal == nil && failure == nil {
            let topic = try producer.topic(record.topic)
            note(producer.produce(record.record, to: topic, partition: record.partition))
        }
        var deadline = LoopTime.read().monotonicNs + Self.timeoutNs
        while producer.outstanding > 0, refusal == nil, LoopTime.read().monotonicNs < deadline {
            serve(timeoutMs: 50)
            // After a failure, wait up to half a second for the report of the record that caused the failure. Records
            // that librdkafka has not sent get no report after a failed transaction.
            if failure != nil || hasFailed { deadline = min(deadline, LoopTime.read().monotonicNs + 500_000_000) }
        }
    }

    private func note(_ code: KafkaCode) {
        switch code {
        case .none: break
        case .messageTooLarge, .invalidRecord, .batchWithInvalidRecord, .policyViolation, .queueFull: refusal = code
        default: failure = failure ?? code
        }
    }

    private func serve(timeoutMs: Int32) {
        producer.serve(timeoutMs: timeoutMs) {
            note($0.code)
        } event: { event in
            if Producer.tellsFailedTransaction(event) { hasFailed = true }
            if case .error(let error) = event { wait.say(error.text) }
        }
    }
}

extension OwnedRecord {
    package init(_ message: borrowing Message) {
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        self.init(copying: message.key, message.value, headers: headers)
    }
}

extension Producer {
    /// Queues a record whose bytes are copied before the method returns. With partition -1, the partitioner chooses the
    /// partition.
    package func produce(_ record: OwnedRecord, to topic: ProducerTopic, partition: Int32 = -1) -> KafkaCode {
        record.withLent { key, value, headers in
            headers.map { MessageHeader(name: $0.name, value: $0.value) }.withUnsafeBufferPointer {
                produce(to: topic, partition: partition, key: key, value: value, headers: $0, tag: 0)
            }
        }
    }
}
