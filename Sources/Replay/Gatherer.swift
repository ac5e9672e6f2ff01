internal import Kafka
package import PushRecords

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
        case letter(OwnedRecord)
        /// A record that its dead letter truncated, to be fetched.
        case truncatedLetter(LetterMark)
        /// A match that is only counted, and reported if there is a remark.
        case skipped(ReplayOutcome, String?)
    }

    var source: TopicPartition
    var sourceOffset: Int64
    /// The place of the request.
    var log: TopicPartition
    var offset: Int64
    var kind: Kind

    var place: String {
        if case .notification(let request) = kind { return "\(log)/\(offset)/\(request.index)" }
        return "\(log)/\(offset)"
    }
}

/// Identifies the record of a truncated dead letter at its place.
struct LetterMark: Hashable, Sendable {
    /// `RecordTime.unknown` if the record had none.
    var timestampMs: Int64
    /// `nil` if only the key was truncated.
    var valueSize: Int?
    var valueStart: [UInt8]?

    func fits(_ value: UnsafeRawBufferPointer, timestampMs other: Int64) -> Bool {
        let (expected, found) = (RecordTime.checked(timestampMs), RecordTime.checked(other))
        return (expected == RecordTime.unknown || expected == found) && valueSize ?? value.count == value.count
            && valueStart.map { value.prefix($0.count).elementsEqual($0) } ?? true
    }
}

package struct ReplayTally: Sendable {
    package struct Row: Hashable, Sendable {
        /// The topic of the requests.
        package var topic: String
        /// `nil` for dead letters, like the outcome.
        package var app: String?
        package var outcome: Outcome?
        package var reason: String?

        fileprivate var words: [String] { [topic, app ?? "", outcome?.rawValue ?? "", reason ?? ""] }
    }

    private var counts: [Row: Int64] = [:]
    /// The places of the first ten.
    package private(set) var first: [String] = []

    mutating func add(_ row: Row, at place: String) {
        if first.count < 10 { first.append(place) }
        counts[row, default: 0] += 1
    }

    /// The most frequent first.
    package var rows: [(row: Row, count: Int64)] {
        counts.map { (row: $0.key, count: $0.value) }.sorted {
            $0.count != $1.count ? $0.count > $1.count : $0.row.words.lexicographicallyPrecedes($1.row.words)
        }
    }
}

/// Decides which requests results or dead letters name, record by record; no clock, no I/O.
struct Gatherer {
    private let order: ReplayOrder
    private(set) var tally = ReplayTally()
    /// The places of the selection for which something matched.
    private(set) var found: Set<ReplaySelection.Place> = []
    /// The hashes of the requests that were taken, about 16 bytes each. A notification may have several results, above
    /// all after a crash, and is requested again once.
    private var taken: Set<Int> = []

    /// A request by its place and its time, since a topic that was recreated has other requests at the same places.
    private struct Request: Hashable {
        var log: TopicPartition
        var offset: Int64
        /// `nil` for a dead letter, which stands for the whole record.
        var index: Int32?
        var timestampMs: Int64
    }

    init(_ order: ReplayOrder) { self.order = order }

    /// Returns the item for a record, or `nil` if it does not match.
    ///
    /// - Parameter isKnown: an earlier run processed it, and it only has to be remembered.
    mutating func take(_ record: SourceRecord, isKnown: Bool = false) -> ReplayItem? {
        do throws(RecordError) {
            let item = try order.source == .results ? result(record, isKnown) : letter(record, isKnown)
            return isKnown ? nil : item
        } catch {
            let kind = ReplayItem.Kind.skipped(
                .unreadable, "\(record.partition)/\(record.offset) cannot be read: \(error)")
            return isKnown ? nil : ReplayItem(record, record.partition, record.offset, kind)
        }
    }

    private mutating func result(_ record: SourceRecord, _ isKnown: Bool) throws(RecordError) -> ReplayItem? {
        // A record without a value is a tombstone.
        guard let value = record.record.value else { return nil }
        let result = try DeliveryResult(json: value)
        guard order.selection.matches(result) else { return nil }
        let place = result.request
        let request = Request(
            log: TopicPartition(place.topic, place.partition), offset: place.offset, index: place.index,
            timestampMs: result.requestedAtMs)
        var item = ReplayItem(record, request.log, request.offset, .notification(ReplayRequest(result)))
        note(
            &item, request,
            .init(topic: place.topic, app: result.app, outcome: result.outcome, reason: result.reason?.rawValue),
            isKnown)
        return item
    }

    private mutating func letter(_ record: SourceRecord, _ isKnown: Bool) throws(RecordError) -> ReplayItem? {
        let letter = try DeadLetter(
            key: record.record.key, value: record.record.value,
            headers: record.record.headers.map {
                HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? [])
            })
        guard order.selection.matches(letter, writtenMs: record.timestampMs) else { return nil }
        let log = TopicPartition(letter.topic, letter.partition)
        let isWhole = letter.truncatedBytes == nil && letter.truncatedKeyBytes == nil
        let mark = LetterMark(
            timestampMs: letter.timestampMs, valueSize: letter.truncatedBytes, valueStart: letter.value)
        var item = ReplayItem(
            record, log, letter.offset, isWhole ? .letter(whole(record.record, letter)) : .truncatedLetter(mark))
        note(
            &item, Request(log: log, offset: letter.offset, timestampMs: letter.timestampMs),
            .init(topic: log.topic, reason: letter.reason), isKnown)
        if case .skipped = item.kind { return item }
        switch letter.reason {
        case "output-too-large", "output-refused":
            item.refuse("it is a record that the worker wrote, and no request")
        case "unreadable-headers":
            item.refuse("its headers cannot be read, and what they ask for is not known")
        default: break
        }
        return item
    }

    /// Remembers a match. Skips what was taken before, or is of a topic that the workers do not read.
    private mutating func note(
        _ item: inout ReplayItem, _ request: Request, _ row: ReplayTally.Row, _ isKnown: Bool
    ) {
        for place in order.selection.places
        where place.fits(request.log.topic, request.log.partition, request.offset, index: request.index) {
            found.insert(place)
        }
        guard taken.insert(request.hashValue).inserted else {
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

    private func whole(_ record: OwnedRecord, _ letter: DeadLetter) -> OwnedRecord {
        var topic = letter.topic
        return topic.withUTF8 { topic in
            let place = RequestPlace(
                topic: UnsafeRawBufferPointer(topic), partition: letter.partition, offset: letter.offset, index: 0)
            return record.withLent { key, value, headers in
                var writer = ReplayWriter()
                return OwnedRecord(
                    copying: writer.whole(
                        key: key, value: value, headers: headers, place: place, as: order.whole(letter.topic)))
            }
        }
    }
}

extension ReplayOrder {
    func whole(_ topic: String) -> ReplayWriter.Whole {
        guard retryTopics.contains(topic) else { return .letter }
        return target == nil ? .retryLetter : .movedRetryLetter
    }
}

extension OwnedRecord {
    init(copying made: EncodedRecord) { self.init(copying: made.key, made.value, headers: made.headers) }
}

extension ReplayItem {
    fileprivate init(_ record: SourceRecord, _ log: TopicPartition, _ offset: Int64, _ kind: Kind) {
        self.init(source: record.partition, sourceOffset: record.offset, log: log, offset: offset, kind: kind)
    }

    fileprivate mutating func refuse(_ reason: String) {
        kind = .skipped(.refused, "\(place) is not requested again: \(reason)")
    }
}
