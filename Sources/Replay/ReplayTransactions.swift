internal import Kafka
internal import PushRecords

/// Writes requests and commits the job's offsets, together or not at all. The job's name is the producer's
/// transactional id: of two runs the one that began last is the one that counts. One thread.
final class ReplayTransactions {
    private let order: ReplayOrder
    private let cluster: ClusterSettings
    private let watch: ReplayWatch
    private var producer: Producer
    private var topics: [String: ProducerTopic] = [:]
    /// By the name of a topic that is written, how many partitions it has.
    private var partitions: [String: Int] = [:]
    private let reader: OffsetReader
    private var lookup: TopicLookup
    /// What the group has committed, as far as is known.
    private var committed: JobProgress?
    /// What the report of a record that was not written said, by its place in the batch.
    private var failures: [(index: Int, code: KafkaCode)] = []
    /// librdkafka has given the transaction up.
    private var hasFailed = false

    /// So long a run that was killed holds up who reads the request topics. What is written was read before, so that a
    /// transaction takes some ten milliseconds.
    private static let timeoutMs = 20_000
    private static let questionMs: Int32 = 10_000
    /// More records than that of one batch are not found out one by one.
    private static let refusalLimit = 20

    /// - Parameter reader: has the job's group.
    init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ reader: OffsetReader, _ watch: ReplayWatch
    ) throws(ReplayFailure) {
        self.order = order
        self.cluster = cluster
        self.reader = reader
        lookup = TopicLookup(reader, watch)
        self.watch = watch
        producer = try Self.makeProducer(order, cluster, isSingle: false)
    }

    private static func makeProducer(
        _ order: ReplayOrder, _ cluster: ClusterSettings, isSingle: Bool
    ) throws(ReplayFailure) -> Producer {
        let transaction = ProducerSettings.Transaction(id: order.group, timeoutMs: timeoutMs)
        do throws(KafkaError) {
            return try Producer(
                ProducerSettings(cluster: cluster, sendsSingly: isSingle, transaction: transaction))
        } catch {
            throw ReplayFailure("Kafka: \(error)")
        }
    }

    // MARK: Beginning

    /// Ends what an earlier run left open, keeps one that is still there from going on, and says what the job's group
    /// has committed.
    func begin(_ partitions: [TopicPartition]) throws(ReplayFailure) -> [CommittedOffset] {
        while true {
            try watch.check()
            do throws(TransactionError) {
                try producer.initializeTransactions(timeoutMs: 5_000)
                break
            } catch {
                if let failure = ReplayFailure.committing(order.group, error.error.code) { throw failure }
                guard error.isPassing else { throw ReplayFailure("transactions cannot begin: \(error)") }
                watch.trouble("transactions cannot begin: \(error.error.text)")
            }
            serve(timeoutMs: 200)
        }
        return try commits(of: partitions)
    }

    private func commits(of partitions: [TopicPartition]) throws(ReplayFailure) -> [CommittedOffset] {
        try watch.patiently {
            ReplayFailure.committing(order.group, $0.code)
        } _: { () throws(KafkaError) in
            let found = try reader.committed(partitions, timeoutMs: Self.questionMs)
            for commit in found where commit.code != .none {
                throw KafkaError(commit.code, "\(order.group): \(commit.code.text)")
            }
            return found
        }
    }

    /// What the commits say the job has done.
    func note(_ progress: JobProgress?) { committed = progress }

    // MARK: A batch

    /// Writes a batch and commits how far the job is then; returns what was written, by partition of the results or
    /// dead letters, and what is to be said of what was not.
    ///
    /// - Parameter after: how far the job is, but for what was written.
    func write(_ batch: FetchedBatch, _ after: JobProgress) throws(ReplayFailure) -> FetchedBatch {
        if batch.records.isEmpty, Self.progress(after, batch).entries(since: committed).isEmpty { return batch }
        var batch = batch
        var isSingle = false
        var refusals = 0
        while true {
            try watch.check()
            try look(for: &batch)
            let progress = Self.progress(after, batch)
            let ending = try transact(batch, progress)
            switch ending {
            case .committed: break
            case .refused(let index, let code):
                if isSingle {
                    refusals += 1
                    guard refusals <= Self.refusalLimit else {
                        throw ReplayFailure(
                            "topic \(target(of: batch.records[index].log)) refuses many records: \(code.text); raise its max.message.bytes, or give --to TOPIC"
                        )
                    }
                    batch.refuse(index, code)
                }
                // The next producer sends each record by itself, so that who is refused is known.
                isSingle = true
                _ = try replaceProducer(isSingle: true, progress)
                continue
            case .failed(let reason):
                watch.trouble("\(reason); what was not committed is written again")
                try watch.pause(ms: 1_000)
                guard try replaceProducer(isSingle: isSingle, progress) else { continue }
            }
            committed = progress
            if isSingle { _ = try replaceProducer(isSingle: false, progress) }
            return batch
        }
    }

    private static func progress(_ after: JobProgress, _ batch: FetchedBatch) -> JobProgress {
        var progress = after
        for (partition, counts) in batch.allCounts { progress.count(partition, counts) }
        return progress
    }

    private enum Ending {
        case committed
        /// A record of the batch, by its place.
        case refused(Int, KafkaCode)
        /// Whether it was committed is not known.
        case failed(String)
    }

    private func transact(_ batch: FetchedBatch, _ progress: JobProgress) throws(ReplayFailure) -> Ending {
        let beganNs = watch.nowNs
        var isWritten = false
        failures = []
        hasFailed = false
        do throws(TransactionError) {
            try producer.beginTransaction()
            let entries = progress.entries(since: committed)
            if let ending = try produce(batch, entries) { return ending }
            isWritten = true
            try producer.addOffsets(entries, group: order.group)
            try producer.commitTransaction()
            return .committed
        } catch {
            serve(timeoutMs: 0)
            let elapsedMs = (watch.nowNs - beganNs) / 1_000_000
            if error.isFenced, elapsedMs < Self.timeoutMs {
                throw ReplayFailure(
                    "another run of this job has begun (group \(order.group)), and goes on with it; this one ends")
            }
            if let failure = ReplayFailure.committing(order.group, error.error.code) { throw failure }
            // Who commits offsets of a topic must be allowed to read it.
            let denial =
                isWritten
                ? ReplayFailure.reading(order.topic, error.error.code)
                : ReplayFailure.writing(targets(of: batch), error.error.code)
            if let denial { throw denial }
            return .failed(error.error.text)
        }
    }

    /// `nil`: all of it is acknowledged.
    private func produce(_ batch: FetchedBatch, _ entries: [CommitEntry]) throws(TransactionError) -> Ending? {
        for (index, replayed) in batch.records.enumerated() {
            while true {
                let code = queue(replayed, tag: UInt64(index))
                if code == .none { break }
                if code == .queueFull {
                    serve(timeoutMs: 50)
                    if failures.isEmpty, !hasFailed { continue }
                }
                failures.append((index, code))
                return try ending(entries)
            }
            if index % 256 == 255 { serve(timeoutMs: 0) }
            if !failures.isEmpty { return try ending(entries) }
        }
        let deadlineNs = watch.nowNs + Int64(Self.timeoutMs) * 1_000_000
        while producer.outstanding > 0, failures.isEmpty, !hasFailed {
            serve(timeoutMs: 50)
            guard watch.nowNs < deadlineNs else { return .failed("the brokers do not acknowledge what is written") }
        }
        return failures.isEmpty && !hasFailed ? nil : try ending(entries)
    }

    /// Why not all of it is written.
    private func ending(_ entries: [CommitEntry]) throws(TransactionError) -> Ending {
        // The report of the record that is to blame may come behind the word that all has failed; of none that was not
        // sent comes one.
        let deadlineNs = watch.nowNs + 500_000_000
        while !failures.contains(where: { Self.isOfRecord($0.code) }), watch.nowNs < deadlineNs { serve(timeoutMs: 50) }
        if let refused = failures.first(where: { Self.isOfRecord($0.code) }) {
            return .refused(refused.index, refused.code)
        }
        if let fatal = producer.fatalError { throw TransactionError(fatal, isPassing: false) }
        // It throws what has befallen the transaction; what is said of single records follows from that.
        if hasFailed { try producer.addOffsets(entries, group: order.group) }
        let codes = failures.map(\.code)
        if let denied = codes.first(where: { ReplayFailure.writing([], $0) != nil }) {
            throw TransactionError(KafkaError(denied), isPassing: false)
        }
        return .failed("not all was written: \((codes.first ?? .wrongState).text)")
    }

    /// What a broker refuses because of the record itself, or of one that is sent together with it.
    private static func isOfRecord(_ code: KafkaCode) -> Bool {
        [.messageTooLarge, .invalidRecord, .batchWithInvalidRecord, .policyViolation].contains(code)
    }

    private func queue(_ replayed: ReplayedRecord, tag: UInt64) -> KafkaCode {
        let name = target(of: replayed.log)
        guard let topic = topics[name] else { return .unknownTopic }
        // Where it was it stands among the others of its device, by whatever partitioner it came there.
        let isThere = name == replayed.log.topic && Int(replayed.log.partition) < partitions[name] ?? 0
        return replayed.record.withLent { key, value, headers in
            let list = headers.map { MessageHeader(name: $0.name, value: $0.value) }
            return producer.produce(
                to: topic, partition: isThere ? replayed.log.partition : -1, key: key, value: value, headers: list,
                tag: tag)
        }
    }

    private func serve(timeoutMs: Int32) {
        producer.serve(timeoutMs: timeoutMs) { report in
            if report.code != .none { failures.append((Int(report.tag), report.code)) }
        } event: { event in
            if Producer.tellsFailedTransaction(event) { hasFailed = true }
            watch.trouble([event])
        }
    }

    // MARK: Topics

    private func target(of log: TopicPartition) -> String { order.target ?? log.topic }

    private func targets(of batch: FetchedBatch) -> [String] { Set(batch.records.map { target(of: $0.log) }).sorted() }

    /// Makes sure that the topics that are to be written are there, before anything is. What came from one that is not
    /// there any more is gone with it, and holds nothing else up.
    private func look(for batch: inout FetchedBatch) throws(ReplayFailure) {
        let names = Set(targets(of: batch).filter { topics[$0] == nil })
        if names.isEmpty { return }
        let descriptions = try lookup.settledTopics(names)
        for name in names.sorted() {
            let found = descriptions[name]
            let code = found?.code ?? .unknownTopic
            if code.isUnknownTopic, order.target == nil {
                batch.lose(from: name)
                continue
            }
            if let failure = ReplayFailure.writing([name], code) { throw failure }
            guard code == .none else { throw ReplayFailure("topic \(name) cannot be written: \(code.text)") }
            partitions[name] = found?.partitions ?? 0
            do throws(KafkaError) {
                topics[name] = try producer.topic(name)
            } catch {
                throw ReplayFailure("topic \(name): \(error)")
            }
        }
    }

    // MARK: Another producer

    /// Undoes what was not committed, and says whether it was committed all the same.
    private func replaceProducer(isSingle: Bool, _ progress: JobProgress) throws(ReplayFailure) -> Bool {
        producer = try Self.makeProducer(order, cluster, isSingle: isSingle)
        topics = [:]
        let found = try begin(progress.partitions.keys.map(\.self))
        if progress.isWhat(found) { return true }
        guard committed?.isWhat(found) ?? found.allSatisfy({ $0.offset == nil }) else {
            throw ReplayFailure(
                "another run of this job has gone on with it meanwhile (group \(order.group)); this one ends")
        }
        return false
    }
}

extension FetchedBatch {
    /// With what is written, where all of it is.
    var allCounts: [TopicPartition: ReplayCounts] {
        var all = counts
        for record in records { all[record.source, default: ReplayCounts()].produced += 1 }
        return all
    }

    /// Their topic is not there any more.
    mutating func lose(from topic: String) {
        for record in records where record.log.topic == topic {
            counts[record.source, default: ReplayCounts()].gone += 1
            remarks.append("\(record.place) is gone: there is no topic \(topic) any more")
        }
        records.removeAll { $0.log.topic == topic }
    }

    /// The topic does not take that one.
    mutating func refuse(_ index: Int, _ code: KafkaCode) {
        let record = records.remove(at: index)
        counts[record.source, default: ReplayCounts()].refused += 1
        remarks.append("\(record.place) is not asked for again: the topic refuses its record: \(code.text)")
    }
}
