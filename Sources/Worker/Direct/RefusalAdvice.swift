package import Configuration
package import PushRecords

/// What a refusal means for someone who sends by hand, and what to do about it. Source: Apple, "Handling notification
/// responses from APNs".
package enum RefusalAdvice {
    /// - Parameters:
    ///   - reason: Apple's word; `nil`: the answer had none that could be read.
    ///   - topic: the `apns-topic` that was sent.
    ///   - isOtherTried: a token that is bad here was sent to the app of the other environment as well.
    /// - Returns: one line without a full stop; `nil`: the reason says it all, or nothing is known of it.
    package static func text(
        _ reason: Reason?, status: Int, topic: String, of app: AppSettings, isOtherTried: Bool = false
    ) -> String? {
        let code = reason.flatMap { ReasonCode($0.rawValue) }
        return ofDevice(code ?? .none, topic, app, isOtherTried) ?? ofRequest(code ?? .none)
            ?? ofCredential(code ?? .none, status: status, topic, of: app) ?? ofService(code ?? .none, status: status)
    }

    private static func ofDevice(
        _ reason: ReasonCode, _ topic: String, _ app: AppSettings, _ isOtherTried: Bool
    ) -> String? {
        let other: PushEnvironment = app.environment == .production ? .development : .production
        return switch reason {
        case .badDeviceToken where isOtherTried:
            "no device of either environment has that token: is it cut short, or of another team's app?"
        case .badDeviceToken:
            "no device of \(app.environment.text) has that token: a build from Xcode has one of development, TestFlight and the App Store of production (try \(other.text)); or it is cut short"
        case .deviceTokenNotForTopic:
            "the token belongs to another app than \(topic); the topic is the bundle id of the app that registered, with the suffix of the push type where that has one"
        case .unregistered:
            "the app was removed from the device, or the token was replaced: delete it, unless it was registered again since"
        case .expiredToken: "the token expired: delete it, unless it was registered again since"
        default: nil
        }
    }

    private static func ofRequest(_ reason: ReasonCode) -> String? {
        switch reason {
        case .badCollapseId: "an apns-collapse-id has at most 64 bytes"
        case .badExpirationDate: "apns-expiration is seconds since 1970, or 0"
        case .badMessageId: "an apns-id is a UUID: 32 hex digits in groups of 8-4-4-4-12"
        case .badPriority: "apns-priority is 10, 5 or 1; a background push takes 5 only"
        case .invalidPushType:
            "apns-push-type does not fit what the payload asks for, or the topic's suffix, or is not one of Apple's"
        case .missingTopic: "with a key, or a certificate for several topics, a request names its topic"
        case .payloadEmpty: "the payload is empty; an alert has at least {\"aps\":{\"alert\":\"Hi\"}}"
        case .payloadTooLarge: "a payload has at most 4,096 bytes, 5,120 for voip and broadcasts"
        case .missingDeviceToken, .badPath, .methodNotAllowed, .duplicateHeaders:
            "the request did not arrive as it was sent; is a proxy between here and APNs, or the host not APNs?"
        default: nil
        }
    }

    /// What is wrong with a credential; `nil`: the reason is about something else.
    static func ofCredential(_ reason: ReasonCode, status: Int, _ topic: String, of app: AppSettings) -> String? {
        switch reason {
        case .invalidProviderToken: "key, key_id and team_id do not belong together, or the key was revoked"
        case .expiredProviderToken: "this machine's clock is wrong by more than the hour that a token lives"
        case .missingProviderToken: "APNs did not get the certificate; an app without one needs token"
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            "the key is not for \(app.environment.text), or not for \(topic)"
        case .badCertificate: "the certificate is not one for push notifications, or was revoked"
        case .badCertificateEnvironment: "the certificate is not for \(app.environment.text)"
        case .topicDisallowed, .badTopic, .missingTopic, .topicMismatch:
            "the credential is not for \(topic); look at the key's team and at how the bundle id is written"
        case .forbidden: "Apple refuses this provider; look at the developer account"
        case .tooManyProviderTokenUpdates:
            "every call makes a provider token, and Apple wants one in 20 minutes at most; try again then"
        default: status == 403 ? "the credential is refused" : nil
        }
    }

    /// What is wrong with APNs, or asked too often of it.
    static func ofService(_ reason: ReasonCode, status: Int) -> String? {
        switch reason {
        case .tooManyRequests: "APNs wants to be asked less often; try again in a minute"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            "APNs has a problem of its own; try again"
        default:
            status == 429
                ? "APNs wants to be asked less often; try again in a minute"
                : status >= 500 ? "APNs has a problem of its own; try again" : nil
        }
    }
}
