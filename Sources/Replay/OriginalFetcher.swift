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

/// How the wanted records of one partition are read: one after the other where they are near to each other, by seeking
/// where they are not. Decides only; no I/O.
struct LogFetch {
    enum Step: Hashable {
        case seek(Int64)
        case goOn
        case done
    }

    /// Reading a few records that are not wanted costs less than a seek: beside a busy broker 280 records of 250 bytes
    /// were read in the time of one.
    static let gap: Int64 = 250

    /// Ascending.
    private(set) var wanted: ArraySlice<Int64>
    /// The end of the log when its bounds were asked for last.
    private var end: Int64 = 0

    init(_ wanted: some Sequence<Int64>) { self.wanted = wanted.sorted()[...] }

    /// Where reading begins in a log that has these offsets. To be called again when the broker says that it does not
    /// have an offset.
    mutating func begin(_ bounds: Range<Int64>) -> (missing: [Int64], step: Step) {
        end = bounds.upperBound
        let missing = wanted.filter { !bounds.contains($0) }
        wanted.removeAll { !bounds.contains($0) }
        return (missing, wanted.first.map { .seek($0) } ?? .done)
    }

    /// The record at this offset was read.
    mutating func read(_ offset: Int64) -> (missing: [Int64], isFound: Bool, step: Step) {
        let missing = Array(wanted.prefix { $0 < offset })
        wanted.removeFirst(missing.count)
        let isFound = wanted.first == offset
        if isFound { wanted.removeFirst() }
        guard let next = wanted.first else { return (missing, isFound, .done) }
        return (missing, isFound, next - offset <= Self.gap ? .goOn : .seek(next))
    }

    /// The next wanted record cannot be read.
    mutating func skip() -> Step {
        wanted = wanted.dropFirst()
        return wanted.first.map { .seek($0) } ?? .done
    }

    /// Whether a log that ends at this offset has none of the wanted records. It has to be asked for its bounds again
    /// where it ended later before, as another broker may just have begun to lead it.
    func isPassed(_ offset: Int64) -> Bool { offset >= end }
}

/// Fetches the requests of items from where they stand, and makes the records that ask for them again. One thread.
final class OriginalFetcher {
    private let order: ReplayOrder
    private let wait: BrokerWait
    private let reader: OffsetReader
    private var writer: ReplayWriter
    /// Topics that were looked for in vain.
    private var absent: Set<String> = []

    private var fetched = FetchedItems()
    private var items: [TopicPartition: [Int64: [ReplayItem]]] = [:]
    /// The partitions of which something is still wanted.
    private var fetches: [TopicPartition: LogFetch] = [:]
    private var partitionCounts: [String: Int] = [:]

