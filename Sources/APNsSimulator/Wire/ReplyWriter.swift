internal import Bytes
import HTTP2
import PushRecords

/// Makes responses out of replies without an allocation: four lists of header fields and a few scratch bytes, used
/// again and again. One thread.
struct ReplyWriter: ~Copyable {
    private var accepted = HeaderList()
    private var refused = HeaderList()
    private var acceptedBroadcast = HeaderList()
    private var refusedBroadcast = HeaderList()
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
        accepted.append(":status", "200")
        accepted.append("apns-id", part(Place.id), .nameOnly(slot: 0))
        if hasUniqueID { accepted.append("apns-unique-id", part(Place.uniqueID), .nameOnly(slot: 1)) }
        refused.append(":status", part(Place.status))
        refused.append("content-type", "application/json")
        refused.append("apns-id", part(Place.id), .nameOnly(slot: 0))
        acceptedBroadcast.append(":status", "200")
        acceptedBroadcast.append("apns-request-id", part(Place.id), .nameOnly(slot: 2))
        if hasUniqueID { acceptedBroadcast.append("apns-unique-id", part(Place.uniqueID), .nameOnly(slot: 1)) }
        refusedBroadcast.append(":status", part(Place.status))
        refusedBroadcast.append("content-type", "application/json")
        refusedBroadcast.append("apns-request-id", part(Place.id), .nameOnly(slot: 2))
    }

    deinit { scratch.deallocate() }

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
                ? try session.respond(stream: stream, acceptedBroadcast, body: nothing)
                : try session.respond(stream: stream, accepted, body: nothing)
        }
        scratch[Place.status.lowerBound] = UInt8(ascii: "0") + UInt8(reply.status / 100 % 10)
        scratch[Place.status.lowerBound + 1] = UInt8(ascii: "0") + UInt8(reply.status / 10 % 10)
        scratch[Place.status.lowerBound + 2] = UInt8(ascii: "0") + UInt8(reply.status % 10)
        return reply.isBroadcast
            ? try session.respond(stream: stream, refusedBroadcast, body: writeBody(reply))
            : try session.respond(stream: stream, refused, body: writeBody(reply))
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
