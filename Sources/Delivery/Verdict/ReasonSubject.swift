import PushRecords

/// What a reason is about, where more than the notification's own fate hangs on it; its verdict does not tell.
enum ReasonSubject {
    /// The device token: of the other environment, or of another app (`EnvironmentGuard`).
    case badToken
    /// The topic: the key is for others, and may well be accepted for those (`CircuitBreakers`).
    case topic
    /// Our provider tokens: a 429 that is about us, not about the device (`SlowedDevices`).
    case ourTokens
    case nothingMore
}

extension ReasonCode {
    var subject: ReasonSubject {
        switch self {
        case .badDeviceToken, .deviceTokenNotForTopic: .badToken
        case .topicMismatch, .topicDisallowed: .topic
        case .tooManyProviderTokenUpdates: .ourTokens
        case .none, .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders,
            .idleTimeout, .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty,
            .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badPath, .methodNotAllowed,
            .tooManyRequests, .internalServerError, .serviceUnavailable, .shutdown, .badEnvironmentKeyInToken,
            .featureNotEnabled, .missingChannelId, .badChannelId, .channelNotRegistered, .badRequestParams,
            .badRequestPayload, .missingPushType, .cannotCreateChannelConfig, .serviceUnavailableSpaced, .forbidden,
            .expiredToken, .unregistered, .payloadTooLarge, .other:
            .nothingMore
        }
    }
}
