internal import Kafka
internal import PushRecords

/// A record of the results or dead letters.
struct SourceRecord {
    var partition: TopicPartition
    var offset: Int64
    var timestampMs: Int64
    var record: OwnedRecord
}

extension SourceRecord {
    init(_ message: borrowing Message, of partition: TopicPartition) {
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        self.init(
            partition: partition, offset: message.offset, timestampMs: message.timestampMs,
            record: OwnedRecord(copying: message.key, message.value, headers: headers))
    }
}

/// A result or dead letter that matches, and what the run does about it.
struct ReplayItem {
    enum Kind {
        /// The notification of a result, to be fetched.
        case notification(ReplayRequest)
        /// A dead letter that has the whole record.
        case letter
        /// A record that its dead letter truncated, to be fetched.
        case truncatedLetter(DeadLetter)
        /// A match that is only counted, and reported if there is a remark.
        case skipped(ReplayOutcome, String?)
    }

    var source: SourceRecord
    /// The place of the request.
    var log: TopicPartition
    var offset: Int64
    var kind: Kind

    /// The size of the record of a dead letter.
    var letterBytes: Int {
        switch kind {
        case .letter: source.record.byteCount + 200
        case .truncatedLetter(let letter): letter.truncatedBytes ?? 0
        default: 0
        }
    }

    var place: String {
        if case .notification(let request) = kind { return "\(log)/\(offset)/\(request.index)" }
        return "\(log)/\(offset)"
    }

    mutating func refuse(_ reason: String) {
        kind = .skipped(.refused, "\(place) is not requested again: \(reason)")
    }
}

extension DeadLetter {
    /// Whether a record at the letter's place is the one that the letter truncated.
    func fits(_ record: UnsafeRawBufferPointer, timestampMs other: Int64) -> Bool {
        let (expected, found) = (RecordTime.checked(timestampMs), RecordTime.checked(other))
        return (expected == RecordTime.unknown || expected == found)
            && truncatedBytes ?? record.count == record.count
            && value.map { record.prefix($0.count).elementsEqual($0) } ?? true
    }
}

/// The requests with the same topic, app, outcome and reason that a run found.
package struct ReplayKind: Sendable {
    /// These four; `nil` where dead letters have none.
    package let words: [String?]
    package internal(set) var count: Int64 = 0
    /// The place of the first request.
    package let first: String
}

/// Decides which requests results or dead letters name, record by record; no clock, no I/O.
struct Gatherer {
    private let order: ReplayOrder
    private var found: [[String?]: ReplayKind] = [:]
    /// The places of the selection for which something matched.
    private(set) var matchedPlaces: Set<ReplaySelection.Place> = []
    /// The hashes of the requests that were taken, about 16 bytes each. A notification may have several results, above
    /// all after a crash, and is requested again once. A topic that was recreated has other requests at the same
    /// places, so that a request's time counts, too.
    private var taken: Set<Int> = []

    init(_ order: ReplayOrder) { self.order = order }

    /// The most frequent first.
    var kinds: [ReplayKind] { found.values.sorted { ($1.count, $0.first) < ($0.count, $1.first) } }

    /// Leaves out of `kinds` what an earlier run has done.
    mutating func forgetKinds() { found = [:] }

    /// Returns the item for a record, or `nil` if it does not match.
    mutating func take(_ record: SourceRecord) -> ReplayItem? {
        do throws(RecordError) {
            return try order.source == .results ? result(record) : letter(record)
        } catch {
            let remark = "\(record.partition)/\(record.offset) cannot be read: \(error)"
            return ReplayItem(
                source: record, log: record.partition, offset: record.offset, kind: .skipped(.unreadable, remark))
        }
    }

    private mutating func result(_ record: SourceRecord) throws(RecordError) -> ReplayItem? {
        // A record without a value is a tombstone.
        guard let value = record.record.value else { return nil }
        let result = try DeliveryResult(json: value)
        guard order.selection.matches(result) else { return nil }
        let place = result.request
        var item = ReplayItem(
            source: record, log: TopicPartition(place.topic, place.partition), offset: place.offset,
            kind: .notification(ReplayRequest(result)))
        note(
            &item, index: place.index, timestampMs: result.requestedAtMs,
            [place.topic, result.app, result.outcome.rawValue, result.reason?.rawValue])
        return item
    }

    private mutating func letter(_ record: SourceRecord) throws(RecordError) -> ReplayItem? {
        let letter = try DeadLetter(
            key: record.record.key, value: record.record.value,
            headers: record.record.headers.map {
                HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? [])
            })
        guard order.selection.matches(letter, writtenMs: record.timestampMs) else { return nil }
        let isWhole = letter.truncatedBytes == nil && letter.truncatedKeyBytes == nil
        var item = ReplayItem(
            source: record, log: TopicPartition(letter.topic, letter.partition), offset: letter.offset,
            kind: isWhole ? .letter : .truncatedLetter(letter))
        switch letter.reason {
        case "output-too-large", "output-refused":
            item.refuse("it is a record that the worker wrote, and no request")
        case "unreadable-headers":
            item.refuse("its headers cannot be read, and what they ask for is not known")
        default: break
        }
        note(&item, index: nil, timestampMs: letter.timestampMs, [letter.topic, nil, nil, letter.reason])
        return item
    }

    /// Remembers a match. Skips what was taken before, or is of a topic that the workers do not read.
    ///
    /// - Parameter index: `nil` for a dead letter, which stands for the whole record.
    private mutating func note(_ item: inout ReplayItem, index: Int32?, timestampMs: Int64, _ words: [String?]) {
        for place in order.selection.places
        where place.fits(item.log.topic, item.log.partition, item.offset, index: index) {
            matchedPlaces.insert(place)
        }
        let request: [AnyHashable?] = [item.log, item.offset, index, timestampMs]
        guard taken.insert(request.hashValue).inserted else {
            item.kind = .skipped(.repeated, nil)
            return
        }
        found[words, default: ReplayKind(words: words, first: item.place)].count += 1
        let isRetry = order.source == .deadLetters && order.retryTopics.contains(item.log.topic)
        if item.log.partition < 0 || item.offset < 0 {
            item.refuse("there is no such place")
        } else if !isRetry, !order.isRequestTopic(item.log.topic) {
            item.refuse("its topic is none of requests.topics, and the workers do not read it")
        }
    }
}

extension ReplayOrder {
    func whole(_ topic: String) -> ReplayWriter.Whole {
        guard retryTopics.contains(topic) else { return .letter }
        return target == nil ? .retryLetter : .movedRetryLetter
    }
}
