import PushRecords

/// A notification that is looked for by its `apns-id`: by the place of its request, when the id spells one, or by the id
/// itself.
struct SoughtID: Equatable {
    let id: NotificationUUID
    /// What a derived id spells.
    let place: DerivedID.Place?

    init(_ id: NotificationUUID) {
        self.id = id
        place = DerivedID.decode(id)
    }

    func matches(_ result: DeliveryResult) -> Bool {
        let request = result.request
        return result.apnsID == id
            || spells(request.topic, request.partition, request.offset, request.index)
    }

    /// A dead letter has no notification of its own: one of its record's would have had this id.
    func matches(_ letter: DeadLetter) -> Bool {
        guard let place else { return false }
        return spells(letter.topic, letter.partition, letter.offset, place.index)
    }

    private func spells(_ topic: String, _ partition: Int32, _ offset: Int64, _ index: Int32) -> Bool {
        guard place != nil else { return false }
        return derivedID(topic, partition, offset, index) == id
    }

    /// What the id says, for people; `topics` are those it may mean.
    func explanation(_ topics: [String]) -> String? {
        guard let place else { return nil }
        let topic = topics.first { topicHash($0) == place.topicHash } ?? "a topic that the configuration does not name"
        return
            "\(id) was derived for partition \(place.partition), offset \(place.offset), index \(place.index) of \(topic)"
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
