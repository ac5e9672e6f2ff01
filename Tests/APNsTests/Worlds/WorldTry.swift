import Delivery
import PushRecords
import TestSupport

@testable import APNs

/// One send of a notification, as seen by the core and by the peer. Its device token is unique, so no peer can confuse
/// it with another one.
final class WorldTry {
    let serial: UInt32
    /// The notification's number.
    let number: UInt32
    let isSuspect: Bool
    let isBroadcast: Bool
    private let memory: UnsafeMutableRawBufferPointer
    /// When the try was handed to the transport.
    var handedNs: Int64?
    private(set) var isCompleted = false
    /// When the try was recalled.
    var recalledNs: Int64?
    /// The connection on which the peer received the try.
    var connection: WorldConnection?
    /// Whether the peer's program accepted the try for delivery.
    var isDelivered = false
    /// Whether the peer reported that the try was not processed.
    var isDenied = false
    /// The status that the peer answered for this try alone.
    var statusSaid: UInt16?
    /// When a gateway's kernel received the frame.
    var acknowledgedNs: Int64?
    /// Whether the gateway's silence counted as acceptance of the try.
    var isPresumed = false

    private static let tokenBytes = 64
    /// The token 0 belongs to the fence.
    private static let firstToken: UInt32 = 1

    init(serial: UInt32, number: UInt32, payloadBytes: Int, isSuspect: Bool, isBroadcast: Bool) {
        self.serial = serial
        self.number = number
        self.isSuspect = isSuspect
        self.isBroadcast = isBroadcast
        memory = .allocate(byteCount: Self.tokenBytes + max(payloadBytes, 8), alignment: 1)
        let digits = String(serial + Self.firstToken, radix: 16)
        memory.initializeMemory(as: UInt8.self, repeating: 0x20)
        memory.copyBytes(
            from: (String(repeating: "0", count: Self.tokenBytes - digits.count) + digits + String(serial)).utf8)
    }

    deinit { memory.deallocate() }

    var request: OutgoingRequest {
        var request = OutgoingRequest(
            id: id, token: UnsafeRawBufferPointer(rebasing: memory[..<Self.tokenBytes]),
            payload: UnsafeRawBufferPointer(rebasing: memory[Self.tokenBytes...]),
            headers: ParsedRequest.Headers(topic: Self.topic.bytes), isBroadcast: isBroadcast)
        request.isSuspect = isSuspect
        return request
    }

    nonisolated(unsafe) private static let topic = Lent("com.example.shop")

    var id: NotificationID { NotificationID(slot: NotificationSlot(number), generation: 3) }

    /// Overwrites the borrowed bytes after the completion.
    func takeBack() {
        isCompleted = true
        memory.initializeMemory(as: UInt8.self, repeating: 0x21)
    }

    /// Returns the serial number in a token, or `nil` if it belongs to no try.
    static func serial(ofToken token: some Collection<UInt8>) -> UInt32? {
        UInt32(String(decoding: token, as: UTF8.self), radix: 16).map { $0 &- firstToken }
    }

    /// Whether the bytes are the try's payload.
    func isPayload(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.count == memory.count - Self.tokenBytes && bytes.starts(with: String(serial).utf8)
            && bytes.dropFirst(String(serial).utf8.count).allSatisfy { $0 == 0x20 }
    }
}
