internal import EventLoop
internal import Kafka
internal import PushRecords

/// The records to produce for a batch of items, and the job's state after they are produced.
struct ReplayBatch {
    var job: ReplayJob
    var records: [ReplayRecord] = []
    var remarks: [String] = []

    mutating func count(_ item: ReplayItem, _ kind: ReplayOutcome, _ remark: String? = nil) {
        job.count(item, kind)
        if let remark { remarks.append(remark) }
    }
}

/// Fetches the original requests of selected results and dead letters, and creates the records that request their
/// notifications again. Use it on one thread.
final class OriginalFetcher {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let client: OffsetReader
    private var writer: ReplayWriter
    /// The readers of the request topics by name. A reader is `nil` if the topic does not exist.
    private var readers: [String: TopicReader?] = [:]
    private var batch: ReplayBatch

    /// The largest gap between two wanted offsets that the fetcher reads through instead of seeking. On a busy broker,
    /// one seek took as long as reading 280 records of 250 bytes.
    private static let gap: Int64 = 250

    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait) throws {
        self.order = order
        self.wait = wait
        client = try OffsetReader(cluster, fetchKilobytes: 64)
        writer = ReplayWriter(copyHeaders: order.copyHeaders)
        batch = ReplayBatch(job: ReplayJob(order, [:]))
    }

    /// - Parameter job: The job's state before this batch.
    func fetch(_ items: ArraySlice<ReplayItem>, _ job: ReplayJob) throws -> ReplayBatch {
        batch = ReplayBatch(job: job)
        var originals: [TopicPartition: [ReplayItem]] = [:]
        for item in items {
            guard case .skipped(let kind, let remark) = item.kind else {
                batch.count(item, .matched)
                originals[item.log, default: []].append(item)
                continue
            }
            batch.count(item, kind, remark)
            // It is unknown whether an unreadable result would match, so it does not count as matched.
            if kind != .unreadable { batch.count(item, .matched) }
        }
        for (log, part) in originals {
            let reader = try reader(of: log.topic)
            let range = reader?.bounds[log]
            var wanted: [Int64: [ReplayItem]] = [:]
            for item in part {
                if case .letter = item.kind, range != nil || order.target != nil {
                    item.source.record.withLent {
                        make([item], key: $0, value: $1, headers: $2, timestampMs: RecordTime.unknown)
                    }
                } else if let range, range.contains(item.offset) {
                    wanted[item.offset, default: []].append(item)
                } else {
                    let why = range.map { "the partition has only offsets \($0.lowerBound) to \($0.upperBound - 1)" }
                    miss([item], why ?? "the request's topic or partition no longer exists")
                }
            }
            if let reader { try fetch(wanted, of: log, reader) }
        }
        return batch
    }

    private func append(_ made: EncodedRecord, _ item: ReplayItem) {
        let record = OwnedRecord(copying: made.key, made.value, headers: made.headers)
        // The new request keeps the original partition, so that it stays in order with the device's other requests. The
        // partitioner of the original producer is unknown.
        let partition = order.target == nil ? item.log.partition : -1
        batch.records.append((record, order.target ?? item.log.topic, partition))
        batch.count(item, .produced)
    }

    private func miss(_ items: [ReplayItem], _ why: String) {
        for item in items { batch.count(item, .gone, "\(item.place) is gone: \(why)") }
    }

    // MARK: Reading

    /// Returns a reader, or `nil` if the topic is still missing after five attempts. The method tries several times,
    /// because an operator may be recreating the topic.
    private func reader(of topic: String) throws -> TopicReader? {
        if let known = readers[topic] { return known }
        var found: TopicReader?
        for _ in 0..<5 where found == nil {
            do {
                found = try TopicReader(client, topic: topic, wait)
            } catch let error as CommandFailure where error.kind == .unknownTopic {
                try wait.pause(ms: 500)
            }
        }
        readers.updateValue(found, forKey: topic)
        return found
    }

    /// Reads the records at the offsets in `items`, in ascending order, and seeks over large gaps.
    private func fetch(_ items: [Int64: [ReplayItem]], of log: TopicPartition, _ reader: TopicReader) throws {
        var wanted = items.keys.sorted()[...]
        func miss(_ count: Int) {
            for offset in wanted.prefix(count) {
                self.miss(items[offset] ?? [], "there is no longer a record at the request's offset")
            }
            wanted.removeFirst(count)
        }
        defer { client.stop(log) }
        var position: Int64 = .min
        while let next = wanted.first {
            try wait.check()
            if next < position || next - Self.gap > position {
                try reader.start(log, at: next)
                position = next
            }
            try reader.read(timeoutMs: 100) { _, message in
                miss(wanted.count { $0 < message.offset })
                if let next = wanted.first, next == message.offset {
                    wanted.removeFirst()
                    let timestampMs = message.timestampMs
                    OwnedRecord(message).withLent {
                        make(items[next] ?? [], key: $0, value: $1, headers: $2, timestampMs: timestampMs)
                    }
                }
                return wanted.first.map { $0 - message.offset <= Self.gap } ?? false
            }
            let reached = reader.positions[log] ?? 0
            // If the position has moved back, the topic was recreated or truncated, and the wanted records are gone.
            miss(reached < position ? wanted.count : wanted.count { $0 < reached })
            position = reached
        }
    }

    // MARK: Making records

    /// - Parameter items: All items whose original request is this record: either results or dead letters.
    private func make(
        _ items: [ReplayItem], key: UnsafeRawBufferPointer, value: UnsafeRawBufferPointer,
        headers: UnsafeBufferPointer<RecordHeader>, timestampMs: Int64
    ) {
        guard let first = items.first else { return }
        var topic = first.log.topic
        let isRetry = order.retryTopics.contains(topic)
        let form: ReplayWriter.Whole = !isRetry ? .letter : order.target == nil ? .retryLetter : .movedRetryLetter
        topic.withUTF8 { topic in
            let place = RequestPlace(
                topic: UnsafeRawBufferPointer(topic), partition: first.log.partition, offset: first.offset, index: 0)
            var results: [(item: ReplayItem, request: ReplayRequest)] = []
            for item in items {
                switch item.kind {
                case .notification(let request): results.append((item, request))
                case .truncatedLetter(let letter) where !letter.fits(value, timestampMs: timestampMs):
                    miss([item], "the record at the request's offset is not the record in the dead letter")
                default:
                    append(writer.whole(key: key, value: value, headers: headers, place: place, as: form), item)
                }
            }
            guard !results.isEmpty else { return }
            results.sort { $0.request.index < $1.request.index }
            writer.write(
                key: key, value: value, headers: headers, timestampMs: timestampMs, place: place,
                requests: results.map(\.request), nowMs: LoopTime.read().wallMs, expiredToo: order.expiredToo
            ) { note($1, results[$0].item) }
        }
    }

    private func note(_ verdict: ReplayVerdict, _ item: ReplayItem) {
        switch verdict {
        case .record(let made): append(made, item)
        case .another(let why): miss([item], "\(why)")
        case .expired: batch.count(item, .expired)
        case .refused(let detail):
            let subject = String(decoding: detail.subject.prefix(Detail.subjectLimit), as: UTF8.self)
            batch.count(
                item, .refused,
                "\(item.place) is not requested again: \(detail.text)\(subject.isEmpty ? "" : ": \(subject)")")
        }
    }
}
