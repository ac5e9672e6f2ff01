/// The reason why APNs or the worker rejected a notification. The worker uses Apple's reasons too.
///
/// A reason can have any text as its value, because Apple may add reasons. Source: "Handling notification responses
/// from APNs".
public struct Reason: RawRepresentable, Hashable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
}

/// The known reasons as one byte each, so that an APNs response with a known reason needs no string.
package enum ReasonCode: UInt8, CaseIterable, Sendable {
    /// No reason: APNs accepted the notification, its response has no readable reason, or the worker rejected the
    /// request with a detail alone.
    case none = 0
    // Reasons of Apple's page "Handling notification responses from APNs", in the order of its table.
    case badCollapseId, badDeviceToken, badExpirationDate, badMessageId, badPriority, badTopic
    case deviceTokenNotForTopic, duplicateHeaders, idleTimeout, invalidPushType, missingDeviceToken, missingTopic
    case payloadEmpty, topicDisallowed, badCertificate, badCertificateEnvironment, expiredProviderToken, forbidden
    case invalidProviderToken, missingProviderToken, unrelatedKeyIdInToken, badEnvironmentKeyIdInToken, badPath
    case methodNotAllowed, expiredToken, unregistered, payloadTooLarge, tooManyProviderTokenUpdates, tooManyRequests
    case internalServerError, serviceUnavailable, shutdown
    /// A variant of `badEnvironmentKeyIdInToken` that users of other APNs clients have observed.
    case badEnvironmentKeyInToken
    // Reasons for broadcasts, from "Handling error responses from Apple Push Notification service".
    case featureNotEnabled, missingChannelId, badChannelId, channelNotRegistered, badRequestParams, badRequestPayload
    case missingPushType, cannotCreateChannelConfig
    /// The signing key is not for this topic. The worker opens the topic's circuit breaker.
    case topicMismatch
    /// The spelling of `serviceUnavailable` in responses to broadcasts.
    case serviceUnavailableSpaced
    /// An unknown reason. The transport's `Completion` contains its text.
    case other = 255

    /// Apple's spellings, indexed by raw value.
    private static let texts: [StaticString] = [
        "", "BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
        "DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken",
        "MissingTopic", "PayloadEmpty", "TopicDisallowed", "BadCertificate", "BadCertificateEnvironment",
        "ExpiredProviderToken", "Forbidden", "InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken",
        "BadEnvironmentKeyIdInToken", "BadPath", "MethodNotAllowed", "ExpiredToken", "Unregistered",
        "PayloadTooLarge", "TooManyProviderTokenUpdates", "TooManyRequests", "InternalServerError",
        "ServiceUnavailable", "Shutdown", "BadEnvironmentKeyInToken", "FeatureNotEnabled", "MissingChannelId",
        "BadChannelId", "ChannelNotRegistered", "BadRequestParams", "BadRequestPayload", "MissingPushType",
        "CannotCreateChannelConfig", "TopicMismatch", "Service Unavailable",
    ]

    /// Apple's spelling, or `nil` for `none` and `other`.
    package var text: StaticString? { self == .none || self == .other ? nil : Self.texts[Int(rawValue)] }

    package var reason: Reason? { text.map { Reason(rawValue: $0.description) } }

    /// Whether Apple's page says "Don't retry notification responses with the error code …".
    package var isFinal: Bool {
        switch self {
        case .badDeviceToken, .deviceTokenNotForTopic, .forbidden, .expiredToken, .unregistered, .payloadTooLarge: true
        default: false
        }
    }

    /// Creates the code for the text of a known reason, or `nil` for any other text. Allocates no memory.
    package init?(text: UnsafeRawBufferPointer) {
        guard text.count > 0, let index = Self.texts.firstIndex(where: { $0.spells(text) }) else { return nil }
        self.init(rawValue: UInt8(index))
    }

    /// Creates the code for the text of a known reason, or `nil` for any other text.
    package init?(_ text: some StringProtocol) {
        var text = String(text)
        guard let code = text.withUTF8({ ReasonCode(text: UnsafeRawBufferPointer($0)) }) else { return nil }
        self = code
    }
}
