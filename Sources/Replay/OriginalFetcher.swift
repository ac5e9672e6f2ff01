internal import EventLoop
internal import Kafka
internal import PushRecords

/// A record to be produced.
struct ReplayRecord {
    var record: OwnedRecord
    var topic: String
    /// -1 to let the key decide.
    var partition: Int32
}

/// What became of some items before anything is produced.
struct FetchedItems {
    var records: [ReplayRecord] = []
    /// By partition of the results or dead letters; the records count as produced.
    var counts: [TopicPartition: ReplayCounts] = [:]
    /// Lines about single requests.
    var remarks: [String] = []
    var byteCount = 0

    mutating func count(_ item: ReplayItem, _ kind: ReplayCounts.Kind, _ remark: String? = nil) {
        counts[item.source, default: ReplayCounts()][kind] += 1
        if let remark { remarks.append(remark) }
    }
}

/// Fetches the requests of items from where they stand, and makes the records that ask for them again. One thread.
final class OriginalFetcher {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let client: OffsetReader
    private var writer: ReplayWriter
    /// Topics that were looked for in vain.
    private var absent: Set<String> = []
    private var fetched = FetchedItems()

    /// The most that is held in memory, unless a single request is larger.
    private static let byteLimit = 32 << 20
    /// Reading a few records that are not wanted costs less than a seek: beside a busy broker 280 records of 250 bytes
    /// were read in the time of one.
    private static let gap: Int64 = 250

    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait) throws(KafkaError) {
        self.order = order
        self.wait = wait
        client = try OffsetReader(cluster, fetchKilobytes: 64)
        writer = ReplayWriter(copyHeaders: order.copyHeaders)
    }

    /// Throws if the topic that all goes to is not there.
    func checkTarget() throws(CommandFailure) {
        guard let target = order.target else { return }
        do throws(CommandFailure) {
            _ = try wait.partitions(of: target, from: client) { Denial.writing([$0], $1) }
        } catch {
            guard error.kind == .unknownTopic else { throw error }
            throw CommandFailure("topic \(target) cannot be written: create it, or give --to TOPIC")
        }
    }

    /// Returns `nil` if the requests of these items, which are several, take too much memory together.
    func fetch(_ batch: ArraySlice<ReplayItem>) throws(CommandFailure) -> FetchedItems? {
        fetched = FetchedItems()
        var byTopic: [String: [ReplayItem]] = [:]
        for item in batch {
            guard case .skipped(let kind, let remark) = item.kind else {
                fetched.count(item, .matched)
                byTopic[item.log.topic, default: []].append(item)
                continue
            }
            fetched.count(item, kind, remark)
            // A result that cannot be read may not have been meant.
            if kind != .unreadable { fetched.count(item, .matched) }
        }
        for (topic, items) in byTopic {
            let reader = try reader(of: topic)
            for item in items {
                guard case .letter(let record) = item.kind else { continue }
                if order.target == nil, reader == nil {
                    miss([item], "there is no topic \(topic) any more")
                } else {
                    append(record, item, isThere: reader?.bounds[item.log] != nil)
                }
            }
            for (log, items) in Dictionary(grouping: items.filter(\.isFetched), by: \.log) {
                guard let reader, let range = reader.bounds[log] else {
                    miss(items, "there is no such topic or partition any more")
                    continue
                }
                try fetch(Dictionary(grouping: items, by: \.offset), of: log, reader, range)
                if fetched.byteCount > Self.byteLimit, batch.count > 1 { return nil }
            }
        }
        return fetched
    }

    private func append(_ record: OwnedRecord, _ item: ReplayItem, isThere: Bool = true) {
        fetched.byteCount += record.byteCount + 300
        // Back in its partition it stands among the others of its device, whatever partitioner chose it.
        fetched.records.append(
            ReplayRecord(
                record: record, topic: order.target ?? item.log.topic,
                partition: order.target == nil && isThere ? item.log.partition : -1))
        fetched.count(item, .produced)
    }

    private func miss(_ items: [ReplayItem], _ why: String) {
        for item in items { fetched.count(item, .gone, "\(item.place) is gone: \(why)") }
    }

    // MARK: Reading

    /// Returns a reader; `nil` if there is no such topic. It may just be recreated, or its broker have started a moment
    /// ago, so that it is looked for several times.
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

    /// Reads the records at the offsets of these items in their order: one after the other where they are near to each
    /// other, by seeking where they are not.
    private func fetch(
        _ items: [Int64: [ReplayItem]], of log: TopicPartition, _ reader: TopicReader, _ range: Range<Int64>
    ) throws(CommandFailure) {
        var wanted = items.keys.sorted()[...]
        func miss(_ count: Int, _ why: String) {
            for offset in wanted.prefix(count) { self.miss(items[offset] ?? [], why) }
            wanted.removeFirst(count)
        }
        let gone = "its offset has no record any more"
        miss(wanted.count { $0 < range.lowerBound }, "the log begins at \(range.lowerBound)")
        for offset in wanted.reversed() where offset >= range.upperBound {
            self.miss(items[offset] ?? [], "the log ends at \(range.upperBound)")
            wanted.removeLast()
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
            do throws(CommandFailure) {
                try reader.read(timeoutMs: 100) { _, message in
                    miss(wanted.count { $0 < message.offset }, gone)
                    if wanted.first == message.offset { make(items[wanted.removeFirst()] ?? [], message) }
                    return wanted.first.map { $0 - message.offset <= Self.gap } ?? false
                }
            } catch {
                guard error.kind == .unreadable else { throw error }
                for item in items[wanted.removeFirst()] ?? [] {
                    fetched.count(item, .unreadable, "\(item.place) cannot be read: \(error)")
                }
                position = .min
                continue
            }
            let reached = reader.positions[log] ?? 0
            // A reader that went back is in a log that was recreated or cut.
            miss(reached < position ? wanted.count : wanted.count { $0 < reached }, gone)
            silences = reached == position ? silences + 1 : 0
            position = reached
            // A topic that is deleted meanwhile has nothing to read, and no end.
            if silences % 20 == 19, try self.reader(of: log.topic)?.bounds[log] == nil {
                miss(wanted.count, "there is no such topic or partition any more")
            }
        }
    }

    // MARK: Making records

    /// - Parameter items: those of one record, either of results or of dead letters.
    private func make(_ items: [ReplayItem], _ message: borrowing Message) {
        guard let log = items.first?.log else { return }
        if message.hasUnreadableHeaders {
            for item in items {
                fetched.count(item, .unreadable, "\(item.place) cannot be read: its headers are damaged")
            }
            return
        }
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
                        append(OwnedRecord(copying: made.key, made.value, headers: made.headers), item)
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
        case .record(let made): append(OwnedRecord(copying: made.key, made.value, headers: made.headers), item)
        case .another(let why): miss([item], "\(why)")
        case .expired: fetched.count(item, .expired)
        case .refused(let detail):
            let subject = String(decoding: detail.subject.prefix(Detail.subjectLimit), as: UTF8.self)
            fetched.count(
                item, .refused,
                "\(item.place) is not asked for again: \(detail.text)\(subject.isEmpty ? "" : ": \(subject)")")
        }
    }
}
