package import PushRecords

/// The status of the binary gateway's error answers: Apple's numbers ("Binary Provider API", archived), and any other.
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
    /// The server shuts down. The answer names the last notification that was processed.
    package static let shutdown = Self(rawValue: 10)
    package static let protocolError = Self(rawValue: 128)
    package static let unknown = Self(rawValue: 255)

    /// The gateway's statuses and the reasons that HTTP/2 has for the same mistake.
    private static let reasons: [(status: GatewayStatus, reason: ReasonCode)] = [
        (.processingError, .internalServerError), (.missingToken, .missingDeviceToken), (.missingTopic, .missingTopic),
        (.missingPayload, .payloadEmpty), (.invalidToken, .badDeviceToken), (.tokenSize, .badDeviceToken),
        (.topicSize, .badTopic), (.payloadSize, .payloadTooLarge), (.shutdown, .shutdown),
        (.invalidToken, .deviceTokenNotForTopic),
    ]

    /// The reason under which the books count it.
    package var reason: ReasonCode { Self.reasons.first { $0.status == self }?.reason ?? .other }

    /// The status for a reason of HTTP/2, if the gateway has one.
    init?(_ reason: ReasonCode) {
        guard let row = Self.reasons.first(where: { $0.reason == reason }) else { return nil }
        self = row.status
    }
}
