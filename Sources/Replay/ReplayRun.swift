internal import EventLoop
package import Kafka
internal import PushRecords

/// The progress of a replay, or its outcome if the replay has ended.
package struct ReplayReport: Sendable {
    /// The counts of the whole job, including earlier runs.
    package internal(set) var counts: ReplayCounts = [:]
    /// The results and dead letters that this run selected, counted by kind.
    package internal(set) var kinds: [ReplayKind] = []
    /// The selected positions (`--request`) for which no result or dead letter was found.
    package internal(set) var unmatched: [String] = []
    /// The approximate number of results or dead letters that are left to read.
    package internal(set) var left: Int64 = 0
    package internal(set) var isResumed = false
    package internal(set) var wasDone = false
    package internal(set) var isDone = false

    package init() {}
}

/// A run of a replay job, in batches. For each batch, the run reads results or dead letters, fetches the original
/// requests, and produces new requests in one transaction with the batch's offsets. Use it on one thread.
package final class ReplayRun {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let remark: (String) -> Void
    private let progressed: (ReplayReport) -> Void
    private let source: TopicReader
    private let fetcher: OriginalFetcher
    /// The transactions, or `nil` for a dry run.
    private let transactions: ReplayTransactions?
    /// The offset of each partition at which the job starts to read.
    private let starts: [TopicPartition: Int64]
    private var gatherer: Gatherer
    private var job: ReplayJob
    private var report = ReplayReport()
    /// The monotonic time in nanoseconds before which the run produces no further requests.
    private var nextNs: Int64 = 0

    /// The tolerance for differences between clocks, in milliseconds. The run starts to read this much before the
    /// selected time range, because brokers search by record timestamps, and the conditions apply to the times inside
    /// the results.
    private static let clockMs: Int64 = 60_000
    /// The total size of a batch's results or dead letters, in bytes, at which the batch is full.
    private static let byteLimit = 16 << 20

    /// Begins the job, or resumes it from the offsets that its group has committed. `remark` receives a line for each
    /// request that is gone, refused or unreadable. `progressed` receives the report after each read and each batch.
    package init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait, remark: @escaping (String) -> Void,
        progressed: @escaping (ReplayReport) -> Void
    ) throws {
        self.wait = wait
        self.remark = remark
        self.progressed = progressed
        source = try TopicReader(cluster, topic: order.topic, group: order.isDryRun ? nil : order.group, wait)
        fetcher = try OriginalFetcher(order, cluster, wait)
        transactions = order.isDryRun ? nil : try ReplayTransactions(order, cluster, source.client, wait)
        let bounds = source.bounds
        let known = try transactions?.begin(Array(bounds.keys))
        report.isResumed = known != nil
        report.wasDone = known?.isDone ?? false
        if !report.wasDone, let target = order.target {
            _ = try wait.partitions(of: target, from: source.client) { Denial.writing([$0], $1) }
        }
        let sinceMs = known == nil ? order.selection.sinceMs : known?.sinceMs
        let starts = try source.starts(at: sinceMs.map { .time(max(0, $0 - Self.clockMs)) } ?? .beginning)
        self.starts = starts
        job =
            known
            ?? ReplayJob(order, bounds.reduce(into: [:]) { $0[$1.key] = (starts[$1.key] ?? 0)..<$1.value.upperBound })
        var order = order
        (order.selection.sinceMs, order.selection.untilMs) = (job.sinceMs, job.untilMs)
        self.order = order
        gatherer = Gatherer(order)
        // This commit stores the log end offsets, so that later runs of the job do not read newer records.
        if known == nil { _ = try transactions?.write([], job, after: nil) }
    }

    package func run() throws -> ReplayReport {
        if !report.wasDone {
            try remember()
            try replay()
            report.unmatched = order.selection.places.filter { !gatherer.matchedPlaces.contains($0) }.map(\.description)
        }
        report.counts = job.counts
        report.isDone = true
        return report
    }

    /// Reads the results that earlier runs handled. The gatherer then recognizes later results of the same
    /// notifications, which must not be requested again.
    private func remember() throws {
        let done = job.partitions.mapValues(\.position).filter { starts[$0.key] ?? .max < $0.value }
        for partition in done.keys { try source.start(partition, at: starts[partition] ?? 0) }
        try read(done, isFull: { false }) { _ = gatherer.take($0) }
        gatherer.found = [:]
    }

    private func replay() throws {
        let left = job.partitions.filter { $0.value.position < $0.value.end }
        for (partition, progress) in left {
            guard let range = source.bounds[partition], progress.end <= range.upperBound else {
                throw changed(partition, progress.end)
            }
            // If retention has deleted the record at this position, the reader reports the deletion and continues at
            // the first offset that exists.
            try source.start(partition, at: progress.position)
        }
        // A transaction has at most 10,000 requests, and at most as many as the configured rate allows in 250 ms.
        let batchLimit = min(10_000, max(1, (order.ratePerSecond ?? .max) / 4))
        while !job.isDone {
            var items: [ReplayItem] = []
            var byteCount = 0
            try read(left.mapValues(\.end)) {
                items.count >= batchLimit || byteCount >= Self.byteLimit
            } take: { record in
                guard let item = gatherer.take(record) else { return }
                byteCount += item.byteCount
                items.append(item)
            }
            report.kinds = gatherer.kinds
            try process(items[...])
            // The records that were read but are not in `items` do not match, so the positions can move past them.
            var next = job
            for partition in left.keys { next.partitions[partition]?.move(to: source.positions[partition] ?? 0) }
            _ = try write([], next)
        }
    }

    private func changed(_ partition: TopicPartition, _ end: Int64) -> CommandFailure {
        CommandFailure(
            "\(partition) ends below offset \(end), which was its log end when the job began. The topic was recreated or lost records: start another job (--name)"
        )
    }

    /// Reads results or dead letters of each partition up to its offset in `targets`, or until the batch is full.
    private func read(_ targets: [TopicPartition: Int64], isFull: () -> Bool, take: (SourceRecord) -> Void) throws {
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
                if message.offset < targets[partition] ?? 0 {
                    take(
                        SourceRecord(
                            partition: partition, offset: message.offset, timestampMs: message.timestampMs,
                            record: OwnedRecord(message)))
                }
                return !isFull()
            }
            for (partition, position) in source.positions where position < before[partition] ?? 0 {
                throw changed(partition, targets[partition] ?? 0)
            }
            report.left = job.partitions.reduce(0) { left, part in
                left + max(0, part.value.end - max(source.positions[part.key] ?? 0, part.value.position))
            }
            progressed(report)
        }
    }

    // MARK: Batches

    /// Produces new requests for the items and commits the job's offsets in the same transaction. If the records cannot
    /// be written in one transaction, splits the items into two halves.
    private func process(_ items: ArraySlice<ReplayItem>) throws {
        guard var item = items.first else { return }
        let batch = try fetcher.fetch(items, job)
        guard let refusal = try write(batch.records, batch.job) else {
            for line in batch.remarks { remark(line) }
            report.counts = job.counts
            return progressed(report)
        }
        guard items.count > 1 else {
            item.refuse("the broker refused the new request: \(refusal.text)")
            return try process([item])
        }
        let middle = items.startIndex + items.count / 2
        try process(items[..<middle])
        try process(items[middle...])
    }

    /// Writes the records and the job's state, at most at the requested rate. After a pause, the rate is not raised to
    /// catch up. Returns the reason if a broker refuses the records, or `nil`.
    private func write(_ records: [ReplayRecord], _ next: ReplayJob) throws -> KafkaCode? {
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
