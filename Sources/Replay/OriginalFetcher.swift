internal import EventLoop
internal import Kafka
internal import PushRecords

/// A record to be written, and what for.
struct ReplayedRecord {
    var record: OwnedRecord
    /// Where the request stands.
    var log: TopicPartition
    /// For people.
    var place: String
    var source: TopicPartition
}

/// What became of a batch before anything is written.
struct FetchedBatch {
    /// In the order in which they are to be written.
    var records: [ReplayedRecord] = []
    var bytes = 0
    /// Of what is not to be written, by partition of the results or dead letters.
    var counts: [TopicPartition: ReplayCounts] = [:]
    /// What is to be said of single requests.
    var remarks: [String] = []

    mutating func append(_ record: ReplayedRecord) {
        bytes += record.record.byteCount + 300
        records.append(record)
    }

    mutating func count(_ item: ReplayBatch.Item, _ count: WritableKeyPath<ReplayCounts, Int64>) {
        counts[item.source, default: ReplayCounts()][keyPath: count] += 1
    }
}

/// Reads the requests that a batch is about where they stand, and makes of them the records to be written. One thread.
final class OriginalFetcher {
    private let order: ReplayOrder
    private let reader: OffsetReader
    private let watch: ReplayWatch
    private var lookup: TopicLookup
    private var writer: ReplayWriter

    /// More than that is not held in memory: a batch of several requests is done in two halves then.
    private static let byteLimit = 32 << 20
    /// How long one question to the brokers may take.
    private static let questionMs: Int32 = 10_000

    init(_ order: ReplayOrder, _ cluster: ClusterSettings, _ watch: ReplayWatch) throws(KafkaError) {
        self.order = order
        self.watch = watch
        reader = try OffsetReader(cluster, fetchKilobytes: 64)
        lookup = TopicLookup(reader, watch)
        writer = ReplayWriter(copyHeaders: order.copyHeaders)
    }

    /// `nil`: together they take too much memory.
    func fetch(_ batch: ReplayBatch) throws(ReplayFailure) -> FetchedBatch? {
        var fetched = FetchedBatch()
        for item in batch.items {
            guard case .letter(let record) = item.kind else { continue }
            fetched.append(
                ReplayedRecord(record: record, log: item.log, place: item.place, source: item.source))
        }
        var round = Round(batch: batch, fetches: batch.wanted().mapValues { LogFetch($0) }, fetched: fetched)
        defer { for log in round.fetches.keys { reader.stop(log) } }
        try begin(round.fetches.keys.map(\.self), &round)
        while !round.fetches.isEmpty {
            try watch.check()
            watch.trouble(reader.events())
            var failure: ReplayFailure?
            var lost: TopicPartition?
            var short: TopicPartition?
            _ = reader.next(timeoutMs: 100) { log, message in
                failure = took(log, message, &round)
            } trouble: { log, trouble in
                switch trouble {
                case .end(let offset): if !ended(log, at: offset, &round) { short = log }
                case .outOfRange: lost = log
                case .unreadable(_, let error): failure = cannotRead(log, error.text, &round)
                // Deleted, or made anew with fewer partitions, since it was begun.
                case .failed(let error) where error.code.isUnknownTopic: short = log
                case .failed(let error):
                    failure = ReplayFailure.reading(log.topic, error.code)
                    if failure == nil { watch.trouble(error.text) }
                }
            }
            if let short {
                try watch.pause(ms: 200)
                lost = short
            }
            if let lost { try begin([lost], &round) }
            if let failure { throw failure }
            if round.fetched.bytes > Self.byteLimit, batch.items.count > 1 { return nil }
        }
        return round.fetched
    }

    /// What is being fetched.
    private struct Round {
        let batch: ReplayBatch
        /// Logs of which something is still wanted.
        var fetches: [TopicPartition: LogFetch]
        var fetched: FetchedBatch
    }

    // MARK: Reading

    /// Starts reading these logs, where they are there.
    private func begin(_ logs: [TopicPartition], _ round: inout Round) throws(ReplayFailure) {
        guard !logs.isEmpty else { return }
        let topics = try lookup.topics(Set(logs.map(\.topic)))
        var there: [TopicPartition] = []
        for log in logs {
            let topic = topics[log.topic]
            if topic?.code == KafkaCode.none, Int(log.partition) < topic?.partitions ?? 0 {
                there.append(log)
            } else if topic?.code == KafkaCode.none || topic?.code.isUnknownTopic != false {
                let findings = round.fetches[log]?.giveUp("there is no such topic or partition any more") ?? []
                reader.stop(log)
                round.fetches[log] = nil
                note(findings, &round)
            } else if let code = topic?.code {
                throw ReplayFailure.reading(log.topic, code)
                    ?? ReplayFailure("topic \(log.topic) cannot be read: \(code.text)")
            }
        }
        while !there.isEmpty {
            let bounds = reader.bounds(of: there, timeoutMs: Self.questionMs)
            for (log, range) in bounds {
                guard var fetch = round.fetches[log] else { continue }
                let begun = fetch.begin(range)
                round.fetches[log] = fetch
                note(begun.findings, &round)
                if let failure = go(log, begun.step, &round) { throw failure }
            }
            there.removeAll { bounds[$0] != nil }
            guard let silent = there.first else { return }
            watch.trouble("the leader of \(silent) does not answer")
            try watch.pause(ms: 1_000)
        }
    }

