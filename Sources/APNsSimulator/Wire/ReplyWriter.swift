internal import Bytes
import HTTP2
import JSON
import PushRecords

/// Writes responses into reused memory, without an allocation for a notification. One thread.
struct ReplyWriter: ~Copyable {
    private var headers = HeaderList()
    /// Status, ids and body of one response. It never grows, so that its parts can be lent to the session.
    private var text = ByteWriter(capacity: 1_024)
    private var random: SplitMix64
    private let hasUniqueID: Bool

    static let unknownReason: StaticString = "ReasonOfTomorrow"

    /// - Parameter hasUniqueID: `apns-unique-id`, which only the development environment sends.
    init(hasUniqueID: Bool, seed: UInt64) {
        self.hasUniqueID = hasUniqueID
        random = SplitMix64(seed: seed ^ 0x5EED)
    }

    /// Returns an id for a notification that came without one.
    mutating func newID() -> NotificationUUID { .random(using: &random) }

    /// Answers a notification. Returns false if the stream is gone.
    @discardableResult
    mutating func write(_ reply: Reply, stream: Int32, to session: ServerSession) throws(HTTP2Error) -> Bool {
        begin(status: reply.status)
        if reply.status != 200 { headers.append("content-type", "application/json") }
        // Apple writes the ids it makes in upper case; those it was given come back in lower case here.
        let id = add(reply.id, isUpper: reply.isOwnID)
        if reply.isBroadcast {
            headers.append("apns-request-id", id, .nameOnly(slot: 2))
        } else {
            headers.append("apns-id", id, .nameOnly(slot: 0))
        }
        if reply.status == 200, hasUniqueID { headers.append("apns-unique-id", add(newID()), .nameOnly(slot: 1)) }
        return try session.respond(stream: stream, headers, body: body(of: reply))
    }

    /// Answers a request of channel management.
    mutating func write(
        _ answer: ManagementCheck.Answer, id: NotificationUUID, stream: Int32, to session: ServerSession
    ) throws(HTTP2Error) {
        begin(status: answer.status)
        headers.append("apns-request-id", add(id), .never)
        if let channelID = answer.channelID { headers.append("apns-channel-id", add(channelID), .never) }
        let body = Array((answer.reason.text.map { "{\"reason\":\"\($0)\"}" } ?? answer.body).utf8)
        if !body.isEmpty { headers.append("content-type", "application/json") }
        let result = body.withUnsafeBytes { body in
            Result { () throws(HTTP2Error) in try session.respond(stream: stream, headers, body: body) }
        }
        _ = try result.get()
    }

    private mutating func begin(status: UInt16) {
        text.removeAll()
        headers.truncate(to: 0)
        headers.append(":status", add("\(status)"))
    }

    private mutating func add(_ value: String) -> UnsafeRawBufferPointer {
        let start = text.count
        text.append(text: value)
        return text.bytes(from: start, to: text.count)
    }

    private mutating func add(_ id: NotificationUUID, isUpper: Bool = false) -> UnsafeRawBufferPointer {
        let start = text.count
        withUnsafeTemporaryAllocation(byteCount: NotificationUUID.textCount, alignment: 8) { letters in
            id.writeText(to: letters.baseAddress!)
            for letter in letters { text.append(byte: isUpper && letter >= 0x61 ? letter - 0x20 : letter) }
        }
        return text.bytes(from: start, to: text.count)
    }

    private mutating func body(of reply: Reply) -> UnsafeRawBufferPointer {
        if reply.body == .missing { return UnsafeRawBufferPointer(start: nil, count: 0) }
        let start = text.count
        text.append("{\"reason\":\"")
        text.append(reply.body == .reason ? reply.reason.text ?? Self.unknownReason : Self.unknownReason)
        text.append("\"")
        if reply.timestampMs > 0 {
            text.append(",\"timestamp\":")
            text.append(integer: reply.timestampMs)
        }
        text.append("}")
        return text.bytes(from: start, to: text.count)
    }
}
