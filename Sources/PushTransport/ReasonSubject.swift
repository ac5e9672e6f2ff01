package import PushRecords

/// The cause that an APNs error reason names, if it may also affect other notifications: the device token, the topic,
/// the credential, or how often the worker renews its tokens.
package enum ReasonSubject: Sendable {
    /// The device token is damaged, or belongs to the other environment or to another app.
    case badToken
    /// The credential is not accepted for this topic, but may be accepted for other topics.
    case topic
    /// The credential itself is rejected.
    case credential
    /// The worker renews its provider token too often. This 429 does not concern the device, so it must not slow the
    /// device's queue down.
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

/// The origin of an answer, derived from its status and reason.
package enum AnswerOrigin {
    /// Returns whether an answer is probably not from APNs, which gives a reason with every status but 200. Examples
    /// are the 404, 421 or redirect of a proxy or another server. Such an answer says nothing about the notification.
    /// The statuses 403, 410, 429 and 5xx are handled in the same way from any sender.
    @inlinable package static func isForeign(_ status: UInt16, _ reason: ReasonCode) -> Bool {
        guard reason == .none else { return false }
        switch status {
        case 200, 403, 410, 429, 500...599: return false
        default: return true
        }
    }

    /// Returns whether an answer is a failure of the host: a 5xx, or an answer that is probably not from APNs. Such an
    /// answer says nothing about the notification or the credential.
    @inlinable package static func isHostFailure(_ status: UInt16, _ reason: ReasonCode) -> Bool {
        status >= 500 || isForeign(status, reason)
    }
}
