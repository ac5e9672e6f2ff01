internal import Bytes
import HTTP2
import PushRecords

/// Makes responses out of replies without an allocation: lists of header fields and a few scratch bytes, used
/// again and again. One thread.
struct ReplyWriter: ~Copyable {
    /// The header fields of answers to notifications for a device, and to broadcasts.
    private var device = Fields()
    private var broadcast = Fields()
    private let scratch: UnsafeMutableRawBufferPointer
    private var random: SplitMix64
    private let hasUniqueID: Bool

    /// Header fields are lent to the session for the call, so they live at fixed places of the scratch memory.
    private enum Place {
        static let id = 0..<36
        static let uniqueID = 40..<76
        static let status = 80..<83
        static let body = 96..<256
    }

    /// - Parameter hasUniqueID: `apns-unique-id`, which only the development environment sends.
    init(hasUniqueID: Bool, seed: UInt64) {
        self.hasUniqueID = hasUniqueID
        random = SplitMix64(seed: seed ^ 0x5EED)
        scratch = .allocate(byteCount: 256, alignment: 16)
        scratch.initializeMemory(as: UInt8.self, repeating: UInt8(ascii: "0"))
        device = fields("apns-id", slot: 0)
        broadcast = fields("apns-request-id", slot: 2)
    }

    deinit { scratch.deallocate() }

    private struct Fields: ~Copyable {
        var accepted = HeaderList()
        var refused = HeaderList()
    }

    private func fields(_ idName: StaticString, slot: UInt8) -> Fields {
        var fields = Fields()
        fields.accepted.append(":status", "200")
        fields.accepted.append(idName, part(Place.id), .nameOnly(slot: slot))
        if hasUniqueID { fields.accepted.append("apns-unique-id", part(Place.uniqueID), .nameOnly(slot: 1)) }
        fields.refused.append(":status", part(Place.status))
        fields.refused.append("content-type", "application/json")
        fields.refused.append(idName, part(Place.id), .nameOnly(slot: slot))
        return fields
    }

    /// An id for a notification that came without one: a random UUID (version 4).
    mutating func newID() -> NotificationUUID {
        NotificationUUID(
            high: random.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000, low: random.next() >> 2 | 0x8000_0000_0000_0000)
    }

    /// Answers a stream; false when it is gone.
    @discardableResult
    mutating func write(_ reply: Reply, stream: Int32, to session: ServerSession) throws(HTTP2Error) -> Bool {
        // Apple writes the ids it makes in upper case; those it was given come back in lower case here.
        writeID(high: reply.idHigh, low: reply.idLow, isUpper: reply.isOwnID, at: Place.id)
        if reply.status == 200 {
            if hasUniqueID {
                let unique = newID()
                writeID(high: unique.high, low: unique.low, isUpper: false, at: Place.uniqueID)
            }
            let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
            return reply.isBroadcast
                ? try session.respond(stream: stream, broadcast.accepted, body: nothing)
                : try session.respond(stream: stream, device.accepted, body: nothing)
        }
        scratch[Place.status.lowerBound] = UInt8(ascii: "0") + UInt8(reply.status / 100 % 10)
        scratch[Place.status.lowerBound + 1] = UInt8(ascii: "0") + UInt8(reply.status / 10 % 10)
        scratch[Place.status.lowerBound + 2] = UInt8(ascii: "0") + UInt8(reply.status % 10)
        return reply.isBroadcast
            ? try session.respond(stream: stream, broadcast.refused, body: writeBody(reply))
            : try session.respond(stream: stream, device.refused, body: writeBody(reply))
    }

    private func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: scratch[range])
    }

    private func writeID(high: UInt64, low: UInt64, isUpper: Bool, at range: Range<Int>) {
        var writer = LineWriter(UnsafeMutableRawBufferPointer(rebasing: scratch[range]))
        writer.uuid(high: high, low: low, isUpper: isUpper)
    }

    private func writeBody(_ reply: Reply) -> UnsafeRawBufferPointer {
        if reply.body == .missing { return UnsafeRawBufferPointer(start: nil, count: 0) }
        var writer = LineWriter(UnsafeMutableRawBufferPointer(rebasing: scratch[Place.body]))
        writer.text("{\"reason\":\"")
        if reply.body == .reason, let text = reply.reason.text { writer.text(text) } else { writer.text(Self.unknown) }
        writer.text("\"")
        if reply.timestampMs > 0 {
            writer.text(",\"timestamp\":")
            writer.decimal(UInt64(reply.timestampMs))
        }
        writer.text("}")
        return UnsafeRawBufferPointer(rebasing: scratch[Place.body.lowerBound..<Place.body.lowerBound + writer.used])
    }

    static let unknown: StaticString = "ReasonOfTomorrow"
}
