internal import EventLoop
package import Kafka
internal import PushRecords

/// The progress of a replay, and in the end its outcome.
package struct ReplayReport: Sendable {
    /// The counts of the whole job, earlier runs included.
    package internal(set) var counts: ReplayCounts = [:]
    /// The matches of this run.
    package internal(set) var tally = ReplayTally()
    /// Places of the selection for which nothing matched.
    package internal(set) var unmatched: [String] = []
    package internal(set) var part = 0.0
    package internal(set) var isResumed = false
    package internal(set) var wasDone = false
    package internal(set) var isDone = false
    /// When the job began, in milliseconds since the epoch.
    package internal(set) var beganMs: Int64 = 0

    package init() {}
}

/// Replays a job: reads a batch of results or dead letters, fetches their requests, and produces these in one
/// transaction with the offsets of what was read. One thread.
package final class ReplayRun {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let remark: (String) -> Void
    private let progressed: (ReplayReport) -> Void
    private let source: TopicReader
    private let fetcher: OriginalFetcher
    /// `nil` for a dry run.
    private let transactions: ReplayTransactions?
    /// The first offset of each partition that the job looks at, if it is still there.
    private let starts: [TopicPartition: Int64]
    private var gatherer: Gatherer
    private var job: ReplayJob
    private var report = ReplayReport()
    /// When the next requests may become visible (monotonic).
    private var nextNs: Int64 = 0

    /// Results are found by their records' times, which come soon after their own; clocks may differ a little.
    private static let clockMs: Int64 = 60_000
    /// The most memory that the dead letters of a batch take.
    private static let byteLimit = 16 << 20

    /// Begins the job, or resumes it from the offsets that its group has committed. `remark` gets a line about each
    /// request that was not replayed, `progressed` the report several times a second.
    package init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait, remark: @escaping (String) -> Void,
        progressed: @escaping (ReplayReport) -> Void
    ) throws(CommandFailure) {
        self.wait = wait
        self.remark = remark
        self.progressed = progressed
        source = try TopicReader(cluster, topic: order.topic, group: order.isDryRun ? nil : order.group, wait)
        fetcher = try OriginalFetcher(order, cluster, wait)
        transactions = order.isDryRun ? nil : try ReplayTransactions(order, cluster, source.client, wait)
        let bounds = source.bounds
        let known = try transactions?.begin(Array(bounds.keys))
        let isDone = known?.isDone ?? false
        if !isDone { try fetcher.checkTarget() }
        let sinceMs = known == nil ? order.selection.sinceMs : known?.sinceMs
        let starts = try source.starts(at: sinceMs.map { .time(max(0, $0 - Self.clockMs)) } ?? .beginning)
        self.starts = starts
        job =
            known
            ?? ReplayJob(
                order, beganMs: LoopTime.read().wallMs,
                bounds.reduce(into: [:]) { $0[$1.key] = (starts[$1.key] ?? 0)..<$1.value.upperBound })
        report.isResumed = known != nil
        report.wasDone = isDone
        report.beganMs = job.beganMs
        var order = order
        (order.selection.sinceMs, order.selection.untilMs) = (job.sinceMs, job.untilMs)
        self.order = order
        gatherer = Gatherer(order)
        // From here on, new records of the logs are not part of the job, whichever run resumes it.
        if known == nil { _ = try transactions?.write([], job, after: nil) }
    }

    /// The most requests of one transaction: a quarter of a second's.
    private var batchLimit: Int { min(10_000, max(1, (order.ratePerSecond ?? .max) / 4)) }

    package func run() throws(CommandFailure) -> ReplayReport {
        if !report.wasDone {
            try remember()
            try replay()
            report.unmatched = order.selection.places.subtracting(gatherer.found).map(\.description).sorted()
        }
        report.counts = job.counts
        report.isDone = true
        report.part = 1
        return report
    }

    /// Reads what earlier runs did: the rest may have further results of the same notifications.
    private func remember() throws(CommandFailure) {
        let done = job.partitions.mapValues(\.position).filter { starts[$0.key] ?? .max < $0.value }
        for partition in done.keys { try source.start(partition, at: starts[partition] ?? 0) }
        try read(done, isFull: { false }) { _ = gatherer.take($0, isKnown: true) }
    }

    private func replay() throws(CommandFailure) {
        let left = job.partitions.filter { $0.value.position < $0.value.end }
        for (partition, progress) in left {
            guard let range = source.bounds[partition], progress.end <= range.upperBound else {
                throw changed(partition, progress.end)
            }
            // Offsets that retention removed are reported by the reader, which goes on at the first that is left.
            try source.start(partition, at: progress.position)
        }
        while !job.isDone {
            var items: [ReplayItem] = []
            var byteCount = 0
            try read(left.mapValues(\.end)) {
                items.count >= batchLimit || byteCount >= Self.byteLimit
            } take: { record in
                guard let item = gatherer.take(record) else { return }
                if case .letter(let record) = item.kind { byteCount += record.byteCount + 200 }
                items.append(item)
            }
            report.tally = gatherer.tally
            try process(items[...])
            // Nothing matched behind the last item.
            var next = job
            for partition in left.keys { next.partitions[partition]?.move(to: source.positions[partition] ?? 0) }
            _ = try write([], next)
        }
    }

    private func changed(_ partition: TopicPartition, _ end: Int64) -> CommandFailure {
        CommandFailure(
            "\(partition) ends before \(end), where it ended when the job began: it was recreated, or lost records; begin another job (--name)"
        )
    }

    /// Reads the results of partitions up to these offsets, or until the batch is full.
    private func read(
        _ targets: [TopicPartition: Int64], isFull: () -> Bool, take: (SourceRecord) -> Void
    ) throws(CommandFailure) {
        var left = targets
        while true {
            for (partition, target) in left where source.positions[partition] ?? 0 >= target {
                source.client.stop(partition)
                left[partition] = nil
            }
            guard !left.isEmpty, !isFull() else { return }
            try wait.check()
            let before = source.positions
            try source.read(timeoutMs: 100) { partition, message in
                if message.offset < targets[partition] ?? 0 { take(SourceRecord(message, of: partition)) }
                return !isFull()
            }
            for (partition, position) in source.positions where position < before[partition] ?? 0 {
                throw changed(partition, targets[partition] ?? 0)
            }
            report.part = part
            progressed(report)
        }
    }

    private var part: Double {
        var (passed, all) = (0.0, 0.0)
        for (partition, progress) in job.partitions {
            let start = starts[partition] ?? 0
            let position = max(source.positions[partition] ?? 0, progress.position)
            passed += Double(min(max(position, start), progress.end) - min(start, progress.end))
            all += Double(max(0, progress.end - start))
        }
        return all == 0 ? 1 : passed / all
    }

    // MARK: Batches

    /// Produces the requests of these items and commits the job's offsets with them. Splits the items in two halves if
    /// they take too much memory, or if a broker refuses one of their records.
    private func process(_ items: ArraySlice<ReplayItem>) throws(CommandFailure) {
        guard let item = items.first else { return }
        if var batch = try fetcher.fetch(items, job) {
            var refusal = try write(batch.records, batch.job)
            if let code = refusal, items.count == 1 {
                batch = ReplayBatch(job)
                batch.count(item, .matched)
                batch.count(
                    item, .refused, "\(item.place) is not requested again: the topic refuses its record: \(code.text)")
                refusal = try write([], batch.job)
            }
            if refusal == nil {
                for line in batch.remarks { remark(line) }
                report.counts = job.counts
                return progressed(report)
            }
        }
        let middle = items.startIndex + items.count / 2
        try process(items[..<middle])
        try process(items[middle...])
    }

    /// Writes at the rate that was asked for; a pause is not made up for.
    private func write(_ records: [ReplayRecord], _ next: ReplayJob) throws(CommandFailure) -> KafkaCode? {
        if let transactions {
            let nowNs = LoopTime.read().monotonicNs
            if !records.isEmpty, let rate = order.ratePerSecond {
                try wait.pause(ms: (max(0, nextNs - nowNs) + 999_999) / 1_000_000)
                nextNs = max(nextNs, nowNs) + Int64(records.count) * 1_000_000_000 / Int64(rate)
            }
            if let refusal = try transactions.write(records, next, after: job) { return refusal }
        }
        job = next
        return nil
    }
}
