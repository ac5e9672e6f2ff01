import PushRecords

/// A record as a Kafka message lends it; its bytes live as long as the process.
struct LentRecord {
    var key: UnsafeRawBufferPointer
    var value: UnsafeRawBufferPointer
    var headers: UnsafeBufferPointer<RecordHeader>
}

/// What the parts are fed with: the requests of `Traffic`, made once.
enum PartInputs {
    /// What a producer writes with each request, and what it may write.
    static let usualHeaders: [(StaticString, String)] = [
        ("apns-topic", Traffic.bundleID), ("apns-push-type", Traffic.pushType),
    ]
    static let manyHeaders =
        usualHeaders + [
            ("apns-priority", "10"), ("apns-expiration", "1900000000"), ("apns-collapse-id", "order-000000007"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ]

    /// Texts of device tokens.
    static func tokens(_ count: Int) -> [UnsafeRawBufferPointer] {
        var source = TokenSource()
        return (0..<count).map { _ in
            let digits = UnsafeMutablePointer<UInt8>.allocate(capacity: TokenSource.size)
            return UnsafeRawBufferPointer(start: digits, count: source.next(into: digits))
        }
    }

    static func headers(_ pairs: [(StaticString, String)]) -> UnsafeBufferPointer<RecordHeader> {
        let headers = UnsafeMutableBufferPointer<RecordHeader>.allocate(capacity: pairs.count)
        _ = headers.initialize(from: pairs.map { RecordHeader(name: $0, value: lasting($1)) })
        return UnsafeBufferPointer(headers)
    }

    /// An envelope for these devices.
    static func envelope(_ tokens: [UnsafeRawBufferPointer]) -> UnsafeRawBufferPointer {
        let list = tokens.map { "\"\(String(decoding: $0, as: UTF8.self))\"" }.joined(separator: ",")
        let name = tokens.count == 1 ? "\"device_token\":\(list)" : "\"device_tokens\":[\(list)]"
        return lasting(
            "{\(name),\"headers\":{\"apns-topic\":\"\(Traffic.bundleID)\",\"apns-push-type\":\"alert\","
                + "\"apns-priority\":10},\"payload\":\(Traffic.payload(7))}")
    }

    /// Bytes that nobody ever frees.
    static func lasting(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 8)
        bytes.copyBytes(from: text.utf8)
        return UnsafeRawBufferPointer(bytes)
    }

    static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
