import CRdkafka
import Glibc

/// Header lists of acknowledged records, for further records with the same headers. librdkafka allocates three objects
/// for a list of one header, and most results have the same one: `outcome: accepted`.
@safe struct SpareHeaders: ~Copyable {
    private var lists: [OpaquePointer] = unsafe []

    private static let limit = 4_096

    deinit { unsafe lists.forEach { unsafe rd_kafka_headers_destroy($0) } }

    /// Keeps a list, or destroys it if enough lists are kept.
    mutating func keep(_ list: OpaquePointer?) {
        guard let list = unsafe list else { return }
        if unsafe lists.count < Self.limit {
            unsafe lists.append(list)
        } else {
            unsafe rd_kafka_headers_destroy(list)
        }
    }

    /// Returns a list with exactly these headers, which the caller then owns. Returns `nil` and destroys the last list
    /// kept if it has others.
    mutating func take(_ headers: UnsafeBufferPointer<MessageHeader>) -> OpaquePointer? {
        guard let list = unsafe lists.popLast() else { return nil }
        if unsafe Self.isEqual(list, headers) { return unsafe list }
        unsafe rd_kafka_headers_destroy(list)
        return nil
    }

    private static func isEqual(_ list: OpaquePointer, _ headers: UnsafeBufferPointer<MessageHeader>) -> Bool {
        guard unsafe rd_kafka_header_cnt(list) == headers.count else { return false }
        var index = 0
        var isEqual = true
        unsafe forEach(in: list) { name, value in
            let header = unsafe headers[index]
            isEqual = unsafe isEqual && areEqual(header.name, name) && areEqual(header.value, value)
            index += 1
        }
        return isEqual
    }

    /// Compares bytes. Null (a `nil` base address) differs from an empty value.
    private static func areEqual(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer) -> Bool {
        guard let first = one.baseAddress, let second = other.baseAddress else {
            return unsafe one.baseAddress == other.baseAddress
        }
        return unsafe one.count == other.count && memcmp(first, second, one.count) == 0
    }
}
