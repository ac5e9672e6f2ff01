import JSON

extension RequestPlace {
    /// Longest name of a topic that Kafka allows.
    static let topicLimit = RecordLimits.kafkaTopic

    /// Reads `topic/partition/offset/index`; `nil` for anything else. The topic's range is lent from `text`.
    package init?(text: UnsafeRawBufferPointer) {
        var end = text.count
        guard let index = Self.number(text, &end), index <= Int32.max,
            let offset = Self.number(text, &end),
            let partition = Self.number(text, &end), partition <= Int32.max,
            end > 0, end <= Self.topicLimit
        else { return nil }
        let topic = text.part(0, end)
        guard topic.allSatisfy(Self.mayBeInTopic) else { return nil }
        self.init(topic: topic, partition: Int32(partition), offset: offset, index: Int32(index))
    }

    /// The number after the last `/` before `end`, which moves to that `/`.
    private static func number(_ text: UnsafeRawBufferPointer, _ end: inout Int) -> Int64? {
        var start = end
        while start > 0 && text[start - 1] != UInt8(ascii: "/") { start -= 1 }
        guard start > 1, let value = HeaderCheck.unsigned(text.part(start, end)) else { return nil }
        end = start - 1
        return value
    }

    private static func mayBeInTopic(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

extension ByteWriter {
    /// Appends `topic/partition/offset/index`, at most `RecordLimits.place` bytes.
    mutating func append(_ place: borrowing RequestPlace) {
        append(bytes: place.topic.cut(RequestPlace.topicLimit))
        append(byte: UInt8(ascii: "/"))
        append(integer: Int64(place.partition))
        append(byte: UInt8(ascii: "/"))
        append(integer: place.offset)
        append(byte: UInt8(ascii: "/"))
        append(integer: Int64(place.index))
    }
}
