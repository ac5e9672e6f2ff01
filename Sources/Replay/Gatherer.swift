internal import Kafka
package import PushRecords

struct SourceRecord {
    var partition: TopicPartition
    var offset: Int64
    var timestampMs: Int64
    var record: OwnedRecord
}

/// A result or dead letter that matches the conditions, and how the run handles it.
struct ReplayItem {
    enum Kind {
        /// The notification of a result. Its request must be fetched.
        case notification(ReplayRequest)
        /// A dead letter with the complete record.
        case letter
        /// A dead letter with a truncated record. The original record must be fetched.
        case truncatedLetter(DeadLetter)
        /// A result or dead letter that the run counts but does not request again. The string is a remark for the user,
        /// if there is one.
        case skipped(ReplayOutcome, String?)
    }

    var source: SourceRecord
    var log: TopicPartition
    var offset: Int64
    var kind: Kind

    var byteCount: Int {
        if case .truncatedLetter(let letter) = kind { return letter.truncatedBytes ?? 0 }
        return source.record.byteCount
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
    package init(_ record: OwnedRecord) throws(RecordError) {
        let headers = record.headers.map { HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? []) }
        try self.init(key: record.key, value: record.value, headers: headers)
    }

    /// Returns whether a record with this value and timestamp can be the original of the truncated dead letter.
    /// Compares the timestamp, the size and the first bytes.
    func fits(_ record: UnsafeRawBufferPointer, timestampMs other: Int64) -> Bool {
        let (expected, found) = (RecordTime.checked(timestampMs), RecordTime.checked(other))
        return (expected == RecordTime.unknown || expected == found)
            && truncatedBytes ?? record.count == record.count
            && value.map { record.prefix($0.count).elementsEqual($0) } ?? true
    }
}

/// The number of requests in a run that have the same topic, app, outcome and reason.
package struct ReplayKind: Sendable {
    /// The topic, app, outcome and reason. An element is `nil` if the result or dead letter lacks it.
    package let words: [String?]
    package internal(set) var count: Int64 = 0
    package let first: String
}

/// Selects the results and dead letters that match the conditions, and determines the request of each. It uses neither
/// clock nor I/O.
struct Gatherer {
    private let order: ReplayOrder
    /// The requests found so far, counted by kind. A resumed run clears the counts of the earlier runs.
    var found: [[String?]: ReplayKind] = [:]
    /// The selected positions (`--request`) for which a result or dead letter was found.
    private(set) var matchedPlaces: Set<ReplaySelection.Place> = []
    /// The hashes of the requests found so far, about 16 bytes of memory for each. A notification may have several
    /// results, mainly after a crash, but is requested again only once. The hash includes the request's time, because a
    /// recreated topic has other requests at the same offsets.
    private var taken: Set<Int> = []

    init(_ order: ReplayOrder) { self.order = order }

    /// The kinds of the requests found so far, the most frequent first.
    var kinds: [ReplayKind] { found.values.sorted { ($1.count, $0.first) < ($0.count, $1.first) } }

    /// Returns the item for a record, or `nil` if the record is a tombstone or does not match the selection. An
    /// unreadable record becomes a `skipped` item.
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
        let letter = try DeadLetter(record.record)
        guard order.selection.matches(letter, writtenMs: record.timestampMs) else { return nil }
        let isWhole = letter.truncatedBytes == nil && letter.truncatedKeyBytes == nil
        var item = ReplayItem(
            source: record, log: TopicPartition(letter.topic, letter.partition), offset: letter.offset,
            kind: isWhole ? .letter : .truncatedLetter(letter))
        if ReducedRecord.outputReasons.contains(letter.reason) {
            item.refuse("the record was written by the worker and is not a request")
        } else if letter.reason == "unreadable-headers" {
            item.refuse("the record's headers cannot be read")
        }
        note(&item, index: nil, timestampMs: letter.timestampMs, [letter.topic, nil, nil, letter.reason])
        return item
    }

    /// Registers a match. Changes the item to `skipped` if its request was found before, has a negative partition or
    /// offset, or is from a topic that the workers do not read.
    ///
    /// - Parameter index: The notification's index, or `nil` for a dead letter, which represents the whole record.
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
            item.refuse("the request's partition or offset is negative")
        } else if !isRetry, !order.isRequestTopic(item.log.topic) {
            item.refuse("the request's topic is not in requests.topics, so the workers do not read the topic")
        }
    }
}
