import Delivery
import PushRecords
import TestSupport

@testable import APNs

/// One try of a notification, as the core handed it over and as the peer saw it. Its device token names it, so that no
/// peer can take it for another one.
final class WorldTry {
    let serial: UInt32
    /// The notification's.
    let number: UInt32
    let isSuspect: Bool
    let isBroadcast: Bool
    private let memory: UnsafeMutableRawBufferPointer
    /// It was given to the transport, and at that time.
    var handedNs: Int64?
    private(set) var isCompleted = false
    /// It was asked back at that time.
    var recalledNs: Int64?
    /// Where the peer saw it.
    var connection: WorldConnection?
    /// The peer's program took it as to be delivered.
    var isDelivered = false
    /// The peer said that it was not processed.
    var isDenied = false
    /// The peer answered, about this one alone.
    var statusSaid: UInt16?
    /// A gateway's: when its kernel had the frame.
    var acknowledgedNs: Int64?
    /// Silence accepted it.
    var isPresumed = false

    private static let tokenBytes = 64
    /// 0 is the fence's.
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
            headers: NotificationHeaders(topic: Self.topic.bytes), isBroadcast: isBroadcast)
        request.isSuspect = isSuspect
        return request
    }

    nonisolated(unsafe) private static let topic = Lent("com.example.shop")

    var id: NotificationID { NotificationID(slot: NotificationSlot(number), generation: 3) }

    /// It is completed: the bytes that were lent are another one's from now on.
    func takeBack() {
        isCompleted = true
        memory.initializeMemory(as: UInt8.self, repeating: 0x21)
    }

    /// The serial number in a token; `nil`: nobody's.
    static func serial(ofToken token: some Collection<UInt8>) -> UInt32? {
        UInt32(String(decoding: token, as: UTF8.self), radix: 16).map { $0 &- firstToken }
    }

    /// As it was lent.
    func isPayload(_ bytes: some Collection<UInt8>) -> Bool {
        bytes.count == memory.count - Self.tokenBytes && bytes.starts(with: String(serial).utf8)
            && bytes.dropFirst(String(serial).utf8.count).allSatisfy { $0 == 0x20 }
    }
}
