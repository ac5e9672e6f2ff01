package import PushRecords

/// A gateway's answer, which it sends before it closes the connection: six bytes, namely `08`, a status, and a
/// notification's identifier.
///
/// Source: Apple, "Local and Push Notification Programming Guide", legacy information.
package struct GatewayAnswer: Sendable, Equatable {
    package var status: UInt8
    package var identifier: UInt32

    /// Whether the identifier names the last processed notification. This is the case for the statuses 0 (no errors
    /// encountered) and 10 (shutdown).
    package var isOfTheLastProcessed: Bool { status == 0 || status == 10 }

    /// The reason in a result: Apple's current name for the error, or `.other` if there is none. For `.other`, `text`
    /// names the error.
    package var reason: ReasonCode {
        switch status {
        case 2: .missingDeviceToken
        case 3: .missingTopic
        case 4: .payloadEmpty
        case 7: .payloadTooLarge
        case 8: .badDeviceToken
        default: .other
        }
    }

    package var text: String? {
        guard reason == .other else { return nil }
        return switch status {
        case 1: "ProcessingError"
        case 5: "InvalidTokenSize"
        case 6: "InvalidTopicSize"
        case 128: "ProtocolError"
        case 255: "UnknownError"
        default: "GatewayStatus\(status)"
        }
    }

    /// The status in a result. An unknown status becomes 255, because its number could look like an HTTP status.
    package var resultStatus: UInt16 {
        switch status {
        case 1...8, 10, 128: UInt16(status)
        default: 255
        }
    }
}

/// Reads a gateway's answer, which may arrive in pieces.
struct GatewayAnswerReader {
    enum Found: Equatable {
        case answer(GatewayAnswer)
        case garbage(UInt8)
    }

    private var bytes: [UInt8] = []

    /// Whether the first bytes of an answer have arrived.
    var hasBegun: Bool { !bytes.isEmpty }

    static let length = 6
    private static let command: UInt8 = 8

    /// Returns the first complete answer. Bytes after it are ignored, because the gateway processes nothing more.
    mutating func read(_ received: UnsafeRawBufferPointer) -> Found? {
        bytes += received.prefix(Self.length - bytes.count)
        guard let first = bytes.first else { return nil }
        guard first == Self.command else { return .garbage(first) }
        guard bytes.count == Self.length else { return nil }
        return .answer(
            GatewayAnswer(
                status: bytes[1], identifier: bytes[2...].reduce(0) { $0 << 8 | UInt32($1) }))
    }
}
