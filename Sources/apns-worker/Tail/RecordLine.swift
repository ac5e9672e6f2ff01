import JSON
import Kafka
import Observability
import PushRecords

/// A record that was read, in memory of its own.
struct ReadRecord {
    var partition: TopicPartition
    var offset: Int64
    /// Milliseconds since the epoch; -1 if it has none.
    var timestampMs: Int64
    var record: OwnedRecord

    init(_ message: borrowing Message, of partition: TopicPartition) {
        self.partition = partition
        offset = message.offset
        timestampMs = message.timestampMs
        var headers: [RecordHeader] = []
        message.forEachHeader { headers.append(RecordHeader(name: $0, value: $1)) }
        record = OwnedRecord(copying: message.key, message.value, headers: headers)
    }

    /// `topic/partition/offset`.
    var place: String { "\(partition)/\(offset)" }
}

extension TailKind {
    /// Returns a record as one line without its end; `nil` if it has no value, as records of compacted topics may.
    /// Throws what is wrong with a record that cannot be read.
    func line(_ record: ReadRecord, _ format: OutputFormat) throws(RecordError) -> String? {
        if self == .deadLetters {
            let letter = try DeadLetter(record)
            return format == .json ? letter.json : letter.line
        }
        guard let value = record.record.value else { return nil }
        let line = self == .results ? try DeliveryResult(json: value).line : try UnregisteredToken(json: value).line
        if format == .text { return line }
        // The end of a line can only be white space in JSON.
        return String(decoding: value.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }, as: UTF8.self)
    }
}

extension DeliveryResult {
    /// For people.
    var line: String {
        var line = OutcomeLine(outcome, atMs: settledAtMs)
        line.status = status
        line.reason = reason
        line.target = deviceToken ?? channelID
        line.apnsTopic = apnsTopic
        line.app = app
        line.request = request
        line.apnsID = apnsID
        line.apnsUniqueID = apnsUniqueID
        line.attempts = attempts
        line.inDoubt = inDoubt
        line.requestedAtMs = requestedAtMs
        line.sentAtMs = sentAtMs
        line.unregisteredAtMs = unregisteredAtMs
        line.detail = detail
        return line.text
    }
}

extension UnregisteredToken {
    /// For people.
    var line: String {
        var words = [Timestamp(wallMs: observedAtMs).text, printable(reason?.rawValue ?? "-", limit: 100)]
        words.append(printable(deviceToken, limit: 200))
        words.append(printable(apnsTopic ?? "-", limit: 255))
        if let app { words.append("app=\(printable(app, limit: 100))") }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        return words.joined(separator: " ")
    }
}

extension DeadLetter {
    init(_ record: ReadRecord) throws(RecordError) {
        try self.init(
            key: record.record.key, value: record.record.value,
            headers: record.record.headers.map { HeaderField(String(decoding: $0.name, as: UTF8.self), $0.value ?? []) }
        )
    }

    /// For people; the value is cut.
    var line: String {
        var words = [Timestamp(wallMs: timestampMs).text, printable(reason, limit: 100), place]
        if let key { words.append("key=\(printable(String(decoding: key.prefix(200), as: UTF8.self), limit: 100))") }
        if let truncatedBytes { words.append("truncated=\(truncatedBytes)") }
        if let truncatedKeyBytes { words.append("key-truncated=\(truncatedKeyBytes)") }
        if let detail { words.append("(\(printable(detail, limit: 300)))") }
        if let value { words.append(printable(String(decoding: value.prefix(800), as: UTF8.self), limit: 200)) }
        return words.joined(separator: " ")
    }

    /// One JSON object; bytes that are not UTF-8 stand in base64 under a name of their own.
    var json: String {
        var json = JSONWriter()
        json.beginObject()
        json.member("reason", reason)
        json.member("detail", detail)
        json.member("topic", topic)
        json.member("partition", Int64(partition))
        json.member("offset", offset)
        json.member("timestamp_ms", timestampMs)
        json.member("truncated_bytes", truncatedBytes)
        json.member("truncated_key_bytes", truncatedKeyBytes)
        json.member("key", "key_base64", key)
        json.name("headers")
        json.beginArray()
        for header in headers {
            json.beginObject()
            json.member("name", header.name)
            json.member("value", "value_base64", header.value)
            json.endObject()
        }
        json.endArray()
        json.member("value", "value_base64", value)
        json.endObject()
        return json.text
    }
}

extension JSONWriter {
    /// Bytes as text, or in base64 under the second name.
    fileprivate mutating func member(_ name: StaticString, _ base64: StaticString, _ bytes: [UInt8]?) {
        let text = bytes.flatMap { String(validating: $0, as: UTF8.self) }
        self.name(bytes == nil || text != nil ? name : base64)
        if let text = text ?? bytes?.base64 { value(text) } else { null() }
    }
}

extension [UInt8] {
    /// RFC 4648, with padding.
    fileprivate var base64: String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        var text: [UInt8] = []
        for start in stride(from: 0, to: count, by: 3) {
            let piece = self[start..<Swift.min(start + 3, count)]
            let bits = piece.reduce(0) { $0 << 8 | UInt32($1) } << (8 * UInt32(3 - piece.count))
            for place in 0..<4 {
                text.append(
                    place <= piece.count ? alphabet[Int(bits >> (18 - 6 * UInt32(place)) & 0x3F)] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

/// What became of a notification, as one line for people: a result, or what APNs answered to `send --direct`.
struct OutcomeLine {
    var outcome: Outcome
    /// When it was clear; milliseconds since the epoch, as all times here.
    var atMs: Int64
    var status: Int?
    var reason: Reason?
    /// The device token, or the channel id.
    var target: String?
    var apnsTopic: String?
    var app: String?
    var request: DeliveryResult.Request?
    var apnsID: NotificationUUID?
    var apnsUniqueID: String?
    var attempts = 1
    var inDoubt = 0
    var requestedAtMs: Int64 = 0
    var sentAtMs: Int64?
    var unregisteredAtMs: Int64?
    var detail: String?

    init(_ outcome: Outcome, atMs: Int64) {
        self.outcome = outcome
        self.atMs = atMs
    }

    var text: String {
        var words = [Timestamp(wallMs: atMs).text, padded(outcome.rawValue, to: 12)]
        if let status { words.append("\(status)") }
        if let reason { words.append(printable(reason.rawValue, limit: 100)) }
        words.append(printable(target ?? "-", limit: 200))
        words.append(printable(apnsTopic ?? "-", limit: 255))
        if let app { words.append("app=\(printable(app, limit: 100))") }
        if let request { words.append("request=\(request)") }
        if let apnsID { words.append("apns-id=\(apnsID)") }
        if let apnsUniqueID { words.append("apns-unique-id=\(printable(apnsUniqueID, limit: 100))") }
        if attempts != 1 { words.append("attempts=\(attempts)") }
        if inDoubt > 0 { words.append("in-doubt=\(inDoubt)") }
        if let sentAtMs {
            if RecordTime.checked(requestedAtMs) != RecordTime.unknown {
                words.append("took=\(RecordTime.age(of: requestedAtMs, nowMs: atMs))ms")
            }
            words.append("sent=\(Timestamp(wallMs: sentAtMs).text)")
        }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        if let detail { words.append("(\(printable(detail, limit: 300)))") }
        return words.joined(separator: " ")
    }
}