    private func go(_ log: TopicPartition, _ step: LogFetch.Step, _ round: inout Round) -> ReplayFailure? {
        switch step {
        case .goOn: break
        case .done:
            reader.stop(log)
            round.fetches[log] = nil
        case .start(let offset):
            do throws(KafkaError) {
                try reader.start(log, at: offset)
            } catch {
                return ReplayFailure("\(log): \(error)")
            }
        }
        return nil
    }

    private func took(_ log: TopicPartition, _ message: borrowing Message, _ round: inout Round) -> ReplayFailure? {
        guard var fetch = round.fetches[log] else { return nil }
        let told = fetch.took(message.offset)
        round.fetches[log] = fetch
        for finding in told.findings {
            if case .found(let wanted) = finding {
                make(wanted, log, message, &round)
            } else {
                note([finding], &round)
            }
        }
        return go(log, told.step, &round)
    }

    /// False: the log has more.
    private func ended(_ log: TopicPartition, at offset: Int64, _ round: inout Round) -> Bool {
        guard var fetch = round.fetches[log] else { return true }
        guard let findings = fetch.ended(offset) else { return false }
        note(findings, &round)
        _ = go(log, .done, &round)
        return true
    }

    private func cannotRead(_ log: TopicPartition, _ reason: String, _ round: inout Round) -> ReplayFailure? {
        guard var fetch = round.fetches[log] else { return nil }
        let told = fetch.failed(reason)
        round.fetches[log] = fetch
        note(told.findings, &round)
        return go(log, told.step, &round)
    }

    private func note(_ findings: [LogFetch.Finding], _ round: inout Round) {
        for finding in findings {
            switch finding {
            case .found: break
            case .missing(let wanted, let why):
                for number in wanted.items { miss(round.batch.items[number], why, &round) }
            case .unreadable(let wanted, let why):
                for number in wanted.items {
                    let item = round.batch.items[number]
                    round.fetched.count(item, \.unreadable)
                    round.fetched.remarks.append("\(item.place) cannot be read: \(why)")
                }
            }
        }
    }

    private func miss(_ item: ReplayBatch.Item, _ why: String, _ round: inout Round) {
        round.fetched.count(item, \.gone)
        round.fetched.remarks.append("\(item.place) is gone: \(why)")
    }

    // MARK: Making records

    private func make(
        _ wanted: LogFetch.Wanted, _ log: TopicPartition, _ message: borrowing Message, _ round: inout Round
    ) {
        let items = wanted.items.map { round.batch.items[$0] }
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        let (key, value) = (message.key, message.value)
        let (offset, timestampMs) = (message.offset, message.timestampMs)
        if message.hasUnreadableHeaders {
            for item in items {
                round.fetched.count(item, \.unreadable)
                round.fetched.remarks.append("\(item.place) cannot be read: its headers are damaged")
            }
            return
        }
        // All of one record are of one kind: of results, or of dead letters.
        let wishes = items.compactMap { item -> ReplayWish? in
            if case .notification(let wish) = item.kind { wish } else { nil }
        }
        var topic = log.topic
        topic.withUTF8 { topic in
            headers.withUnsafeBufferPointer { headers in
                let place = RequestPlace(
                    topic: UnsafeRawBufferPointer(topic), partition: log.partition, offset: offset, index: 0)
                if wishes.isEmpty {
                    var isTaken = false
                    for item in items {
                        guard case .records(let mark) = item.kind else { continue }
                        guard mark.fits(value, timestampMs: timestampMs) else {
                            miss(item, "the record there is another one than its dead letter is about", &round)
                            continue
                        }
                        // Another letter said the same of it in other words.
                        if isTaken {
                            round.fetched.count(item, \.repeated)
                            continue
                        }
                        isTaken = true
                        let made = writer.whole(
                            key: key, value: value, headers: headers, place: place,
                            as: order.topics.kind(of: log.topic))
                        append(made, item, "\(log)/\(offset)", &round)
                    }
                    return
                }
                writer.write(
                    key: key, value: value, headers: headers, timestampMs: timestampMs, place: place, wishes: wishes,
                    nowMs: watch.nowMs, expiredToo: order.expiredToo
                ) { number, verdict in
                    let item = items[number]
                    switch verdict {
                    case .record(let made): append(made, item, item.place, &round)
                    case .another(let why): miss(item, "\(why)", &round)
                    case .repeated: round.fetched.count(item, \.repeated)
                    case .expired: round.fetched.count(item, \.expired)
                    case .refused(let detail):
                        let words = detail.subject.prefix(Detail.subjectLimit)
                        let subject = words.isEmpty ? "" : ": \(String(decoding: words, as: UTF8.self))"
                        round.fetched.count(item, \.refused)
                        round.fetched.remarks.append("\(item.place) is not asked for again: \(detail.text)\(subject)")
                    }
                }
            }
        }
    }

    private func append(_ made: EncodedRecord, _ item: ReplayBatch.Item, _ place: String, _ round: inout Round) {
        round.fetched.append(
            ReplayedRecord(
                record: OwnedRecord(copying: made.key, made.value, headers: made.headers), log: item.log, place: place,
                source: item.source))
    }
}
