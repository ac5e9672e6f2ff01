import Glibc
import Kafka

/// Writes batches that no client makes to a broker, by the protocol's own bytes (Produce, version 3).
enum RawProducer {
    struct Refused: Error {
        var text: String
    }

    /// A batch of so many records that says it is compressed by snappy, and holds what snappy cannot unpack.
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

        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = (server.split(separator: ":").last.flatMap { UInt16($0) } ?? 0).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        // Size, number, one topic and one partition with its error.
        let place = 4 + 4 + 4 + 2 + partition.topic.utf8.count + 4 + 4
        var answer = [UInt8](repeating: 0, count: place + 2)
        guard isConnected, send(descriptor, frame, frame.count, 0) == frame.count,
            recv(descriptor, &answer, answer.count, Int32(MSG_WAITALL)) == answer.count,
            answer[place] == 0, answer[place + 1] == 0
        else { throw Refused(text: "the broker at \(server) did not take it: \(answer)") }
    }

    private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian) { Array($0) }
    }

    private static func bytes(_ text: String) -> [UInt8] { bytes(Int16(text.utf8.count)) + text.utf8 }
}
