import JSON

extension ByteWriter {
    @inline(__always)
    mutating func append(_ id: NotificationUUID) {
        withUnsafeTemporaryAllocation(byteCount: NotificationUUID.textCount, alignment: 8) { text in
            id.writeText(to: text.baseAddress!)
            append(bytes: UnsafeRawBufferPointer(text))
        }
    }
}

extension JSONWriter {
    /// Appends a member with a string, truncated after `limit` bytes between its quotes. Appends nothing if `bytes` is
    /// empty.
    ///
    /// - Parameter opening: The text before the string's contents, `,"name":"`.
    @inline(__always)
    mutating func string(_ opening: StaticString, _ bytes: UnsafeRawBufferPointer, limit: Int) {
        guard bytes.count > 0 else { return }
        out.append(opening)
        text(bytes, limit: limit)
        out.append("\"")
    }

    /// Appends the contents of a JSON string, at most `limit` bytes after escaping. Truncates between characters.
    @inline(__always)
    mutating func text(_ bytes: UnsafeRawBufferPointer, limit: Int) {
        // The text can be truncated before it is escaped, because escaping never makes it shorter.
        escaped(bytes.cutText(limit), limit: limit)
    }

    /// Appends a JSON member with a number, or nothing if the number is 0.
    ///
    /// - Parameter opening: The text before the number, `,"name":`.
    @inline(__always)
    mutating func number(_ opening: StaticString, _ number: Int64) {
        guard number != 0 else { return }
        out.append(opening)
        out.append(integer: number)
    }

    /// Appends a detail, `text: subject`, as the contents of a JSON string of at most `RecordLimits.detail` bytes.
    mutating func detail(_ detail: borrowing Detail) {
        let start = out.count
        text(detail.text.lentBytes, limit: RecordLimits.detail)
        let left = RecordLimits.detail - (out.count - start) - 2
        if detail.subject.count > 0, left > 0 {
            out.append(": ")
            text(detail.subject.cutText(Detail.subjectLimit), limit: left)
        }
    }
}

extension Ending {
    /// The reason's text, truncated at `RecordLimits.reason`, or empty without a reason.
    var reasonBytes: UnsafeRawBufferPointer {
        if reason == .other { return reasonText.cutText(RecordLimits.reason) }
        return reason.text?.lentBytes ?? .nothing
    }
}

extension Outcome {
    /// The outcome's name in records.
    package var text: StaticString {
        switch self {
        case .accepted: "accepted"
        case .unregistered: "unregistered"
        case .rejected: "rejected"
        case .invalid: "invalid"
        case .expired: "expired"
        case .abandoned: "abandoned"
        }
    }
}

/// The buffer for header values that a writer creates: numbers, ids and the positions of requests. The buffer never
/// moves, so its values stay valid until `removeAll`. Its capacity is sufficient for the headers of any record.
struct HeaderText: ~Copyable {
    /// The maximum size of one request's position, one id and ten numbers, rounded up.
    static let capacity = 1_024

    private var text = ByteWriter(capacity: capacity)

    mutating func removeAll() { text.removeAll() }

    mutating func add(_ id: NotificationUUID) -> UnsafeRawBufferPointer {
        add(atMost: NotificationUUID.textCount) { $0.append(id) }
    }

    mutating func add(_ number: Int64) -> UnsafeRawBufferPointer { add(atMost: 0) { $0.append(integer: number) } }

    mutating func add(_ place: RequestPlace) -> UnsafeRawBufferPointer {
        add(atMost: RecordLimits.place) { $0.append(place) }
    }

    @inline(__always)
    private mutating func add(atMost size: Int, _ write: (inout ByteWriter) -> Void) -> UnsafeRawBufferPointer {
        // The additional 32 bytes are for numbers, which take at most 24 bytes and are added with a `size` of 0.
        precondition(
            size + 32 <= Self.capacity - text.count,
            "The header values of one record must have at most 1024 bytes in total")
        let start = text.count
        write(&text)
        return text.bytes(from: start, to: text.count)
    }
}

extension RequestPlace {
    /// Creates a position from `topic/partition/offset/index`, or returns `nil` for any other text. The position
    /// borrows its topic from `text`.
    package init?(text: UnsafeRawBufferPointer) {
        var end = text.count
        guard let index = Self.number(text, &end), index <= Int32.max,
            let offset = Self.number(text, &end),
            let partition = Self.number(text, &end), partition <= Int32.max,
            end > 0, end <= RecordLimits.kafkaTopic
        else { return nil }
        let topic = text.part(0, end)
        guard topic.allSatisfy(Self.mayBeInTopic) else { return nil }
        self.init(topic: topic, partition: Int32(partition), offset: offset, index: Int32(index))
    }

    /// Returns the number after the last `/` before `end`, and moves `end` to that `/`.
    private static func number(_ text: UnsafeRawBufferPointer, _ end: inout Int) -> Int64? {
        var start = end
        while start > 0 && text[start - 1] != UInt8(ascii: "/") { start -= 1 }
        guard start > 1, let value = HeaderCheck.unsigned(text.part(start, end)) else { return nil }
        end = start - 1
        return value
    }

    private static func mayBeInTopic(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
            true
        default: false
        }
    }
}

extension ByteWriter {
    /// Appends `topic/partition/offset/index`, at most `RecordLimits.place` bytes.
    mutating func append(_ place: borrowing RequestPlace) {
        append(bytes: place.topic.cut(RecordLimits.kafkaTopic))
        append(byte: UInt8(ascii: "/"))
        append(integer: Int64(place.partition))
        append(byte: UInt8(ascii: "/"))
        append(integer: place.offset)
        append(byte: UInt8(ascii: "/"))
        append(integer: Int64(place.index))
    }
}

/// The parts of records that depend only on the app, encoded once for each app. App names are truncated at
/// `RecordLimits.app`.
struct AppParts: ~Copyable {
    private let text: ByteWriter
    private let parts: [Part]

    private struct Part {
        var nameStart: Int
        var nameEnd: Int
        var membersEnd: Int
        var environment: PushEnvironment
    }

    init(_ apps: [RecordApp]) {
        var writer = JSONWriter()
        var parts: [Part] = []
        for app in apps {
            let nameStart = writer.out.count
            var name = app.name
            name.withUTF8 { writer.out.append(bytes: UnsafeRawBufferPointer($0).cutText(RecordLimits.app)) }
            let nameEnd = writer.out.count
            writer.out.append(",\"app\":\"")
            name.withUTF8 { writer.text(UnsafeRawBufferPointer($0), limit: RecordLimits.app) }
            writer.out.append("\",\"environment\":\"")
            writer.out.append(app.environment.text)
            writer.out.append("\"")
            parts.append(
                Part(
                    nameStart: nameStart, nameEnd: nameEnd, membersEnd: writer.out.count, environment: app.environment))
        }
        self.parts = parts
        text = writer.finish()
    }

    /// Returns `,"app":"…","environment":"…"`, or an empty buffer if the index is -1.
    func members(_ app: Int) -> UnsafeRawBufferPointer {
        guard app >= 0 else { return .nothing }
        return text.bytes(from: parts[app].nameEnd, to: parts[app].membersEnd)
    }

    func name(_ app: Int) -> UnsafeRawBufferPointer {
        text.bytes(from: parts[app].nameStart, to: parts[app].nameEnd)
    }

    func environment(_ app: Int) -> PushEnvironment { parts[app].environment }
}
