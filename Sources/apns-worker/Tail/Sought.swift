import Configuration
import PushRecords
import Replay

/// What `tail` looks for.
struct Sought: Equatable {
    enum Subject: Equatable {
        /// A notification, by its `apns-id`.
        case id(NotificationUUID)
        /// A request record's notifications, or the one at that index.
        case request(RecordPlace, index: Int32?)
        /// A device's, by the first digits of its token, in lower case.
        case device(String)
    }

    /// Where a request was read. Of the topic of a derived id only the hash is known.
    struct RecordPlace: Equatable {
        var topic: String
        var partition: Int32
        var offset: Int64
    }

    let subject: Subject
    /// What a derived id spells.
    let derived: DerivedID.Place?

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

    /// `TOPIC/PARTITION/OFFSET`, or the same and `/INDEX`.
    static func request(text: String) throws(UsageError) -> Sought {
        guard let place = ReplaySelection.Place(text) else {
            throw UsageError("expected TOPIC/PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET/INDEX as results have it")
        }
        return Sought(
            .request(
                RecordPlace(topic: place.topic, partition: place.partition, offset: place.offset),
                index: place.index))
    }

    /// Hex digits of either case.
    static func device(text: String) throws(UsageError) -> Sought {
        guard (8...200).contains(text.utf8.count), text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw UsageError("expected a device token, or its first 8 or more hex digits")
        }
        return Sought(.device(text.lowercased()))
    }

    // MARK: Whether a record is it

    func matches(_ result: DeliveryResult) -> Bool {
        let request = result.request
        switch subject {
        case .id(let id):
            return result.apnsID == id || spells(request.topic, request.partition, request.offset, request.index)
        case .request(let place, let index):
            return request.offset == place.offset && request.partition == place.partition
                && request.topic == place.topic && (index ?? request.index) == request.index
        case .device(let start): return result.deviceToken?.hasPrefix(start) == true
        }
    }

    /// A dead letter has no notification of its own: one of its record's would have had this id, or this token.
    func matches(_ letter: DeadLetter) -> Bool {
        switch subject {
        case .id:
            guard let derived else { return false }
            guard let last = letter.lastOffset, (letter.offset...max(letter.offset, last)).contains(derived.offset)
            else {
                return spells(letter.topic, letter.partition, letter.offset, derived.index)
            }
            return spells(letter.topic, letter.partition, derived.offset, derived.index)
        case .request(let place, _):
            return letter.partition == place.partition && letter.topic == place.topic
                && (letter.offset...max(letter.offset, letter.lastOffset ?? letter.offset)).contains(place.offset)
        case .device(let start):
            let named = letter.headers.first { $0.name == "push-device-token" }?.value
            return [letter.key, named].contains { $0.map { Self.begins($0, with: start) } ?? false }
                // Of an envelope it stands in the value, however that is to be read.
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

    private func spells(_ topic: String, _ partition: Int32, _ offset: Int64, _ index: Int32) -> Bool {
        guard derived != nil, case .id(let id) = subject else { return false }
        return derivedID(topic, partition, offset, index) == id
    }

    // MARK: Where its request is

    /// The place of its request; `nil`: nothing tells. `topics` are those that a derived id may mean.
    func request(among topics: [String]) -> RecordPlace? {
        switch subject {
        case .request(let place, _): return place
        case .device: return nil
        case .id:
            guard let derived, let topic = topics.first(where: { topicHash($0) == derived.topicHash }) else {
                return nil
            }
            return RecordPlace(topic: topic, partition: derived.partition, offset: derived.offset)
        }
    }

    /// What a derived id says, for people; `topics` are those it may mean.
    func explanation(_ topics: [String]) -> String? {
        guard let derived, case .id(let id) = subject else { return nil }
        let topic = request(among: topics)?.topic ?? "a topic that the configuration does not name"
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
