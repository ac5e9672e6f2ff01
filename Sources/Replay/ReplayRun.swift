internal import EventLoop
package import Kafka
internal import PushRecords

/// How far a replay is, and in the end what came of it.
package struct ReplayReport: Sendable {
    /// The counts of the whole job, earlier runs included.
    package internal(set) var counts = ReplayCounts()
    /// What this run found.
    package internal(set) var tally = ReplayTally()
    /// Places of the selection for which nothing matched.
    package internal(set) var unmatched: [String] = []
    /// Which part of what was there when the job began has been read, from 0 to 1.
    package internal(set) var part = 0.0
    /// Whether an earlier run began the job.
    package internal(set) var isResumed = false
    /// Whether an earlier run finished the job.
    package internal(set) var wasDone = false
    package internal(set) var isDone = false
    /// When the job began, in milliseconds since the epoch.
    package internal(set) var beganMs: Int64 = 0

    package init() {}
}

/// How fast a replay may go. A quarter of a second's requests become visible at once, and after a pause no more than
/// another quarter is made up for.
struct Pace {
    /// The most requests of one transaction without a rate.
    static let batch = 10_000

    let perSecond: Int?
    /// When the next requests may become visible.
    private var nextNs: Int64 = .min

    init(perSecond: Int?) { self.perSecond = perSecond }

    /// The most requests of one transaction.
    var batchLimit: Int { perSecond.map { min(Self.batch, max(1, $0 / 4)) } ?? Self.batch }

    func waitNs(_ nowNs: Int64) -> Int64 { nextNs == .min ? 0 : max(0, nextNs - nowNs) }

    /// Notes that so many requests became visible.
    mutating func spent(_ count: Int, _ nowNs: Int64) {
        guard let perSecond, count > 0 else { return }
        nextNs =
            max(nextNs, nowNs - (nextNs == .min ? 0 : 250_000_000)) + Int64(count) * 1_000_000_000 / Int64(perSecond)
    }
}

