import Kafka
import Observability
import PushRecords

/// A search among what the workers published.
///
/// Where the request can be read, its time says from where on, and its device which records are worth a look: so what
/// is looked for is found at once, however many results there are.
struct Search {
    let sought: Sought
    /// Where reading begins.
    let start: ReadingStart
    /// How many records there can be; `nil`: nobody knows.
    let wanted: Int?
    /// The key of all of them; `nil`: not known.
    private let token: [UInt8]?

    /// Reads the request, where it is known which one it is.
    init(_ sought: Sought, _ kind: TailKind, _ cluster: ClusterSettings, requestTopics: [String]) {
        self.sought = sought
        let request = sought.request(among: requestTopics).flatMap { place in
            TopicReader.record(at: place.offset, of: TopicPartition(place.topic, place.partition), cluster)
        }
        let parsed = request.map { Self.parsed($0) }
        // Nothing about it was written earlier, but for what the clocks differ by.
        start =
            if let ms = request?.timestampMs, ms > 0 { .time(max(0, ms - 60_000)) } else { .beginning }
        // A dead letter's key is the record's own.
        token = kind == .deadLetters ? nil : parsed?.token
        wanted =
            switch sought.subject {
            case .id, .request(_, index: .some): 1
            case .request(_, index: nil): kind == .deadLetters ? 1 : parsed.map { max(1, $0.count) }
            case .device: nil
            }
    }

    private static func parsed(_ request: ReadRecord) -> (token: [UInt8]?, count: Int) {
        var parser = RequestParser()
        let record = OwnedRecord(
            key: request.key, value: request.value,
            headers: request.headers.map { OwnedRecord.Header(Array($0.name.utf8), $0.value) })
        return record.withLent { key, value, headers in
            let parsed = parser.parse(key: key, value: value, headers: headers, role: .request)
            guard parsed.target == .device else { return (nil, parsed.tokenCount) }
            let token = try? DeviceToken(hex: String(decoding: parsed.token, as: UTF8.self))
            return (token.map { Array($0.hex.utf8) }, parsed.tokenCount)
        }
    }

    /// Whether a record of results or dead tokens can be one, by its key: nothing has to be parsed to know that.
    func mayBe(_ record: ReadRecord, of kind: TailKind) -> Bool {
        guard kind != .deadLetters, let key = record.key else { return true }
        return token.map { $0 == key } ?? sought.mayBe(key)
    }

    /// Whether to find nothing is a failure: a device may well have nothing.
    var mustFind: Bool { if case .device = sought.subject { false } else { true } }

    /// How many were found, as a sentence's subject and its verb.
    func count(_ found: Int) -> String {
        switch (found, wanted) {
        case (0, _): "nothing was"
        case (_, let wanted?): "\(found) of \(wanted) were"
        case (1, nil): "1 record was"
        case (_, nil): "\(found) records were"
        }
    }
}
