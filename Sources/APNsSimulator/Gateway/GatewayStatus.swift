import PushRecords

/// The status in an error answer of the binary gateway. Known numbers are from Apple's archived "Binary Provider API".
struct GatewayStatus: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt8

    init(rawValue: UInt8) { self.rawValue = rawValue }

    static let processingError = Self(rawValue: 1)
    static let missingToken = Self(rawValue: 2)
    static let missingTopic = Self(rawValue: 3)
    static let missingPayload = Self(rawValue: 4)
    static let tokenSize = Self(rawValue: 5)
    static let topicSize = Self(rawValue: 6)
    static let payloadSize = Self(rawValue: 7)
    static let invalidToken = Self(rawValue: 8)
    /// The status that the gateway sends when it shuts down. The answer names the last processed notification.
    static let shutdown = Self(rawValue: 10)
    static let protocolError = Self(rawValue: 128)

    /// The gateway's statuses with the HTTP/2 reasons for the same error.
    private static let reasons: [(status: GatewayStatus, reason: ReasonCode)] = [
        (.processingError, .internalServerError), (.missingToken, .missingDeviceToken), (.missingTopic, .missingTopic),
        (.missingPayload, .payloadEmpty), (.invalidToken, .badDeviceToken), (.tokenSize, .badDeviceToken),
        (.topicSize, .badTopic), (.payloadSize, .payloadTooLarge), (.shutdown, .shutdown),
        (.invalidToken, .deviceTokenNotForTopic),
    ]

    /// The reason under which the simulator counts notifications with this status.
    var reason: ReasonCode { Self.reasons.first { $0.status == self }?.reason ?? .other }

    /// Looks up the gateway's status for an HTTP/2 reason. Returns `nil` if the gateway has no such status.
    init?(_ reason: ReasonCode) {
        guard let row = Self.reasons.first(where: { $0.reason == reason }) else { return nil }
        self = row.status
    }
}
