internal import Kafka
package import PushRecords

/// A record of the results or dead letters, lent to the gatherer.
struct SourceRecord {
    var partition: TopicPartition
    var offset: Int64
    var timestampMs: Int64
    var key: UnsafeRawBufferPointer
    var value: UnsafeRawBufferPointer
    var headers: UnsafeBufferPointer<RecordHeader>

    var place: String { "\(partition)/\(offset)" }
}

/// A result or dead letter that matches, and what is to be done about it.
struct ReplayItem {
    enum Kind {
        /// The notification of a result, to be fetched.
        case notification(ReplayRequest)
        /// The record that a dead letter has.
        case letter(OwnedRecord)
        /// A record that its dead letter has only in part, to be fetched.
        case truncatedLetter(LetterMark)
        /// Nothing but to be counted, and reported if there is a remark.
        case skipped(ReplayCounts.Kind, String?)
    }

    /// Where the result or dead letter stands.
    var source: TopicPartition
    var sourceOffset: Int64
    /// Where the request stands.
    var log: TopicPartition
    var offset: Int64
    var kind: Kind

    /// Whether the request has to be fetched from where it stands.
    var isFetched: Bool {
        switch kind {
        case .notification, .truncatedLetter: true
        case .letter, .skipped: false
        }
    }

    var place: String {
        if case .notification(let request) = kind { return "\(log)/\(offset)/\(request.index)" }
        return "\(log)/\(offset)"
    }
}

/// What identifies the record of a truncated dead letter at its place.
struct LetterMark: Hashable, Sendable {
    /// `RecordTime.unknown` if the record had none.
    var timestampMs: Int64
    /// `nil` if only the key was truncated.
    var valueSize: Int?
    /// The first bytes of the value.
    var valueStart: [UInt8]?

    func fits(_ value: UnsafeRawBufferPointer, timestampMs other: Int64) -> Bool {
        let (expected, found) = (RecordTime.checked(timestampMs), RecordTime.checked(other))
        return (expected == RecordTime.unknown || expected == found) && valueSize ?? value.count == value.count
            && valueStart.map { value.prefix($0.count).elementsEqual($0) } ?? true
    }
}

/// What matched, by what people look for.
package struct ReplayTally: Sendable {
    package struct Row: Hashable, Sendable {
        /// The topic of the requests.
        package var topic: String
        /// `nil` for dead letters, like the outcome.
        package var app: String?
        package var outcome: Outcome?
        package var reason: String?
    }

    /// Further rows are counted together.
    private static let rowLimit = 1_000
    private static let firstLimit = 10

    private var counts: [Row: Int64] = [:]
    package private(set) var others: Int64 = 0
    /// Where the first of them stand.
    package private(set) var first: [String] = []

    package init() {}

    mutating func add(_ row: Row, at place: String) {
        if first.count < Self.firstLimit { first.append(place) }
        if counts[row] == nil, counts.count >= Self.rowLimit {
            others += 1
        } else {
            counts[row, default: 0] += 1
        }
    }

    /// The most frequent first.
    package var rows: [(row: Row, count: Int64)] {
        func words(_ row: Row) -> [String] {
            [row.topic, row.app ?? "", row.outcome?.rawValue ?? "", row.reason ?? ""]
        }
        return counts.map { (row: $0.key, count: $0.value) }.sorted {
            $0.count != $1.count ? $0.count > $1.count : words($0.row).lexicographicallyPrecedes(words($1.row))
        }
    }
}

/// Which requests were taken before: a notification may have several results, after a crash above all, and is asked for
/// once. Knows the last `limit` at least and twice as many at most, in some 16 bytes each.
struct RequestMemory {
    private let limit: Int
    private var recent: Set<Int> = []
    private var older: Set<Int> = []

    init(limit: Int = 2_000_000) { self.limit = limit }

    /// Returns whether the request was not known.
    mutating func insert(_ request: some Hashable) -> Bool {
        let mark = request.hashValue
        guard !recent.contains(mark), !older.contains(mark) else { return false }
        if recent.count >= limit {
            older = recent
            recent = []
        }
        return recent.insert(mark).inserted
    }
}

/// Decides which requests results or dead letters name, record by record; no clock, no I/O.
struct Gatherer {
    private let order: ReplayOrder
    private(set) var tally = ReplayTally()
    /// The places of the selection for which something matched.
    private(set) var found: Set<ReplaySelection.Place> = []
    private var memory: RequestMemory

    /// A request by its place and its time, since a topic that was recreated has other requests at the same places.
    private struct Request: Hashable {
        var log: TopicPartition
        var offset: Int64
        var index: Int32
        var timestampMs: Int64
    }

    init(_ order: ReplayOrder, memory: RequestMemory = RequestMemory()) {
        self.order = order
        self.memory = memory
    }

