import Kafka
import TestSupport

/// Writes batches that no client makes to a broker, by the protocol's own bytes (Produce, version 3).
enum RawProducer {
    struct Refused: Error {
        var text: String
    }

    /// A batch of so many records that says it is compressed by snappy, and holds what snappy cannot unpack.
    static func unreadableBatch(records: Int) -> [UInt8] {
        var rest: [UInt8] = []
        // Attributes, last offset delta, two times, producer's id, epoch and sequence, and how many records.
        add(Int16(2), to: &rest)
        add(Int32(records - 1), to: &rest)
        add(Int64(1_000), to: &rest)
        add(Int64(1_000), to: &rest)
        add(Int64(-1), to: &rest)
        add(Int16(-1), to: &rest)
        add(Int32(-1), to: &rest)
        add(Int32(records), to: &rest)
        rest += [UInt8](repeating: 0xff, count: 40)
        var batch: [UInt8] = []
        add(Int64(0), to: &batch)
        // What follows: the leader's epoch, the format, a checksum that nobody looks at.
        add(Int32(9 + rest.count), to: &batch)
        add(Int32(-1), to: &batch)
        add(Int8(2), to: &batch)
        add(Int32(0), to: &batch)
        return batch + rest
    }

    /// Writes a batch to a partition whose leader listens on loopback at this `host:port`.
    static func write(_ batch: [UInt8], to partition: TopicPartition, at server: String) throws {
        var request: [UInt8] = []
        add(Int16(0), to: &request)
        add(Int16(3), to: &request)
        add(Int32(1), to: &request)
        add("test", to: &request)
        // No transaction; acknowledged by all, within 5 s.
        add(Int16(-1), to: &request)
        add(Int16(-1), to: &request)
        add(Int32(5_000), to: &request)
        add(Int32(1), to: &request)
        add(partition.topic, to: &request)
        add(Int32(1), to: &request)
        add(partition.partition, to: &request)
        add(Int32(batch.count), to: &request)
        request += batch
        var frame: [UInt8] = []
        add(Int32(request.count), to: &frame)
        frame += request

        guard let port = server.split(separator: ":").last.flatMap({ UInt16($0) }) else {
            throw Refused(text: "no port in \(server)")
        }
        // Size, number, one topic and one partition with its error.
        let place = 4 + 4 + 4 + 2 + partition.topic.utf8.count + 4 + 4
        guard let answer = LocalHTTP.ask(port, frame, count: place + 2), answer.count >= place + 2 else {
            throw Refused(text: "no answer of a broker at \(server)")
        }
        guard answer[place] == 0, answer[place + 1] == 0 else {
            throw Refused(text: "the broker says \(answer[place...])")
        }
    }

    private static func add(_ number: some FixedWidthInteger, to bytes: inout [UInt8]) {
        withUnsafeBytes(of: number.bigEndian) { bytes += $0 }
    }

    private static func add(_ text: String, to bytes: inout [UInt8]) {
        add(Int16(text.utf8.count), to: &bytes)
        bytes += text.utf8
    }
}
