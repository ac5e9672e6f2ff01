package import PushRecords

/// The status of the binary gateway's error answers, by Apple's numbers ("Binary Provider API", archived).
package enum GatewayStatus: UInt8, CaseIterable, Hashable, Sendable {
    case processingError = 1
    case missingToken = 2
    case missingTopic = 3
    case missingPayload = 4
    case tokenSize = 5
    case topicSize = 6
    case payloadSize = 7
    case invalidToken = 8
    /// The server goes away; the answer names the last notification that was processed.
    case shutdown = 10
    case protocolError = 128
    case unknown = 255

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
        case .protocolError, .unknown: .other
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
