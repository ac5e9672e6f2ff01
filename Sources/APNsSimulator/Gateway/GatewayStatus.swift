package import PushRecords

/// The status of the binary gateway's error answers: Apple's numbers ("Binary Provider API", archived), and any other,
/// which a gateway of somebody else's may say.
package struct GatewayStatus: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let processingError = Self(rawValue: 1)
    package static let missingToken = Self(rawValue: 2)
    package static let missingTopic = Self(rawValue: 3)
    package static let missingPayload = Self(rawValue: 4)
    package static let tokenSize = Self(rawValue: 5)
    package static let topicSize = Self(rawValue: 6)
    package static let payloadSize = Self(rawValue: 7)
    package static let invalidToken = Self(rawValue: 8)
    /// The server goes away; the answer names the last notification that was processed.
    package static let shutdown = Self(rawValue: 10)
    package static let protocolError = Self(rawValue: 128)
    package static let unknown = Self(rawValue: 255)

    /// The reason under which the books count it: the one that HTTP/2 has for the same mistake.
    package var reason: ReasonCode {
        switch self {
        case .processingError: .internalServerError
        case .missingToken: .missingDeviceToken
        case .missingTopic: .missingTopic
        case .missingPayload: .payloadEmpty
        case .tokenSize, .invalidToken: .badDeviceToken
        case .topicSize: .badTopic
        case .payloadSize: .payloadTooLarge
        case .shutdown: .shutdown
        default: .other
        }
    }

    /// The status for a reason of HTTP/2; `nil`: the gateway has none for it.
    init?(_ reason: ReasonCode) {
        switch reason {
        case .internalServerError: self = .processingError
        case .missingDeviceToken: self = .missingToken
        case .missingTopic: self = .missingTopic
        case .payloadEmpty: self = .missingPayload
        case .badTopic: self = .topicSize
        case .payloadTooLarge: self = .payloadSize
        case .badDeviceToken, .deviceTokenNotForTopic: self = .invalidToken
        case .shutdown: self = .shutdown
        default: return nil
        }
    }
}

/// An error answer: `08`, the status, the notification's identifier (big-endian); then the gateway closes.
struct GatewayErrorFrame: Hashable, Sendable {
    var status: GatewayStatus
    /// 0: the notification had none, as those of command 0.
    var identifier: UInt32

    static let size = 6

    var bytes: [UInt8] {
        [8, status.rawValue] + (0..<4).map { UInt8(truncatingIfNeeded: identifier >> UInt32(24 - $0 * 8)) }
    }
}
