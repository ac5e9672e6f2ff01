import Kafka
import TestSupport

/// Sends hand-made Produce requests (version 3), for batches that no client library writes.
enum RawProducer {
    struct Refused: Error {
        var text: String
    }

    /// A batch that claims to hold `records` snappy-compressed records, with bytes that snappy cannot decompress.
    static func unreadableBatch(records: Int) -> [UInt8] {
        // Attributes, last offset delta, two times, producer's id, epoch and sequence, and how many records.
        let rest =
            bytes(Int16(2)) + bytes(Int32(records - 1)) + bytes(Int64(1_000)) + bytes(Int64(1_000)) + bytes(Int64(-1))
            + bytes(Int16(-1)) + bytes(Int32(-1)) + bytes(Int32(records)) + [UInt8](repeating: 0xff, count: 40)
        // The offset, the length of what follows, the leader's epoch, the format, and a checksum that is not checked.
        return bytes(Int64(0)) + bytes(Int32(9 + rest.count)) + bytes(Int32(-1)) + [2] + bytes(Int32(0)) + rest
    }

    /// Writes a batch to a partition whose leader listens on loopback at this `host:port`.
    static func write(_ batch: [UInt8], to partition: TopicPartition, at server: String) throws {
        // Produce, version 3, request 1; no transaction; acknowledged by all, within 5 s.
        var request = bytes(Int16(0)) + bytes(Int16(3)) + bytes(Int32(1)) + bytes("test")
        request += bytes(Int16(-1)) + bytes(Int16(-1)) + bytes(Int32(5_000))
        request += bytes(Int32(1)) + bytes(partition.topic) + bytes(Int32(1)) + bytes(partition.partition)
        request += bytes(Int32(batch.count)) + batch
        let frame = bytes(Int32(request.count)) + request

        guard let port = server.split(separator: ":").last.flatMap({ UInt16($0) }) else {
            throw Refused(text: "no port in \(server)")
        }
        // Size, number, one topic and one partition with its error.
        let place = 4 + 4 + 4 + 2 + partition.topic.utf8.count + 4 + 4
        guard let answer = LocalHTTP.ask(port, frame, count: place + 2), answer.count >= place + 2 else {
            throw Refused(text: "no answer from the broker at \(server)")
        }
        guard answer[place] == 0, answer[place + 1] == 0 else {
            throw Refused(text: "the broker answered \(answer[place...])")
        }
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func bytes(_ text: String) -> [UInt8] { bytes(Int16(text.utf8.count)) + text.utf8 }
}