/// Asks again for what results or dead letters name: reads a batch of them, fetches the requests, and produces these
/// in one transaction with the offsets of what was read. One thread.
package final class ReplayRun {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let remark: (String) -> Void
    private let progressed: (ReplayReport) -> Void
    private let source: TopicReader
    private let fetcher: OriginalFetcher
    /// `nil` for a dry run.
    private let transactions: ReplayTransactions?
    private var pace: Pace
    private var gatherer: Gatherer
    private var job: ReplayJob
    private var report = ReplayReport()
    /// How many records of a batch were refused for themselves.
    private var refusals = 0

    /// Results are found by their records' times, which come soon after their own; clocks may differ a little.
    private static let clockMs: Int64 = 60_000
    /// Where a topic refuses more records of a batch than that, it is not the records' fault.
    private static let refusalLimit = 20
    /// The most memory that the dead letters of a batch take.
    private static let byteLimit = 16 << 20

    /// Begins the job, or goes on with it: reads what its group has committed.
    ///
    /// - Parameters:
    ///   - remark: gets a line about each request that was not asked for again.
    ///   - progressed: gets the report after each batch, and several times a second while results are read.
    package init(
        _ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait, remark: @escaping (String) -> Void,
        progressed: @escaping (ReplayReport) -> Void
    ) throws(CommandFailure) {
        self.wait = wait
        self.remark = remark
        self.progressed = progressed
        pace = Pace(perSecond: order.ratePerSecond)
        source = try TopicReader(cluster, topic: order.topic, group: order.isDryRun ? nil : order.group, wait)
        do throws(KafkaError) {
            fetcher = try OriginalFetcher(order, cluster, wait)
        } catch {
            throw CommandFailure("Kafka: \(error)")
        }
        transactions = order.isDryRun ? nil : try ReplayTransactions(order, cluster, source.client, wait)
        let known = try ReplayJob(order, transactions?.begin(source.bounds.keys.map(\.self)) ?? [])
        if known?.isDone != true { try fetcher.checkTarget() }
        if let known { job = known } else { job = try Self.begun(order, source) }
        report.isResumed = known != nil
        report.wasDone = known?.isDone ?? false
        report.beganMs = job.beganMs
        var order = order
        (order.selection.sinceMs, order.selection.untilMs) = (job.sinceMs, job.untilMs)
        self.order = order
        gatherer = Gatherer(order)
        // From here on what comes to the logs is not part of the job, whoever goes on with it.
        if known == nil { _ = try transactions?.write([], job, after: nil) }
    }

    private static func begun(_ order: ReplayOrder, _ source: TopicReader) throws(CommandFailure) -> ReplayJob {
        let from = order.selection.sinceMs.map { ReadingStart.time(max(0, $0 - clockMs)) } ?? .beginning
        let starts = try source.starts(at: from)
        return ReplayJob(
            order, beganMs: LoopTime.read().wallMs,
            source.bounds.reduce(into: [:]) { $0[$1.key] = (starts[$1.key] ?? 0)..<$1.value.upperBound })
    }

    /// Does all that is left of the job.
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

    /// Reads what earlier runs did, to know what of it comes once more in what is left, perhaps in another partition.
    private func remember() throws(CommandFailure) {
        var done = job.partitions.filter { $0.value.position > $0.value.start }
        for (partition, progress) in done {
            let first = source.bounds[partition]?.lowerBound ?? 0
            done[partition] = first < progress.position ? progress : nil
            if first < progress.position { try source.start(partition, at: max(progress.start, first)) }
        }
        try read(done.mapValues(\.position), isFull: { false }) { _ = gatherer.take($0, isKnown: true) }
    }

    private func replay() throws(CommandFailure) {
        let left = job.partitions.filter { !$0.value.isDone }
        for (partition, progress) in left {
            guard let range = source.bounds[partition], progress.end <= range.upperBound else {
                throw changed(partition, progress.end)
            }
            let lost = max(0, min(range.lowerBound, progress.end) - progress.position)
            if lost > 0 {
                remark("\(lost) offsets of \(partition) from \(progress.position) on were gone before they were read")
            }
            job.partitions[partition]?.counts[.lost] += lost
            try source.start(partition, at: progress.position + lost)
        }
        while true {
            var items: [ReplayItem] = []
            var byteCount = 0
            let lost = source.lost
            try read(left.mapValues(\.end)) {
                items.count >= pace.batchLimit || byteCount >= Self.byteLimit
            } take: { record in
                guard let item = gatherer.take(record) else { return }
                if case .letter(let record) = item.kind { byteCount += record.byteCount + 200 }
                items.append(item)
            }
            for (partition, count) in source.lost {
                job.partitions[partition]?.counts[.lost] += count - (lost[partition] ?? 0)
            }
            report.tally = gatherer.tally
            refusals = 0
            try process(items[...])
            // Behind the last item nothing matched.
            var next = job
            for partition in left.keys { next.move(partition, to: source.positions[partition] ?? 0) }
            try write([], next)
            if job.isDone { return }
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
                if message.offset < targets[partition] ?? 0 { Self.lend(message, of: partition, take) }
                return !isFull()
            }
            for (partition, position) in source.positions where position < before[partition] ?? 0 {
                throw changed(partition, targets[partition] ?? 0)
            }
            report.part = job.part(at: source.positions)
            progressed(report)
        }
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

    /// Produces what these items ask for and commits the job's offsets with it. Where that is too much memory, or one
    /// of the records is refused for itself, it is done in two halves.
    private func process(_ items: ArraySlice<ReplayItem>) throws(CommandFailure) {
        guard !items.isEmpty else { return }
        if var fetched = try fetcher.fetch(items) {
            var next = job.after(items, fetched)
            let ending = try write(fetched.records, next)
            if case .refused(let code) = ending, items.count == 1, let item = items.first {
                refusals += 1
                guard refusals <= Self.refusalLimit else {
                    throw CommandFailure(
                        "topic \(order.target ?? item.log.topic) refuses many records: \(code.text); raise its max.message.bytes, or give --to TOPIC"
                    )
                }
                fetched.counts = [:]
                fetched.count(item, .matched)
                fetched.count(
                    item, .refused,
                    "\(item.place) is not asked for again: the topic refuses its record: \(code.text)")
                next = job.after(items, fetched)
                try write([], next)
            }
            if ending == .committed || items.count == 1 {
                for line in fetched.remarks { remark(line) }
                report.counts = job.counts
                return progressed(report)
            }
        }
        let middle = items.startIndex + items.count / 2
        try process(items[..<middle])
        try process(items[middle...])
    }

    @discardableResult
    private func write(
        _ records: [ReplayRecord], _ next: ReplayJob
    ) throws(CommandFailure) -> ReplayTransactions.Ending {
        if let transactions {
            if !records.isEmpty { try wait.pause(ms: (pace.waitNs(LoopTime.read().monotonicNs) + 999_999) / 1_000_000) }
            let ending = try transactions.write(records, next, after: job)
            guard ending == .committed else { return ending }
            pace.spent(records.count, LoopTime.read().monotonicNs)
        }
        job = next
        return .committed
    }
}

extension ReplayJob {
    mutating func move(_ partition: TopicPartition, to position: Int64) {
        guard let progress = partitions[partition] else { return }
        partitions[partition]?.position = max(progress.position, min(position, progress.end))
    }

    /// The job once these items are done, which follow on what was done.
    func after(_ items: ArraySlice<ReplayItem>, _ fetched: FetchedItems) -> ReplayJob {
        var next = self
        for item in items { next.move(item.source, to: item.sourceOffset + 1) }
        for (partition, counts) in fetched.counts { next.partitions[partition]?.counts += counts }
        return next
    }
}
