internal import EventLoop
package import Kafka
package import PushRecords

struct ReplayRecord {
    var record: OwnedRecord
    var topic: String
    var partition: Int32
}

/// Produces requests and commits the job's offsets in one transaction, so that both are there or neither is. The job's
/// group is the producer's transactional id, so that of two runs the one that began last goes on. One thread.
final class ReplayTransactions {
    private let order: ReplayOrder
    private let cluster: ClusterSettings
    private let wait: BrokerWait
    private let reader: OffsetReader
    private var producer: Producer
    /// Whether librdkafka has given the transaction up.
    private var hasFailed = false
    /// The error of a report, above all of one that is about its record.
    private var failure: KafkaCode?

    /// A run that was killed delays readers of the request topics for at most as long. Requests are fetched before a
    /// transaction begins, so that it takes about ten milliseconds.
    private static let timeoutMs = 20_000

    /// - Parameter reader: a client that knows the job's group.
    init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ reader: OffsetReader, _ wait: BrokerWait
    ) throws(CommandFailure) {
        self.order = order
        self.cluster = cluster
        self.reader = reader
        self.wait = wait
        producer = try Self.producer(order, cluster)
    }

    private static func producer(
        _ order: ReplayOrder, _ cluster: ClusterSettings
    ) throws(CommandFailure) -> Producer {
        let transaction = ProducerSettings.Transaction(id: order.group, timeoutMs: timeoutMs)
        do throws(KafkaError) {
            return try Producer(ProducerSettings(cluster: cluster, transaction: transaction))
        } catch {
            throw CommandFailure("Kafka: \(error)")
        }
    }

    /// Aborts an earlier run's transaction, fences that run, and returns the job that the group has committed, if any.
    func begin(_ partitions: [TopicPartition]) throws(CommandFailure) -> ReplayJob? {
        while true {
            try wait.check()
            do throws(TransactionError) {
                try producer.initializeTransactions(timeoutMs: 5_000)
                break
            } catch {
                if let line = denial(error.error.code) { throw CommandFailure(line) }
                guard error.isPassing else { throw CommandFailure("transactions cannot begin: \(error)") }
                wait.say("transactions cannot begin: \(error.error.text)")
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

    /// Produces the records and commits the job's progress, however often brokers fail meanwhile.
    ///
    /// - Parameter committed: the job as its group has committed it; `nil` before the job's first commit.
    /// - Returns: why a broker refuses one of the records, so that nothing was written; `nil` once all is committed.
    func write(
        _ records: [ReplayRecord], _ job: ReplayJob, after committed: ReplayJob?
    ) throws(CommandFailure) -> KafkaCode? {
        let entries = job.entries(since: committed)
        if records.isEmpty, entries.isEmpty { return nil }
        while true {
            try wait.check()
            let ending = try transact(records, entries)
            if case .success(nil) = ending { return nil }
            if case .failure(let error) = ending {
                wait.say("\(error.text); what was not committed is written again")
                try wait.pause(ms: 1_000)
            }
            // A new producer aborts what is open. The group's offsets tell whether the transaction was committed.
            producer = try Self.producer(order, cluster)
            let found = try begin(Array(job.partitions.keys))
            if found == job { return nil }
            guard found == committed else {
                throw CommandFailure(
                    "another run of this job has gone on with it meanwhile (group \(order.group)); this one ends")
            }
            if case .success(let refused) = ending { return refused }
        }
    }

    /// Returns the error if the transaction failed; it may have been committed nevertheless.
    private func transact(
        _ records: [ReplayRecord], _ entries: [CommitEntry]
    ) throws(CommandFailure) -> Result<KafkaCode?, KafkaError> {
        let beganNs = LoopTime.read().monotonicNs
        var isWritten = false
        (failure, hasFailed) = (nil, false)
        do throws(TransactionError) {
            try producer.beginTransaction()
            try produce(records)
            if let failure, Self.isAboutRecord(failure) { return .success(failure) }
            if let fatal = producer.fatalError { throw TransactionError(fatal, isPassing: false) }
            // Throws the reason if librdkafka has given the transaction up.
            if hasFailed { try producer.addOffsets(entries, group: order.group) }
            if let failure { throw TransactionError(KafkaError(failure), isPassing: false) }
            isWritten = true
            try producer.addOffsets(entries, group: order.group)
            try producer.commitTransaction()
            return .success(nil)
        } catch {
            let code = error.error.code
            let isInTime = LoopTime.read().monotonicNs - beganNs < Int64(Self.timeoutMs) * 1_000_000
            // Brokers also fence a producer whose transaction took too long.
            if error.isFenced, isInTime {
                throw CommandFailure(
                    "another run of this job has begun (group \(order.group)), and goes on with it; this one ends")
            }
            let targets = Set(records.map(\.topic)).sorted()
            // Committing offsets of a topic needs the right to read it.
            let line = isWritten ? Denial.reading(order.topic, code) : Denial.writing(targets, code)
            if let line = denial(code) ?? line { throw CommandFailure(line) }
            return .failure(error.error)
        }
    }

    /// Produces the records, and returns once all are acknowledged or something has failed.
    private func produce(_ records: [ReplayRecord]) throws(TransactionError) {
        for record in records where failure == nil {
            do throws(KafkaError) {
                let topic = try producer.topic(record.topic)
                let code = producer.produce(record.record, to: topic, partition: record.partition)
                if code != .none { failure = code }
            } catch {
                throw TransactionError(error, isPassing: false)
            }
        }
        var deadline = LoopTime.read().monotonicNs + Int64(Self.timeoutMs) * 1_000_000
        while producer.outstanding > 0, !(failure.map(Self.isAboutRecord) ?? false) {
            serve(timeoutMs: 50)
            let nowNs = LoopTime.read().monotonicNs
            // The report of the record that is to blame may come after the transaction was given up. Records that were
            // not sent have no report then.
            if failure != nil || hasFailed { deadline = min(deadline, nowNs + 500_000_000) }
            if nowNs >= deadline { break }
        }
        if producer.outstanding > 0, failure == nil, !hasFailed {
            throw TransactionError(
                KafkaError(.timedOut, "the brokers do not acknowledge what is written"), isPassing: false)
        }
    }

    /// Whether a broker refuses a record, or one that is sent together with it, because of its content or size.
    private static func isAboutRecord(_ code: KafkaCode) -> Bool {
        [.messageTooLarge, .invalidRecord, .batchWithInvalidRecord, .policyViolation].contains(code)
    }

    private func serve(timeoutMs: Int32) {
        producer.serve(timeoutMs: timeoutMs) { report in
            if report.code != .none, failure == nil || Self.isAboutRecord(report.code) { failure = report.code }
        } event: { event in
            if Producer.tellsFailedTransaction(event) { hasFailed = true }
            if case .error(let error) = event { wait.say(error.text) }
        }
    }
}

extension Producer {
    /// Queues a record; everything is copied before this returns. The key decides the partition -1.
    package func produce(_ record: OwnedRecord, to topic: ProducerTopic, partition: Int32 = -1) -> KafkaCode {
        record.withLent { key, value, headers in
            produce(
                to: topic, partition: partition, key: key, value: value,
                headers: headers.map { MessageHeader(name: $0.name, value: $0.value) }, tag: 0)
        }
    }
}