    /// Returns what is to be done about a record; `nil` if it does not match.
    ///
    /// - Parameter isKnown: an earlier run did it, and it only has to be remembered.
    mutating func take(_ record: SourceRecord, isKnown: Bool = false) -> ReplayItem? {
        let item: ReplayItem?
        do throws(RecordError) {
            item =
                switch order.source {
                case .results: try result(record, isKnown)
                case .deadLetters: try letter(record, isKnown)
                }
        } catch {
            item = Self.item(
                record, record.partition, record.offset,
                .skipped(.unreadable, "\(record.place) cannot be read: \(error)"))
        }
        return isKnown ? nil : item
    }

    private static func item(
        _ record: SourceRecord, _ log: TopicPartition, _ offset: Int64, _ kind: ReplayItem.Kind
    ) -> ReplayItem {
        ReplayItem(source: record.partition, sourceOffset: record.offset, log: log, offset: offset, kind: kind)
    }

    private mutating func result(_ record: SourceRecord, _ isKnown: Bool) throws(RecordError) -> ReplayItem? {
        // A tombstone says nothing.
        guard record.value.baseAddress != nil else { return nil }
        let result = try DeliveryResult(json: record.value)
        guard order.selection.matches(result) else { return nil }
        let request = result.request
        let log = TopicPartition(request.topic, request.partition)
        var item = Self.item(record, log, request.offset, .notification(ReplayRequest(result)))
        let row = ReplayTally.Row(
            topic: log.topic, app: result.app, outcome: result.outcome, reason: result.reason?.rawValue)
        let place = Request(
            log: log, offset: request.offset, index: request.index, timestampMs: result.requestedAtMs)
        note(&item, place, request.index, row, isKnown)
        return item
    }

    private mutating func letter(_ record: SourceRecord, _ isKnown: Bool) throws(RecordError) -> ReplayItem? {
        let letter = try DeadLetter(
            key: record.key.baseAddress == nil ? nil : Array(record.key),
            value: record.value.baseAddress == nil ? nil : Array(record.value),
            headers: record.headers.map { HeaderField(String(decoding: $0.name, as: UTF8.self), Array($0.value)) })
        guard order.selection.matches(letter, writtenMs: record.timestampMs) else { return nil }
        let log = TopicPartition(letter.topic, letter.partition)
        let isWhole = letter.truncatedBytes == nil && letter.truncatedKeyBytes == nil
        let mark = LetterMark(
            timestampMs: letter.timestampMs, valueSize: letter.truncatedBytes, valueStart: letter.value)
        var item = Self.item(
            record, log, letter.offset, isWhole ? .letter(whole(record, letter)) : .truncatedLetter(mark))
        let place = Request(log: log, offset: letter.offset, index: 0, timestampMs: letter.timestampMs)
        note(&item, place, nil, ReplayTally.Row(topic: log.topic, reason: letter.reason), isKnown)
        if case .letter = item.kind, let obstacle = Self.obstacle(letter.reason) { item.refuse(obstacle) }
        return item
    }

    /// Remembers what matched, and skips what was taken before or is of a topic that the workers do not read.
    private mutating func note(
        _ item: inout ReplayItem, _ request: Request, _ index: Int32?, _ row: ReplayTally.Row, _ isKnown: Bool
    ) {
        for place in order.selection.places
        where place.fits(item.log.topic, item.log.partition, item.offset, index: index) { found.insert(place) }
        guard memory.insert(request) else {
            item.kind = .skipped(.repeated, nil)
            return
        }
        if !isKnown { tally.add(row, at: item.place) }
        let isRetry = order.source == .deadLetters && order.retryTopics.contains(item.log.topic)
        if item.log.partition < 0 || item.offset < 0 {
            item.refuse("there is no such place")
        } else if !isRetry, !order.isRequestTopic(item.log.topic) {
            item.refuse("its topic is none of requests.topics, and the workers do not read it")
        }
    }

    /// Why a dead letter has no request that could be asked for; `nil` if it has one.
    private static func obstacle(_ reason: String) -> String? {
        switch reason {
        case "output-too-large", "output-refused": "it is a record that the worker wrote, and no request"
        case "unreadable-headers": "its headers cannot be read, and what it asks for with them is not known"
        default: nil
        }
    }

    private func whole(_ record: SourceRecord, _ letter: DeadLetter) -> OwnedRecord {
        var topic = letter.topic
        return topic.withUTF8 { topic in
            let place = RequestPlace(
                topic: UnsafeRawBufferPointer(topic), partition: letter.partition, offset: letter.offset, index: 0)
            var writer = ReplayWriter()
            let made = writer.whole(
                key: record.key, value: record.value, headers: record.headers, place: place,
                as: order.whole(letter.topic))
            return OwnedRecord(copying: made.key, made.value, headers: made.headers)
        }
    }
}

extension ReplayOrder {
    /// What a dead letter's record of a topic is.
    func whole(_ topic: String) -> ReplayWriter.Whole { retryTopics.contains(topic) ? .retryLetter : .letter }
}

extension ReplayItem {
    fileprivate mutating func refuse(_ reason: String) {
        kind = .skipped(.refused, "\(place) is not asked for again: \(reason)")
    }
}
