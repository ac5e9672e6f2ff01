package import Kafka
internal import PushRecords

/// How far a replay is, and in the end what came of it.
package struct ReplayReport: Sendable {
    /// Of the whole job, from its beginning on.
    package internal(set) var counts = ReplayCounts()
    /// What this run found; a run that goes on with a job does not know what the ones before found.
    package internal(set) var tally = ReplayTally()
    /// Places that the selection names and of which nothing matched.
    package internal(set) var unmatched: [String] = []
    /// What of all that was there when the job began has been looked at, from 0 to 1.
    package internal(set) var part = 0.0
    /// An earlier run began the job.
    package internal(set) var isResumed = false
    /// An earlier run ended the job.
    package internal(set) var wasDone = false
    package internal(set) var isDone = false
    /// When the job began, in milliseconds since the epoch.
    package internal(set) var beganMs: Int64 = 0

    package init() {}
}

/// Asks again for what results or dead letters name: reads them, fetches the requests, writes them and commits how far
/// it is, batch by batch. One thread.
package final class ReplayRun {
    private let order: ReplayOrder
    private let watch: ReplayWatch
    private let remark: (String) -> Void
    private let progressed: (ReplayReport) -> Void
    private let source: OffsetReader
    private let fetcher: OriginalFetcher
    /// `nil`: nothing is written.
    private let transactions: ReplayTransactions?
    private var pace: Pace
    private var report = ReplayReport()
    /// Of what became of requests, by partition of the results or dead letters, in this run.
    private var done: [TopicPartition: ReplayCounts] = [:]

    private static let questionMs: Int32 = 10_000
    /// Results are found by their records' times, which come soon after their own; clocks may differ a little.
    private static let clockMs: Int64 = 60_000
    /// The end of a log may seem to fall for a moment, when another broker begins to lead it.
    private static let endMs: Int64 = 60_000

    /// Makes the clients; no broker needs to be there.
    ///
    /// - Parameters:
    ///   - remark: gets what is to be said of a single request that was not asked for again, once, in words.
    ///   - progressed: is told after each batch, and some times a second while results are read.
    package init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ watch: ReplayWatch, remark: @escaping (String) -> Void,
        progressed: @escaping (ReplayReport) -> Void
    ) throws(ReplayFailure) {
        self.order = order
        self.watch = watch
        self.remark = remark
        self.progressed = progressed
        pace = Pace(perSecond: order.ratePerSecond)
        do throws(KafkaError) {
            source = try OffsetReader(cluster, group: order.isDryRun ? nil : order.group, fetchKilobytes: 1_024)
            fetcher = try OriginalFetcher(order, cluster, watch)
        } catch {
            throw ReplayFailure("Kafka: \(error)")
        }
        transactions = order.isDryRun ? nil : try ReplayTransactions(order, cluster, source, watch)
    }

    /// Does all that is left of the job.
    package func run() throws(ReplayFailure) -> ReplayReport {
        let partitions = try sourcePartitions()
        let committed = try transactions?.begin(partitions) ?? []
        let known = try JobProgress(order, committed)
        let bounds = try bounds(of: partitions)
        if known?.isDone != true { try lookAtTarget() }
        var progress: JobProgress
        if let known {
            progress = known
            report.isResumed = true
            report.wasDone = known.isDone
            transactions?.note(known)
        } else {
            progress = try begun(bounds)
            // From here on what comes to the log is none of the job's, whoever goes on with it.
            _ = try transactions?.write(FetchedBatch(), progress)
        }
        report.beganMs = progress.facts.beganMs
        note(progress, read: progress)
        if !progress.isDone { progress = try work(progress, bounds) }
        // Of an earlier run's work its commits tell; where nothing was to be read, of none something matched.
        report.unmatched = progress.unmatched(order.selection.orderedPlaces).map { "\($0)" }
        report.isDone = true
        report.part = 1
        return report
    }

    /// How far the job is then.
    private func work(
        _ progress: JobProgress, _ bounds: [TopicPartition: Range<Int64>]
    ) throws(ReplayFailure) -> JobProgress {
        var gatherer = Gatherer(order, progress, requestLimit: pace.batchLimit)
        var reading: Set<TopicPartition> = []
        defer { for partition in reading { source.stop(partition) } }
        try remember(&gatherer, bounds, &reading)
        try start(gatherer, bounds, &reading)
        repeat {
            try gather(&gatherer, &reading)
            try finish(gatherer.takeBatch(), gatherer.progress)
            for line in gatherer.takeRemarks() { remark(line) }
            report.tally = gatherer.tally
            progressed(report)
        } while !reading.isEmpty || gatherer.hasMore
        return gatherer.progress
    }

    // MARK: Where it begins

    private func sourcePartitions() throws(ReplayFailure) -> [TopicPartition] {
        let found = try watch.patiently {
            ReplayFailure.reading(order.topic, $0.code)
        } _: { () throws(KafkaError) in
            defer { watch.trouble(source.events()) }
            return try source.topics(named: [order.topic], timeoutMs: Self.questionMs)[order.topic]
        }
        let code = found?.code ?? .unknownTopic
        if let failure = ReplayFailure.reading(order.topic, code) { throw failure }
        if code.isUnknownTopic { throw ReplayFailure("there is no topic \(order.topic)") }
        guard code == .none, let found else {
            throw ReplayFailure("topic \(order.topic) cannot be read: \(code.text)")
        }
        return (0..<Int32(found.partitions)).map { TopicPartition(order.topic, $0) }
    }

    /// Where all is to be written is looked at before anything is promised, or begun.
    private func lookAtTarget() throws(ReplayFailure) {
        guard let target = order.target else { return }
        var lookup = TopicLookup(source, watch)
        let code = try lookup.settledTopics([target])[target]?.code ?? .unknownTopic
        if let failure = ReplayFailure.writing([target], code) { throw failure }
    }

    private func bounds(of partitions: [TopicPartition]) throws(ReplayFailure) -> [TopicPartition: Range<Int64>] {
        var found: [TopicPartition: Range<Int64>] = [:]
        while true {
            let missing = partitions.filter { found[$0] == nil }
            found.merge(source.bounds(of: missing, timeoutMs: Self.questionMs)) { first, _ in first }
            guard let silent = partitions.first(where: { found[$0] == nil }) else { return found }
            watch.trouble("the leader of \(silent) does not answer")
            try watch.pause(ms: 1_000)
        }
    }

    private func begun(_ bounds: [TopicPartition: Range<Int64>]) throws(ReplayFailure) -> JobProgress {
        let selection = order.selection
        let facts = JobFacts(
            fingerprint: order.fingerprint, beganMs: watch.nowMs, sinceMs: selection.sinceMs, untilMs: selection.untilMs
        )
        guard let sinceMs = selection.sinceMs else { return JobProgress(facts, bounds) }
        let starts = try watch.patiently { _ in
            nil
        } _: { () throws(KafkaError) in
            try source.offsets(
                of: Array(bounds.keys), fromMs: max(0, sinceMs - Self.clockMs), timeoutMs: Self.questionMs)
        }
        var ranges = bounds
        for (partition, range) in bounds {
            let start = min(max(starts[partition] ?? range.upperBound, range.lowerBound), range.upperBound)
            ranges[partition] = start..<range.upperBound
        }
        return JobProgress(facts, ranges)
    }

    // MARK: Reading results

    /// What was done, to know what of it comes once more.
    private func remember(
        _ gatherer: inout Gatherer, _ bounds: [TopicPartition: Range<Int64>], _ reading: inout Set<TopicPartition>
    ) throws(ReplayFailure) {
        for (partition, progress) in gatherer.progress.partitions {
            guard let range = bounds[partition], progress.end <= range.upperBound else {
                throw ReplayFailure(Self.changed(partition, progress))
            }
            gatherer.begins(partition, at: range.lowerBound)
            guard gatherer.toRemember.contains(partition) else { continue }
            try read(partition, from: max(progress.start, range.lowerBound))
            reading.insert(partition)
        }
        try gather(&gatherer, &reading, isRemembering: true)
    }

    private func start(
        _ gatherer: Gatherer, _ bounds: [TopicPartition: Range<Int64>], _ reading: inout Set<TopicPartition>
    ) throws(ReplayFailure) {
        for (partition, progress) in gatherer.progress.partitions where !progress.isDone {
            try read(partition, from: max(progress.position, bounds[partition]?.lowerBound ?? 0))
            reading.insert(partition)
        }
    }

    private static func changed(_ partition: TopicPartition, _ progress: PartitionProgress) -> String {
        "\(partition) ends before \(progress.end), where it ended when the job began: it was made anew, or lost records; "
            + "begin another job (--name)"
    }

    private func read(_ partition: TopicPartition, from offset: Int64) throws(ReplayFailure) {
        do throws(KafkaError) {
            try source.start(partition, at: offset)
        } catch {
            throw ReplayFailure("\(partition): \(error)")
        }
    }

    /// Until the batch is full, or nothing is left to read, or to be remembered.
    private func gather(
        _ gatherer: inout Gatherer, _ reading: inout Set<TopicPartition>, isRemembering: Bool = false
    ) throws(ReplayFailure) {
        func isPassed(_ partition: TopicPartition, _ gatherer: Gatherer) -> Bool {
            isRemembering ? !gatherer.toRemember.contains(partition) : gatherer.isDone(partition)
        }
        /// Since when a log seems to end before where it ended.
        var short: [TopicPartition: Int64] = [:]
        while !gatherer.isFull, !reading.isEmpty {
            try watch.check()
            watch.trouble(source.events())
            var timeoutMs: Int32 = 100
            for _ in 0..<1_000 where !gatherer.isFull {
                var moved: TopicPartition?
                var outside: TopicPartition?
                var failure: ReplayFailure?
                let hasCome = source.next(timeoutMs: timeoutMs) { partition, message in
                    Self.lend(message, of: partition) { gatherer.take($0) }
                    moved = partition
                } trouble: { partition, trouble in
                    switch trouble {
                    case .end(let offset):
                        gatherer.ends(partition, at: offset)
                        moved = partition
                        if !isPassed(partition, gatherer) { short[partition] = short[partition] ?? watch.nowNs }
                    case .outOfRange: outside = partition
                    case .unreadable(let offset, let error):
                        failure = ReplayFailure(
                            "\(partition) cannot be read from offset \(offset) on (\(error.text)): give --since a time behind it"
                        )
                    case .failed(let error):
                        failure = ReplayFailure.reading(partition.topic, error.code)
                        if failure == nil { watch.trouble(error.text) }
                    }
                }
                if let failure { throw failure }
                if let outside {
                    try startAgain(outside, &gatherer, isRemembering)
                    moved = outside
                }
                if let moved, isPassed(moved, gatherer) {
                    source.stop(moved)
                    reading.remove(moved)
                }
                guard hasCome else { break }
                timeoutMs = 0
            }
            for (partition, sinceNs) in short where reading.contains(partition) {
                guard let progress = gatherer.progress.partitions[partition] else { continue }
                if watch.nowNs - sinceNs > Self.endMs * 1_000_000 {
                    throw ReplayFailure(Self.changed(partition, progress))
                }
            }
            report.tally = gatherer.tally
            note(nil, read: gatherer.progress)
            progressed(report)
        }
    }

    /// The log has lost its beginning meanwhile.
    private func startAgain(
        _ partition: TopicPartition, _ gatherer: inout Gatherer, _ isRemembering: Bool
    ) throws(ReplayFailure) {
        guard let range = try bounds(of: [partition])[partition], let before = gatherer.progress.partitions[partition]
        else { return }
        guard before.end <= range.upperBound else { throw ReplayFailure(Self.changed(partition, before)) }
        gatherer.begins(partition, at: range.lowerBound)
        guard let progress = gatherer.progress.partitions[partition] else { return }
        try read(partition, from: max(isRemembering ? progress.start : progress.position, range.lowerBound))
    }

    private static func lend(
        _ message: borrowing Message, of partition: TopicPartition, _ body: (SourceRecord) -> Void
    ) {
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        headers.withUnsafeBufferPointer {
            body(
                SourceRecord(
                    partition: partition, offset: message.offset, timestampMs: message.timestampMs, key: message.key,
                    value: message.value, headers: $0))
        }
    }

    // MARK: Batches

    /// - Parameter gathered: how far the gatherer is; it may be behind the batch.
    private func finish(_ batch: ReplayBatch, _ gathered: JobProgress) throws(ReplayFailure) {
        var waiting = [batch]
        while let batch = waiting.popLast() {
            guard let fetched = try fetcher.fetch(batch) else {
                let (first, second) = batch.halves()
                waiting += [second, first]
                continue
            }
            let after = gathered.at(batch.after, plus: done)
            var written = fetched
            if let transactions {
                try watch.pause(untilNs: watch.nowNs + pace.waitNs(watch.nowNs))
                written = try transactions.write(fetched, after)
                pace.spent(written.records.count, watch.nowNs)
            }
            for (partition, counts) in written.allCounts { done[partition, default: ReplayCounts()] += counts }
            for line in written.remarks { remark(line) }
            note(gathered.at(batch.after, plus: done), read: gathered)
            progressed(report)
        }
    }

    /// - Parameter progress: `nil`: nothing was done since the last call.
    private func note(_ progress: JobProgress?, read: JobProgress) {
        if let progress {
            report.counts = progress.counts
        } else if order.isDryRun {
            // There are no commits that it would have to agree with.
            report.counts = read.at(read.partitions, plus: done).counts
        }
        let passed = read.passed
        report.part = passed.all == 0 ? 1 : passed.done / passed.all
    }
}
