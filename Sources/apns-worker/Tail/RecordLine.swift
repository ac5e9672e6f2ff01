import Bytes
import Configuration
import JSON
import Kafka
import Observability
import PushRecords
import Replay

/// A record of a topic that `tail` can read.
enum PublishedRecord {
    case result(DeliveryResult, json: [UInt8])
    case unregistered(UnregisteredToken, json: [UInt8])
    case deadLetter(DeadLetter)

    /// Parses a record. Returns `nil` for a result or dead token without a value (a tombstone of a compacted topic).
    /// Throws if the record is unreadable.
    init?(_ kind: TailKind, _ message: borrowing Message) throws(RecordError) {
        if kind != .deadLetters, message.value.baseAddress == nil { return nil }
        let value = Array(message.value)
        switch kind {
        case .results: self = .result(try DeliveryResult(json: value), json: value)
        case .unregistered: self = .unregistered(try UnregisteredToken(json: value), json: value)
        case .deadLetters: self = .deadLetter(try DeadLetter(OwnedRecord(message)))
        }
    }

    var json: String {
        switch self {
        case .deadLetter(let letter): letter.json
        // In valid JSON, line breaks occur only between tokens, where a space means the same.
        case .result(_, let json), .unregistered(_, let json):
            String(decoding: json.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }, as: UTF8.self)
        }
    }

    var line: String {
        switch self {
        case .result(let result, _): result.line
        case .unregistered(let dead, _): dead.line
        case .deadLetter(let letter): letter.line
        }
    }
}

extension UnregisteredToken {
    fileprivate var line: String {
        var words = [Timestamp(wallMs: observedAtMs).text, oneLine(reason?.rawValue ?? "-", limit: 100)]
        words.append(oneLine(deviceToken, limit: 200))
        words.append(oneLine(apnsTopic ?? "-", limit: 255))
        if let app { words.append("app=\(oneLine(app, limit: 100))") }
        if let unregisteredAtMs { words.append("since=\(Timestamp(wallMs: unregisteredAtMs).text)") }
        return words.joined(separator: " ")
    }
}

extension DeadLetter {
    fileprivate var line: String {
        var words = [Timestamp(wallMs: timestampMs).text, oneLine(reason, limit: 100), place]
        if let key { words.append("key=\(oneLine(String(decoding: key.prefix(200), as: UTF8.self), limit: 100))") }
        if let truncatedBytes { words.append("truncated=\(truncatedBytes)") }
        if let truncatedKeyBytes { words.append("key-truncated=\(truncatedKeyBytes)") }
        if let detail { words.append("(\(oneLine(detail, limit: 300)))") }
        if let value { words.append(oneLine(String(decoding: value.prefix(800), as: UTF8.self), limit: 200)) }
        return words.joined(separator: " ")
    }

    /// The dead letter as one JSON object. Bytes that are not UTF-8 are written in base64, in a member with the suffix
    /// `_base64`.
    fileprivate var json: String {
        jsonObject { json in
            json.member("reason", reason)
            json.member("detail", detail)
            json.member("topic", topic)
            json.member("partition", Int64(partition))
            json.member("offset", offset)
            json.member("timestamp_ms", timestampMs)
            json.member("truncated_bytes", truncatedBytes)
            json.member("truncated_key_bytes", truncatedKeyBytes)
            json.member("key", bytes: key)
            json.name("headers")
            json.beginArray()
            for header in headers {
                json.beginObject()
                json.member("name", header.name)
                json.member("value", bytes: header.value)
                json.endObject()
            }
            json.endArray()
            json.member("value", bytes: value)
        }
    }
}

extension JSONWriter {
    /// Writes bytes as text if they are UTF-8, otherwise as base64 with `_base64` appended to the member's name.
    fileprivate mutating func member(_ name: String, bytes: [UInt8]?) {
        guard let bytes else { return member(name, nil as String?) }
        if let text = String(validating: bytes, as: UTF8.self) {
            member(name, text)
        } else {
            member(name + "_base64", String(decoding: Base64.standard.encode(bytes), as: UTF8.self))
        }
    }
}