    /// The most that is held in memory, unless a single request is larger.
    private static let byteLimit = 32 << 20

    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ wait: BrokerWait) throws(KafkaError) {
        self.order = order
        self.wait = wait
        reader = try OffsetReader(cluster, fetchKilobytes: 64)
        writer = ReplayWriter(copyHeaders: order.copyHeaders)
    }

    /// Throws if the topic that all goes to is not there.
    func checkTarget() throws(CommandFailure) {
        guard let target = order.target else { return }
        let found = try partitionCounts(of: [target]) { Denial.writing([$0], $1) }
        guard found[target] != nil else {
            throw CommandFailure("topic \(target) cannot be written: create it, or give --to TOPIC")
        }
    }

    /// Returns `nil` if the requests of these items, which are several, take too much memory together.
    func fetch(_ batch: ArraySlice<ReplayItem>) throws(CommandFailure) -> FetchedItems? {
        fetched = FetchedItems()
        items = [:]
        var topics: Set<String> = []
        for item in batch {
            if case .skipped = item.kind { continue }
            topics.insert(item.log.topic)
        }
        partitionCounts = try partitionCounts(of: topics, denial: Denial.reading)
        for item in batch { sort(item) }
        fetches = items.mapValues { LogFetch($0.keys) }
        defer { for log in fetches.keys { reader.stop(log) } }
        try begin(Array(fetches.keys))
        while !fetches.isEmpty {
            try wait.check()
            try wait.say(reader.events())
            try read()
            if fetched.byteCount > Self.byteLimit, batch.count > 1 { return nil }
        }
        return fetched
    }

    private func sort(_ item: ReplayItem) {
        var isMatch = true
        switch item.kind {
        case .skipped(let kind, let remark):
            fetched.count(item, kind, remark)
            // A result that cannot be read may not have been meant.
            isMatch = kind != .unreadable
        case .letter(let record):
            if order.target == nil, partitionCounts[item.log.topic] == nil {
                miss([item], "there is no topic \(item.log.topic) any more")
            } else {
                append(record, item)
            }
        case .notification, .truncatedLetter:
            if item.log.partition < partitionCounts[item.log.topic] ?? 0 {
                items[item.log, default: [:]][item.offset, default: []].append(item)
            } else {
                miss([item], "there is no such topic or partition any more")
            }
        }
        if isMatch { fetched.count(item, .matched) }
    }

    private func append(_ record: OwnedRecord, _ item: ReplayItem) {
        // Back in its partition it stands among the others of its device, whatever partitioner chose it.
        let isThere = order.target == nil && item.log.partition < partitionCounts[item.log.topic] ?? 0
        fetched.byteCount += record.byteCount + 300
        fetched.records.append(
            ReplayRecord(
                record: record, topic: order.target ?? item.log.topic, partition: isThere ? item.log.partition : -1))
        fetched.count(item, .produced)
    }

    private func miss(_ items: [ReplayItem], _ why: String) {
        for item in items { fetched.count(item, .gone, "\(item.place) is gone: \(why)") }
    }

    private func miss(_ offsets: [Int64], of log: TopicPartition, _ why: String) {
        for offset in offsets { miss(items[log]?[offset] ?? [], why) }
    }

    // MARK: Reading

    /// Returns how many partitions these topics have; those that are not there are left out. A topic may just be
    /// recreated, or its broker have started a moment ago, so that each is looked for several times.
    private func partitionCounts(
        of names: Set<String>, denial: (String, KafkaCode) -> String?
    ) throws(CommandFailure) -> [String: Int] {
        var found: [String: Int] = [:]
        for attempt in 0..<5 {
            let missing = names.subtracting(found.keys).subtracting(absent)
            if missing.isEmpty { return found }
            if attempt > 0 { try wait.pause(ms: 500) }
            let topics = try wait.answer(about: order.topic, from: reader) { timeoutMs throws(KafkaError) in
                try reader.topics(named: missing.sorted(), timeoutMs: timeoutMs)
            }
            for name in missing {
                let code = topics[name]?.code ?? .unknownTopic
                if let line = denial(name, code) { throw CommandFailure(line) }
                if code == .none {
                    found[name] = topics[name]?.partitions
                } else if attempt == 4, !code.isUnknownTopic {
                    throw CommandFailure("topic \(name) cannot be used: \(code.text)")
                }
            }
        }
        absent.formUnion(names.subtracting(found.keys))
        return found
    }

    private func begin(_ logs: [TopicPartition]) throws(CommandFailure) {
        guard !logs.isEmpty else { return }
        for (log, range) in try wait.bounds(of: logs, from: reader) {
            guard let begun = fetches[log]?.begin(range) else { continue }
            for offset in begun.missing {
                let isBefore = offset < range.lowerBound
                miss(
                    [offset], of: log,
                    isBefore ? "the log begins at \(range.lowerBound)" : "the log ends at \(range.upperBound)")
            }
            try take(begun.step, of: log)
        }
    }

    /// Asks again where the log is, and what it has.
    private func beginAgain(_ log: TopicPartition) throws(CommandFailure) {
        try wait.pause(ms: 200)
        let count = try partitionCounts(of: [log.topic], denial: Denial.reading)[log.topic]
        guard log.partition < count ?? 0 else {
            miss(Array(fetches[log]?.wanted ?? []), of: log, "there is no such topic or partition any more")
            return try take(.done, of: log)
        }
        try begin([log])
    }

    private func take(_ step: LogFetch.Step, of log: TopicPartition) throws(CommandFailure) {
        switch step {
        case .goOn: break
        case .done:
            reader.stop(log)
            fetches[log] = nil
        case .seek(let offset):
            do throws(KafkaError) {
                try reader.start(log, at: offset)
            } catch {
                throw CommandFailure("\(log): \(error)")
            }
        }
    }

    /// Reads one record, or what stands in its place.
    private func read() throws(CommandFailure) {
        var next: (log: TopicPartition, step: LogFetch.Step)?
        var trouble: (log: TopicPartition, what: OffsetReader.Trouble)?
        _ = reader.next(timeoutMs: 100) { log, message in
            guard let read = fetches[log]?.read(message.offset) else { return }
            miss(read.missing, of: log, "its offset has no record any more")
            if read.isFound { make(items[log]?[message.offset] ?? [], message) }
            next = (log, read.step)
        } trouble: {
            trouble = ($0, $1)
        }
        if let next { try take(next.step, of: next.log) }
        guard let (log, what) = trouble, let fetch = fetches[log] else { return }
        switch what {
        case .end(let offset) where fetch.isPassed(offset):
            miss(Array(fetch.wanted), of: log, "its offset has no record any more")
            try take(.done, of: log)
        case .end, .outOfRange: try beginAgain(log)
        case .unreadable(_, let error):
            for item in fetch.wanted.first.flatMap({ items[log]?[$0] }) ?? [] {
                fetched.count(item, .unreadable, "\(item.place) cannot be read: \(error.text)")
            }
            if let step = fetches[log]?.skip() { try take(step, of: log) }
        // The topic was deleted, or recreated with fewer partitions, since it was looked for.
        case .failed(let error) where error.code.isUnknownTopic: try beginAgain(log)
        case .failed(let error):
            if let line = Denial.reading(log.topic, error.code) { throw CommandFailure(line) }
            wait.say(error.text)
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
                var results: [(item: ReplayItem, wish: ReplayWish)] = []
                for item in items {
                    switch item.kind {
                    case .notification(let wish): results.append((item, wish))
                    case .truncatedLetter(let mark) where mark.fits(value, timestampMs: timestampMs):
                        let made = writer.whole(
                            key: key, value: value, headers: headers, place: place, as: order.whole(log.topic))
                        append(OwnedRecord(copying: made.key, made.value, headers: made.headers), item)
                    default: miss([item], "the record there is another one than its dead letter is about")
                    }
                }
                guard !results.isEmpty else { return }
                results.sort { $0.wish.index < $1.wish.index }
                writer.write(
                    key: key, value: value, headers: headers, timestampMs: timestampMs, place: place,
                    wishes: results.map(\.wish), nowMs: LoopTime.read().wallMs, expiredToo: order.expiredToo
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
