internal import EventLoop
package import Kafka
package import PushRecords

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
    /// The first error of each kind that a report had.
    private var failures: [KafkaCode] = []

    /// A run that was killed holds up readers of the request topics for at most as long. Requests are fetched before a
    /// transaction begins, so that it takes some ten milliseconds.
    private static let timeoutMs = 20_000

    enum Ending: Hashable {
        case committed
        /// One of the records is refused for itself, and nothing was written.
        case refused(KafkaCode)
    }

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

    /// Aborts what an earlier run left open, fences a run that is still there, and returns what the job's group has
    /// committed.
    func begin(_ partitions: [TopicPartition]) throws(CommandFailure) -> [CommittedOffset] {
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
        return try wait.answer(about: order.group, from: reader, denial: denial) { timeoutMs throws(KafkaError) in
            let found = try reader.committed(partitions, timeoutMs: timeoutMs)
            for commit in found where commit.code != .none { throw KafkaError(commit.code) }
            return found
        }
    }

    private func denial(_ code: KafkaCode) -> String? {
        Denial.using(group: order.group, code) ?? Denial.writing(transactionalID: order.group, code)
    }

    /// Produces the records and commits the job's progress, however often brokers fail meanwhile.
    ///
    /// - Parameter committed: what the job's group has committed; `nil` before the job's first commit.
    func write(
        _ records: [ReplayRecord], _ job: ReplayJob, after committed: ReplayJob?
    ) throws(CommandFailure) -> Ending {
        let entries = job.entries(since: committed)
        if records.isEmpty, entries.isEmpty { return .committed }
        while true {
            try wait.check()
            let reason: String
            switch try transact(records, entries) {
            case .success(.committed): return .committed
            case .success(.refused(let code)):
                _ = try isCommittedAfterRestart(job, committed)
                return .refused(code)
            case .failure(let error): reason = error.text
            }
            wait.say("\(reason); what was not committed is written again")
            try wait.pause(ms: 1_000)
            if try isCommittedAfterRestart(job, committed) { return .committed }
        }
    }

    /// Returns the error if the transaction failed, and may have been committed all the same.
    private func transact(
        _ records: [ReplayRecord], _ entries: [CommitEntry]
    ) throws(CommandFailure) -> Result<Ending, KafkaError> {
        let beganNs = LoopTime.read().monotonicNs
        var isWritten = false
        (failures, hasFailed) = ([], false)
        do throws(TransactionError) {
            try producer.beginTransaction()
            try produce(records)
            if let code = failures.first(where: Self.isOfRecord) { return .success(.refused(code)) }
            if let fatal = producer.fatalError { throw TransactionError(fatal, isPassing: false) }
            // Throws the reason if librdkafka has given the transaction up.
            if hasFailed { try producer.addOffsets(entries, group: order.group) }
            if let code = failures.first { throw TransactionError(KafkaError(code), isPassing: false) }
            isWritten = true
            try producer.addOffsets(entries, group: order.group)
            try producer.commitTransaction()
            return .success(.committed)
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
        for record in records {
            var code = try queue(record)
            while code == .queueFull, failures.isEmpty, !hasFailed {
                serve(timeoutMs: 50)
                code = try queue(record)
            }
            if code != .none { failures.append(code) }
            if producer.outstanding % 256 == 0 { serve(timeoutMs: 0) }
            if !failures.isEmpty || hasFailed { break }
        }
        var deadline = LoopTime.read().monotonicNs + Int64(Self.timeoutMs) * 1_000_000
        while producer.outstanding > 0, !failures.contains(where: Self.isOfRecord) {
            serve(timeoutMs: 50)
            let nowNs = LoopTime.read().monotonicNs
            // The report of the record that is to blame may come after the transaction was given up. Records that were
            // not sent have no report then.
            if !failures.isEmpty || hasFailed { deadline = min(deadline, nowNs + 500_000_000) }
            if nowNs >= deadline { break }
        }
        if producer.outstanding > 0, failures.isEmpty, !hasFailed {
            throw TransactionError(
                KafkaError(.timedOut, "the brokers do not acknowledge what is written"), isPassing: false)
        }
    }

    private func queue(_ record: ReplayRecord) throws(TransactionError) -> KafkaCode {
        do throws(KafkaError) {
            return producer.produce(record.record, to: try producer.topic(record.topic), partition: record.partition)
        } catch {
            throw TransactionError(error, isPassing: false)
        }
    }

    /// Whether a broker refuses a record for itself, or for one that is sent together with it.
    private static func isOfRecord(_ code: KafkaCode) -> Bool {
        [.messageTooLarge, .invalidRecord, .batchWithInvalidRecord, .policyViolation].contains(code)
    }

    private func serve(timeoutMs: Int32) {
        producer.serve(timeoutMs: timeoutMs) { report in
            if report.code != .none, !failures.contains(report.code) { failures.append(report.code) }
        } event: { event in
            if Producer.tellsFailedTransaction(event) { hasFailed = true }
            if case .error(let error) = event { wait.say(error.text) }
        }
    }

    /// Aborts what is open with a new producer, and returns whether the transaction was committed all the same.
    private func isCommittedAfterRestart(
        _ job: ReplayJob, _ committed: ReplayJob?
    ) throws(CommandFailure) -> Bool {
        producer = try Self.producer(order, cluster)
        let found = try begin(Array(job.partitions.keys))
        if job.isCommitted(found) { return true }
        guard committed?.isCommitted(found) ?? found.allSatisfy({ $0.offset == nil }) else {
            throw CommandFailure(
                "another run of this job has gone on with it meanwhile (group \(order.group)); this one ends")
        }
        return false
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
