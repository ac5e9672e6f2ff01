import JSON
import Observability
import PushRecords

// A record of a result topic as one line.

extension TailKind {
    /// One line without its end; `nil` for a record without a value, which says nothing (compacted topics have such).
    ///
    /// Throws what is wrong with a record that cannot be read.
    func line(_ record: ReadRecord, _ format: OutputFormat) throws(RecordError) -> String? {
        switch (self, format) {
        case (.results, .json), (.unregistered, .json):
            guard let value = record.value else { return nil }
            if self == .results {
                _ = try DeliveryResult(json: value)
            } else {
                _ = try UnregisteredToken(json: value)
            }
            // White space is all that a line's end can be in JSON.
            return String(decoding: value.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }, as: UTF8.self)
        case (.results, .text):
            guard let value = record.value else { return nil }
            return try DeliveryResult(json: value).line
        case (.unregistered, .text):
            guard let value = record.value else { return nil }
            return try UnregisteredToken(json: value).line
        case (.deadLetters, .json): return try DeadLetter(record).json
        case (.deadLetters, .text): return try DeadLetter(record).line
        }
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
        try self.init(key: record.key, value: record.value, headers: record.headers)
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

    /// One JSON object; what is not UTF-8 stands in base64 under a name of its own.
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
        guard let bytes else {
            self.name(name)
            null()
            return
        }
        if let text = String(validating: bytes, as: UTF8.self) {
            self.name(name)
            value(text)
        } else {
            self.name(base64)
            value(bytes.base64)
        }
    }
}

extension [UInt8] {
    /// RFC 4648, with padding.
    var base64: String {
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

/// Text of somebody else's on one line of a terminal: no control characters, at most `limit` characters.
func printable(_ text: String, limit: Int) -> String {
    var line = ""
    for scalar in text.unicodeScalars.prefix(limit) {
        let isControl =
            scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value) || [0x2028, 0x2029].contains(scalar.value)
        line.unicodeScalars.append(isControl ? " " : scalar)
    }
    return text.unicodeScalars.count > limit ? line + "…" : line
}
