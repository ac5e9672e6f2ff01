package import PushRecords

/// What a reason is about, apart from the fate of the one notification that it came for.
package enum ReasonSubject: Sendable {
    /// The device token belongs to the other environment or to another app.
    case badToken
    /// The credential is not for this topic; it may well be accepted for others.
    case topic
    /// The credential itself is refused.
    case credential
    /// The provider tokens of this worker, not the device: a 429 that must not slow the device down.
    case ourTokens
    case nothingMore
}

extension ReasonCode {
    package var subject: ReasonSubject {
        switch self {
        case .badDeviceToken, .deviceTokenNotForTopic: .badToken
        case .topicMismatch, .topicDisallowed: .topic
        case .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
            .missingProviderToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            .credential
        case .tooManyProviderTokenUpdates: .ourTokens
        default: .nothingMore
        }
    }
}

/// Who an answer comes from, as far as its status and reason tell.
package enum AnswerOrigin {
    /// Whether an answer can hardly be from APNs, which gives a reason with every status but 200: the 404, 421 or
    /// redirection of a proxy or of another server. It says nothing about the notification. The statuses 403, 410, 429
    /// and 5xx mean the same from any sender.
    @inlinable package static func isForeign(_ status: UInt16, _ reason: ReasonCode) -> Bool {
        guard reason == .none else { return false }
        switch status {
        case 200, 403, 410, 429, 500...599: return false
        default: return true
        }
    }

    /// Whether an answer is a failure of the host (5xx, or hardly from APNs): it says nothing about the notification
    /// or the credential.
    @inlinable package static func isHostFailure(_ status: UInt16, _ reason: ReasonCode) -> Bool {
        status >= 500 || isForeign(status, reason)
    }
}
