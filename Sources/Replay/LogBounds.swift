internal import PushRecords

/// What a place in a log of Kafka's may be: the door for all that a result or dead letter says of where a request is.
/// Whoever can write such a record can say anything in it; behind the door no number overflows, no broker is asked what
/// none can answer, and nothing is walked for ever.
enum LogBounds {
    /// Kafka takes more, but no cluster has a topic with as many.
    static let partitions: Range<Int32> = 0..<100_000
    /// Sums and differences of two of them do not overflow.
    static let offsets: Range<Int64> = 0..<1 << 62
    /// Of the notifications of one request.
    static let indexes: Range<Int32> = 0..<Int32(RequestParser.tokenLimit)
    /// Offsets of one batch, at most: far more than a batch of a hundred mebibytes has records.
    static let batch: Int64 = 10_000_000

    /// Kafka's own rule (`org.apache.kafka.common.internals.Topic`).
    static func isTopic(_ name: String) -> Bool {
        (1...RecordLimits.kafkaTopic).contains(name.utf8.count) && name != "." && name != ".."
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// Whether a notification can have been asked for there.
    static func has(_ request: DeliveryResult.Request) -> Bool {
        isTopic(request.topic) && partitions.contains(request.partition) && offsets.contains(request.offset)
            && indexes.contains(request.index)
    }

    /// Whether the records that a letter stands for can have been there, be they of one batch or not.
    static func has(_ letter: DeadLetter) -> Bool {
        isTopic(letter.topic) && partitions.contains(letter.partition) && offsets.contains(letter.offset)
            && letter.lastOffset.map { offsets.contains($0) } ?? true
    }

    /// How many offsets behind its first one a letter stands for, whatever it says; `nil`: they are not those of one
    /// batch.
    static func span(_ letter: DeadLetter) -> Int64? {
        let (span, overflows) = (letter.lastOffset ?? letter.offset).subtractingReportingOverflow(letter.offset)
        return !overflows && (0..<batch).contains(span) ? span : nil
    }
}
