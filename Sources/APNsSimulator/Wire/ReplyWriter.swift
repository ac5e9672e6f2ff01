internal import Bytes
import HTTP2
import JSON
import PushRecords

/// A writer of responses, which reuses its memory and allocates none for the answer to a notification. Not thread-safe.
struct ReplyWriter: ~Copyable {
    private var headers = HeaderList()
    /// The status, ids and body of one response. The buffer never grows, so that the session can borrow parts of it.
    private var text = ByteWriter(capacity: 1_024)
    private var random: SplitMix64
    private let hasUniqueID: Bool

    static let unknownReason: StaticString = "ReasonOfTomorrow"

    /// - Parameter hasUniqueID: Whether to send `apns-unique-id`, as only the development environment does.
    init(hasUniqueID: Bool, seed: UInt64) {
        self.hasUniqueID = hasUniqueID
        random = SplitMix64(seed: seed ^ 0x5EED)
    }

    /// Returns an id for a notification that arrived without one.
    mutating func newID() -> NotificationUUID { .random(using: &random) }

    /// Sends the answer to a notification, unless the stream is closed.
    mutating func write(_ reply: Reply, stream: Int32, to session: ServerSession) throws(HTTP2Error) {
        begin(status: reply.status)
        if reply.status != 200 { headers.append("content-type", "application/json") }
        // Apple writes ids that it generates in upper case. The simulator returns a client's id in lower case.
        let id = add(reply.id, isUpper: reply.isOwnID)
        if reply.isBroadcast {
            headers.append("apns-request-id", id, .nameOnly(slot: 2))
        } else {
            headers.append("apns-id", id, .nameOnly(slot: 0))
        }
        if reply.status == 200, hasUniqueID { headers.append("apns-unique-id", add(newID()), .nameOnly(slot: 1)) }
        _ = try session.respond(stream: stream, headers, body: body(of: reply))
    }

    /// Sends the answer to a channel management request.
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
