internal import EventLoop
internal import Kafka
internal import PushRecords

/// A batch of items: the records to produce, and the job once they are produced.
struct ReplayBatch {
    var job: ReplayJob
    var records: [ReplayRecord] = []
    var remarks: [String] = []
    var byteCount = 0

    init(_ job: ReplayJob) { self.job = job }

    mutating func count(_ item: ReplayItem, _ kind: ReplayOutcome, _ remark: String? = nil) {
        job.count(item, kind)
        if let remark { remarks.append(remark) }
    }
}

/// Fetches the requests of items from their topics, and makes the records that request them again. One thread.
final class OriginalFetcher {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let client: OffsetReader
    private var writer: ReplayWriter
    private var absent: Set<String> = []
    private var batch: ReplayBatch

    /// The memory limit of a batch, unless a single request is larger.
    private static let byteLimit = 32 << 20
    /// Reading a few unwanted records costs less than a seek: beside a busy broker 280 records of 250 bytes were read
    /// in the time of one.
    private static let gap: Int64 = 250

    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait) throws(CommandFailure) {
        self.order = order
        self.wait = wait
        do throws(KafkaError) {
            client = try OffsetReader(cluster, fetchKilobytes: 64)
        } catch {
            throw CommandFailure("Kafka: \(error)")
        }
        writer = ReplayWriter(copyHeaders: order.copyHeaders)
        batch = ReplayBatch(ReplayJob(order, beganMs: 0, [:]))
    }

    func checkTarget() throws(CommandFailure) {
        guard let target = order.target else { return }
        _ = try wait.partitions(of: target, from: client) { Denial.writing([$0], $1) }
    }

    /// Returns `nil` if the requests of these items, which are several, take too much memory. `job` is that before
    /// them.
    func fetch(_ items: ArraySlice<ReplayItem>, _ job: ReplayJob) throws(CommandFailure) -> ReplayBatch? {
        batch = ReplayBatch(job)
        var originals: [TopicPartition: [ReplayItem]] = [:]
        for item in items {
            guard case .skipped(let kind, let remark) = item.kind else {
                batch.count(item, .matched)
                originals[item.log, default: []].append(item)
                continue
            }
            batch.count(item, kind, remark)
            // Whether a result that cannot be read would match is not known.
            if kind != .unreadable { batch.count(item, .matched) }
        }
        var readers: [String: TopicReader] = [:]
        for (log, part) in originals {
            if readers[log.topic] == nil { readers[log.topic] = try reader(of: log.topic) }
            let reader = readers[log.topic]
            let range = reader?.bounds[log]
            var wanted: [Int64: [ReplayItem]] = [:]
            for item in part {
                if case .letter(let record) = item.kind, reader != nil || order.target != nil {
                    append(record, item, isThere: range != nil)
                } else if let range, range.contains(item.offset) {
                    wanted[item.offset, default: []].append(item)
                } else {
                    let why = range.map { "the log has the offsets from \($0.lowerBound) to before \($0.upperBound)" }
                    miss([item], why ?? "there is no such topic or partition any more")
                }
            }
            if let reader { try fetch(wanted, of: log, reader) }
            if batch.byteCount > Self.byteLimit, items.count > 1 { return nil }
        }
        return batch
    }

    private func append(_ record: OwnedRecord, _ item: ReplayItem, isThere: Bool = true) {
        batch.byteCount += record.byteCount + 300
        // In its own partition it keeps the order with its device's other records, whatever partitioner chose it.
        batch.records.append(
            ReplayRecord(
                record: record, topic: order.target ?? item.log.topic,
                partition: order.target == nil && isThere ? item.log.partition : -1))
        batch.count(item, .produced)
    }

    private func miss(_ items: [ReplayItem], _ why: String) {
        for item in items { batch.count(item, .gone, "\(item.place) is gone: \(why)") }
    }

    // MARK: Reading

    /// Returns a reader, or `nil` if there is no such topic after several tries: it may just be recreated.
    private func reader(of topic: String) throws(CommandFailure) -> TopicReader? {
        for _ in 0..<5 where !absent.contains(topic) {
            do throws(CommandFailure) {
                return try TopicReader(client, topic: topic, wait)
            } catch {
                guard error.kind == .unknownTopic else { throw error }
            }
            try wait.pause(ms: 500)
        }
        absent.insert(topic)
        return nil
    }

    /// Reads the records at the offsets of these items in their order, and seeks where they are far from each other.
    private func fetch(
        _ items: [Int64: [ReplayItem]], of log: TopicPartition, _ reader: TopicReader
    ) throws(CommandFailure) {
        var wanted = items.keys.sorted()[...]
        func miss(_ count: Int) {
            for offset in wanted.prefix(count) { self.miss(items[offset] ?? [], "its offset has no record any more") }
            wanted.removeFirst(count)
        }
        defer { client.stop(log) }
        var position: Int64 = .min
        var silences = 0
        while let next = wanted.first {
            try wait.check()
            if next < position || next - Self.gap > position {
                try reader.start(log, at: next)
                position = next
            }
            try reader.read(timeoutMs: 100) { _, message in
                miss(wanted.count { $0 < message.offset })
                if wanted.first == message.offset { make(items[wanted.removeFirst()] ?? [], message) }
                return wanted.first.map { $0 - message.offset <= Self.gap } ?? false
            }
            let reached = reader.positions[log] ?? 0
            // A reader that went back is in a log that was recreated or truncated.
            miss(reached < position ? wanted.count : wanted.count { $0 < reached })
            silences = reached == position ? silences + 1 : 0
            position = reached
            // A topic that is deleted meanwhile has neither records nor an end.
            if silences % 20 == 19, try self.reader(of: log.topic)?.bounds[log] == nil { miss(wanted.count) }
        }
    }

    // MARK: Making records

    /// - Parameter items: those of one record, either of results or of dead letters.
    private func make(_ items: [ReplayItem], _ message: borrowing Message) {
        guard let log = items.first?.log else { return }
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        let (key, value) = (message.key, message.value)
        let (offset, timestampMs) = (message.offset, message.timestampMs)
        var topic = log.topic
        topic.withUTF8 { topic in
            headers.withUnsafeBufferPointer { headers in
                let place = RequestPlace(
                    topic: UnsafeRawBufferPointer(topic), partition: log.partition, offset: offset, index: 0)
                var results: [(item: ReplayItem, request: ReplayRequest)] = []
                for item in items {
                    switch item.kind {
                    case .notification(let request): results.append((item, request))
                    case .truncatedLetter(let mark) where mark.fits(value, timestampMs: timestampMs):
                        let made = writer.whole(
                            key: key, value: value, headers: headers, place: place, as: order.whole(log.topic))
                        append(OwnedRecord(copying: made), item)
                    default: miss([item], "the record there is another one than its dead letter is about")
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
    }

    private func note(_ verdict: ReplayVerdict, _ item: ReplayItem) {
        switch verdict {
        case .record(let made): append(OwnedRecord(copying: made), item)
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
