import Configuration
import Kafka
import PushRecords
import Replay

/// What `tail` looks for.
struct Sought: Equatable {
    enum Subject: Equatable {
        /// A notification, by its `apns-id`.
        case id(NotificationUUID)
        /// A request record's notifications, or one of them.
        case request(ReplaySelection.Place)
        /// A device's, by the first digits of its token, in lower case.
        case device(String)
    }

    let subject: Subject
    /// What a derived id spells.
    private let derived: DerivedID.Place?

    init(_ subject: Subject) {
        self.subject = subject
        derived = if case .id(let id) = subject { DerivedID.decode(id) } else { nil }
    }

    /// The option that names it.
    var option: String {
        switch subject {
        case .id: "--apns-id"
        case .request: "--request"
        case .device: "--device"
        }
    }

    // MARK: Whether a record is it

    func matches(_ result: DeliveryResult) -> Bool {
        let request = result.request
        switch subject {
        case .id(let id):
            return result.apnsID == id
                || derived != nil && derivedID(request.topic, request.partition, request.offset, request.index) == id
        case .request(let place):
            return request.offset == place.offset && request.partition == place.partition
                && request.topic == place.topic && place.index ?? request.index == request.index
        case .device(let start): return result.deviceToken?.hasPrefix(start) == true
        }
    }

    /// A dead letter has no notification of its own: one of its record would have had this id or token.
    func matches(_ letter: DeadLetter) -> Bool {
        switch subject {
        case .id(let id):
            return derived.map { derivedID(letter.topic, letter.partition, letter.offset, $0.index) == id } ?? false
        case .request(let place):
            return letter.offset == place.offset && letter.partition == place.partition && letter.topic == place.topic
        case .device(let start):
            let named = letter.headers.first { $0.name == "push-device-token" }?.value
            return [letter.key, named].contains { $0.map { Self.begins($0, with: start) } ?? false }
                // The tokens of an envelope stand in the value, however that is to be read.
                || String(decoding: letter.value ?? [], as: UTF8.self).lowercased().contains("\"\(start)")
        }
    }

    func matches(_ dead: UnregisteredToken) -> Bool {
        if case .device(let start) = subject { dead.deviceToken.hasPrefix(start) } else { false }
    }

    /// Whether a result or dead token with this key, a device token, can be it.
    func mayBe(_ key: [UInt8]) -> Bool {
        if case .device(let start) = subject { Self.begins(key, with: start) } else { true }
    }

    private static func begins(_ bytes: [UInt8], with start: String) -> Bool {
        bytes.count >= start.utf8.count && zip(bytes, start.utf8).allSatisfy { $0 == $1 || $0 | 0x20 == $1 }
    }

    // MARK: Where its request is

    /// The place of its request; `nil` if nothing tells.
    ///
    /// - Parameter topics: those that a derived id may mean, as it has only the hash of its topic.
    func request(among topics: [String]) -> (log: TopicPartition, offset: Int64)? {
        switch subject {
        case .request(let place): return (TopicPartition(place.topic, place.partition), place.offset)
        case .device: return nil
        case .id:
            guard let derived, let topic = topics.first(where: { topicHash($0) == derived.topicHash }) else {
                return nil
            }
            return (TopicPartition(topic, derived.partition), derived.offset)
        }
    }

    /// What a derived id says, for people.
    func explanation(_ topics: [String]) -> String? {
        guard let derived, case .id(let id) = subject else { return nil }
        let topic = request(among: topics)?.log.topic ?? "a topic that the configuration does not name"
        return
            "\(id) was derived for partition \(derived.partition), offset \(derived.offset), index \(derived.index) of \(topic)"
    }
}

/// The `apns-id` that the worker derives for a notification.
func derivedID(_ topic: String, _ partition: Int32, _ offset: Int64, _ index: Int32) -> NotificationUUID {
    DerivedID.make(topicHash: topicHash(topic), partition: partition, offset: offset, index: index)
}

private func topicHash(_ topic: String) -> UInt64 {
    var topic = topic
    return topic.withUTF8 { DerivedID.topicHash(UnsafeRawBufferPointer($0)) }
}

/// A search among what the workers published.
///
/// Where the request can be read, its time says from where on, and its device which records are worth a look: so what
/// is looked for is found at once, however many results there are.
struct Search {
    let sought: Sought
    /// Where reading begins.
    let start: ReadingStart
    /// How many records there can be; `nil` if that is not known.
    let wanted: Int?
    /// The key of all of them, if it is known.
    private let token: [UInt8]?

    /// Reads the request, where it is known which one it is.
    init(_ sought: Sought, _ kind: TailKind, _ cluster: ClusterSettings, requestTopics: [String]) {
        self.sought = sought
        let request = sought.request(among: requestTopics).flatMap { place in
            Self.record(at: place.offset, of: place.log, cluster)
        }
        let parsed = request.map { Self.parsed($0.record) }
        // Nothing about it was written earlier, but for what the clocks differ by.
        start = if let ms = request?.timestampMs, ms > 0 { .time(max(0, ms - 60_000)) } else { .beginning }
        // A dead letter's key is the record's own.
        token = kind == .deadLetters ? nil : parsed?.token
        switch sought.subject {
        case .id: wanted = 1
        case .request(let place) where place.index != nil || kind == .deadLetters: wanted = 1
        case .request: wanted = parsed.map { max(1, $0.count) }
        case .device: wanted = nil
        }
    }

    /// Returns the record at an offset; `nil` if it is not there, or cannot be read in time.
    private static func record(
        at offset: Int64, of partition: TopicPartition, _ cluster: ClusterSettings
    ) -> ReadRecord? {
        let limit = Deadline(after: .seconds(5))
        var found: ReadRecord?
        do throws(CommandFailure) {
            let reader = try TopicReader(
                cluster, topic: partition.topic, BrokerWait(cluster, until: limit, report: { _ in }))
            guard reader.bounds[partition]?.contains(offset) == true else { return nil }
            try reader.start(partition, at: offset)
            while reader.positions[partition] == offset, !limit.hasPassed {
                try reader.read(timeoutMs: limit.leftMs(atMost: 200)) {
                    found = ReadRecord($1, of: $0)
                    return false
                }
            }
        } catch {
            return nil
        }
        return found?.offset == offset ? found : nil
    }

    private static func parsed(_ request: OwnedRecord) -> (token: [UInt8]?, count: Int) {
        var parser = RequestParser()
        return request.withLent { key, value, headers in
            let parsed = parser.parse(key: key, value: value, headers: headers, role: .request)
            guard parsed.target == .device else { return (nil, parsed.tokenCount) }
            let token = try? DeviceToken(hex: String(decoding: parsed.token, as: UTF8.self))
            return (token.map { Array($0.hex.utf8) }, parsed.tokenCount)
        }
    }

    /// Whether a record of results or dead tokens can be one, by its key: nothing has to be parsed to know that.
    func mayBe(_ record: ReadRecord, of kind: TailKind) -> Bool {
        guard kind != .deadLetters, let key = record.record.key else { return true }
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
