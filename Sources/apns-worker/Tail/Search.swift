import Kafka
import PushRecords
import Replay

enum Search: Equatable {
    case id(NotificationUUID)
    case request(ReplaySelection.Place)
    /// A search for the records of a device, by the first digits of its token in lower case.
    case device(String)

    func matches(_ record: PublishedRecord) -> Bool {
        switch (record, self) {
        case (.result(let result, _), .id(let id)):
            let request = result.request
            return result.apnsID == id
                || derivedID(request.topic, request.partition, request.offset, request.index) == id
        case (.result(let result, _), .request(let place)):
            let request = result.request
            return place.fits(request.topic, request.partition, request.offset, index: request.index)
        case (.result(let result, _), .device(let start)): return result.deviceToken?.hasPrefix(start) == true
        case (.unregistered(let dead, _), .device(let start)): return dead.deviceToken.hasPrefix(start)
        case (.unregistered, _): return false
        // A dead letter matches if a notification of its record would have had this id.
        case (.deadLetter(let letter), .id(let id)):
            return DerivedID.decode(id).map {
                derivedID(letter.topic, letter.partition, letter.offset, $0.index) == id
            } ?? false
        case (.deadLetter(let letter), .request(let place)):
            return place.fits(letter.topic, letter.partition, letter.offset, index: nil)
        case (.deadLetter(let letter), .device(let start)):
            let named = letter.headers.first { $0.name == "push-device-token" }?.value
            func lowercased(_ bytes: [UInt8]?) -> String { String(decoding: bytes ?? [], as: UTF8.self).lowercased() }
            // Search the whole value, because even an invalid envelope can contain the token.
            return lowercased(letter.key).hasPrefix(start) || lowercased(named).hasPrefix(start)
                || lowercased(letter.value).contains("\"\(start)")
        }
    }

    /// Returns the partition and offset of the request whose records are searched for, or `nil` if they are unknown.
    ///
    /// - Parameter topics: The possible topics of a derived id, which contains only the topic's hash.
    private func request(among topics: [String]) -> (log: TopicPartition, offset: Int64)? {
        switch self {
        case .request(let place):
            return (TopicPartition(place.request.topic, place.request.partition), place.request.offset)
        case .device: return nil
        case .id(let id):
            guard let derived = DerivedID.decode(id),
                let topic = topics.first(where: { topicHash($0) == derived.topicHash })
            else { return nil }
            return (TopicPartition(topic, derived.partition), derived.offset)
        }
    }

    /// Returns a sentence with the origin of a derived id (topic, partition, offset), or `nil` for other searches.
    func explanation(_ topics: [String]) -> String? {
        guard case .id(let id) = self, let derived = DerivedID.decode(id) else { return nil }
        let topic = request(among: topics)?.log.topic ?? "a topic that the configuration does not name"
        return
            "\(id) was derived for partition \(derived.partition), offset \(derived.offset), index \(derived.index) of \(topic)"
    }

    /// Returns where to start reading, and how many records to find: `nil` for no limit, `.max` if unknown. If the
    /// request can be read, reading starts near the request's timestamp, because its results cannot be older.
    func plan(
        _ kind: TailKind, _ cluster: ClusterSettings, _ requestTopics: [String]
    ) -> (start: ReadingStart, wanted: Int?) {
        var found: (timestampMs: Int64, tokens: Int)?
        if let (log, offset) = request(among: requestTopics) { found = try? readRequest(at: offset, of: log, cluster) }
        // Reading starts a minute before the request's timestamp, because the clocks of brokers and producers may
        // differ.
        let fromMs = (found?.timestampMs ?? 0) - 60_000
        let wanted: Int? =
            switch self {
            case .device: nil
            case .request(let place) where place.isWhole && kind != .deadLetters:
                found.map { max(1, $0.tokens) } ?? .max
            case .id, .request: 1
            }
        return (fromMs > 0 ? .time(fromMs) : .beginning, wanted)
    }
}

/// Returns the timestamp of the record at an offset and the number of its device tokens, or `nil` if the record cannot
/// be read.
private func readRequest(
    at offset: Int64, of log: TopicPartition, _ cluster: ClusterSettings
) throws -> (timestampMs: Int64, tokens: Int)? {
    let limit = Deadline(after: .seconds(5))
    let reader = try TopicReader(cluster, topic: log.topic, BrokerWait(cluster, until: limit, report: { _ in }))
    guard reader.bounds[log]?.contains(offset) == true else { return nil }
    try reader.start(log, at: offset)
    var found: (Int64, Int)?
    while reader.positions[log] == offset, !limit.hasPassed {
        try reader.read(timeoutMs: limit.leftMs(atMost: 200)) { _, message in
            guard message.offset == offset else { return false }
            var parser = RequestParser()
            let tokens = OwnedRecord(message).withLent {
                parser.parse(key: $0, value: $1, headers: $2, role: .request).tokenCount
            }
            found = (message.timestampMs, tokens)
            return false
        }
    }
    return found
}

/// Returns the `apns-id` that the worker derives for a notification without one.
func derivedID(_ topic: String, _ partition: Int32, _ offset: Int64, _ index: Int32) -> NotificationUUID {
    DerivedID.make(topicHash: topicHash(topic), partition: partition, offset: offset, index: index)
}

private func topicHash(_ topic: String) -> UInt64 {
    var topic = topic
    return topic.withUTF8 { DerivedID.topicHash(UnsafeRawBufferPointer($0)) }
}
