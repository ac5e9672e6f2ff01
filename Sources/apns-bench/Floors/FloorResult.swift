import CRdkafka
import Glibc

/// Formats results of the worker's shape (`apns.results`), member by member, as a program in C would: constant pieces
/// and numbers into one buffer.
final class FloorResult {
    private static let idSize = 36

    /// The JSON value.
    let value = UnsafeMutableRawPointer.allocate(byteCount: 4_096, alignment: 16)
    private(set) var valueSize = 0
    /// The apns-id.
    private let id = UnsafeMutableRawPointer.allocate(byteCount: FloorResult.idSize, alignment: 16)
    var nowMs: Int64 = 0

    private let requestTopic: UnsafeMutablePointer<CChar>
    private let requestTopicSize: Int
    private var at: UnsafeMutableRawPointer

    init(requestTopic: String) {
        self.requestTopic = strdup(requestTopic)
        requestTopicSize = strlen(self.requestTopic)
        at = value
    }

    deinit {
        value.deallocate()
        id.deallocate()
        free(requestTopic)
    }

    /// Writes `value` of a record. Sizes are not checked: it only ever sees the bench's own records.
    func write(_ message: UnsafeMutablePointer<rd_kafka_message_t>) {
        let partition = Int64(message.pointee.partition)
        let offset = message.pointee.offset
        let requestedAtMs = rd_kafka_message_timestamp(message, nil)
        let topic = header("apns-topic", of: message)
        writeID(partition, offset)
        at = value
        put("{\"outcome\":\"accepted\",\"status\":200,\"apns_id\":\"")
        put(UnsafeRawBufferPointer(start: id, count: Self.idSize))
        put("\",\"device_token\":\"")
        put(UnsafeRawBufferPointer(start: message.pointee.key, count: message.pointee.key_len))
        put("\",\"apns_topic\":\"")
        put(topic)
        put("\",\"app\":\"bench\",\"environment\":\"production\",\"attempts\":1,\"in_doubt\":0,\"requested_at_ms\":")
        put(requestedAtMs)
        put(",\"sent_at_ms\":")
        put(nowMs)
        put(",\"settled_at_ms\":")
        put(nowMs)
        put(",\"request\":{\"topic\":\"")
        put(UnsafeRawBufferPointer(start: requestTopic, count: requestTopicSize))
        put("\",\"partition\":")
        put(partition)
        put(",\"offset\":")
        put(offset)
        put(",\"index\":0}}")
        valueSize = at - value
    }

    /// Looks at every header, as a worker must; empty: there is none of the name.
    private func header(
        _ wanted: StaticString, of message: UnsafeMutablePointer<rd_kafka_message_t>
    ) -> UnsafeRawBufferPointer {
        var headers: OpaquePointer?
        var found = UnsafeRawBufferPointer(start: nil, count: 0)
        guard rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR else { return found }
        var index = 0
        var name: UnsafePointer<CChar>?
        var bytes: UnsafeRawPointer?
        var size = 0
        while rd_kafka_header_get_all(headers, index, &name, &bytes, &size) == RD_KAFKA_RESP_ERR_NO_ERROR {
            if strcmp(name!, UnsafeRawPointer(wanted.utf8Start).assumingMemoryBound(to: CChar.self)) == 0 {
                found = UnsafeRawBufferPointer(start: bytes, count: size)
            }
            index += 1
        }
        return found
    }

    private func writeID(_ partition: Int64, _ offset: Int64) {
        var digit = 0
        for index in 0..<Self.idSize {
            if index == 8 || index == 13 || index == 18 || index == 23 {
                id.storeBytes(of: UInt8(ascii: "-"), toByteOffset: index, as: UInt8.self)
                continue
            }
            let word = digit < 16 ? offset : partition
            let nibble = UInt8(truncatingIfNeeded: word >> Int64(60 - (digit & 15) * 4)) & 15
            id.storeBytes(of: nibble < 10 ? 48 + nibble : 87 + nibble, toByteOffset: index, as: UInt8.self)
            digit += 1
        }
    }

    private func put(_ text: StaticString) {
        memcpy(at, text.utf8Start, text.utf8CodeUnitCount)
        at += text.utf8CodeUnitCount
    }

    private func put(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        memcpy(at, base, bytes.count)
        at += bytes.count
    }

    private func put(_ number: Int64) {
        var rest = UInt64(number)
        var count = 1
        var bound: UInt64 = 10
        while rest >= bound {
            count += 1
            bound *= 10
        }
        for place in stride(from: count - 1, through: 0, by: -1) {
            at.storeBytes(of: 48 + UInt8(truncatingIfNeeded: rest % 10), toByteOffset: place, as: UInt8.self)
            rest /= 10
        }
        at += count
    }
}
