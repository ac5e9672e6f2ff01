package import Configuration
internal import Delivery
package import PushRecords

/// What a refusal means and what to do about it, in one line without a full stop. Source: Apple, "Handling notification
/// responses from APNs" and "Handling error responses from Apple Push Notification service".
package enum RefusalAdvice {
    /// - Parameters:
    ///   - reason: Apple's reason, or `nil` if the answer had none that could be read.
    ///   - isOtherTried: whether a bad token was sent to the app of the other environment as well.
    /// - Returns: `nil` if nothing is known about such a refusal.
    package static func text(
        _ reason: Reason?, status: Int, topic: String, of app: AppSettings, isOtherTried: Bool = false
    ) -> String? {
        // A result without a reason has its status in place of one.
        guard let reason, reason.rawValue != "HTTP \(status)" else {
            return text(of: .none, status: status, topic, app)
        }
        guard let code = ReasonCode(reason.rawValue) else {
            return app.binary.flatMap { gatewayText(of: reason.rawValue, $0) }
                ?? text(of: .other, status: status, topic, app)
        }
        return text(of: code, status: status, topic, app, isOtherTried: isOtherTried)
    }

    static func text(
        of reason: ReasonCode, status: Int, _ topic: String, _ app: AppSettings, isOtherTried: Bool = false
    ) -> String? {
        switch reason {
        case .badDeviceToken where isOtherTried:
            "no device of either environment has that token: is it cut short, or of another team's app?"
        case .badDeviceToken:
            "no device of \(app.environment.text) has that token: a build from Xcode has one of development, "
                + "TestFlight and the App Store of production (try "
                + "\(app.environment == .production ? "development" : "production")); or it is cut short"
        case .deviceTokenNotForTopic:
            "the token belongs to another app than \(topic); the topic is the bundle id of the app that registered, "
                + "with the suffix of the push type where that has one"
        case .unregistered:
            "the app was removed from the device, or the token was replaced: delete it, unless it was registered again "
                + "since"
        case .expiredToken: "the token expired: delete it, unless it was registered again since"
        case .missingDeviceToken where app.binary != nil:
            "a gateway of the binary protocol takes notifications for one device, no broadcasts"

        case .badCollapseId: "an apns-collapse-id has at most 64 bytes"
        case .badExpirationDate: "apns-expiration is seconds since 1970, or 0"
        case .badMessageId: "an apns-id is a UUID: 32 hex digits in groups of 8-4-4-4-12"
        case .badPriority: "apns-priority is 10, 5 or 1; a background push takes 5 only"
        case .invalidPushType:
            "apns-push-type does not fit what the payload asks for, or the topic's suffix, or is not one of Apple's"
        case .missingPushType: "a broadcast names its apns-push-type, liveactivity"
        case .missingTopic where app.binary != nil: "the client certificate names no topic"
        case .missingTopic: "with a key, or a certificate for several topics, a request names its topic"
        case .payloadEmpty: "the payload is empty; an alert has at least {\"aps\":{\"alert\":\"Hi\"}}"
        case .payloadTooLarge:
            app.binary.map { binary in
                "a payload has at most \(binary.payloadLimit) bytes here (binary.payload_limit); where the gateway "
                    + "itself refused a shorter one, lower that (256 before iOS 8)"
            } ?? "a payload has at most 4,096 bytes, 5,120 for voip and broadcasts"
        case .badRequestPayload:
            "the payload is not what a Live Activity takes: aps has timestamp, event and content-state"
        case .missingDeviceToken, .badPath, .methodNotAllowed, .duplicateHeaders, .missingChannelId, .badRequestParams:
            "the request did not arrive as it was sent; is a proxy between here and APNs, or the host not APNs?"
        case .badChannelId:
            "that is no channel id: write it as `apns-worker channels` create and list print it, in base64"
        case .channelNotRegistered:
            "\(topic) has no such channel in \(app.environment.text): it was deleted, or is another app's or the other "
                + "environment's; `apns-worker channels list` tells which there are"
        case .cannotCreateChannelConfig:
            "\(topic) has all the channels that Apple allows (10,000 in each environment): delete those whose event is "
                + "over"
        case .featureNotEnabled:
            "broadcast is not set up for \(topic): at developer.apple.com, turn on Broadcast Capability of its "
                + "identifier's Push Notifications"

        case .invalidProviderToken: "key, key_id and team_id do not belong together, or the key was revoked"
        case .expiredProviderToken: "this machine's clock is wrong by more than the hour that a token lives"
        case .missingProviderToken: "APNs did not get the certificate; an app without one needs token"
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            "the key is not for \(app.environment.text), or not for \(topic)"
        case .badCertificate:
            if case .certificate(let certificate) = app.credential {
                "the certificate has expired, was revoked, or is from another authority; renew \(certificate.place)"
            } else {
                "the certificate has expired, was revoked, or is from another authority; renew it"
            }
        case .badCertificateEnvironment: "the certificate is not for \(app.environment.text)"
        case .topicDisallowed, .badTopic, .topicMismatch:
            "the credential is not for \(topic); look at the key's team and at how the bundle id is written"
        case .forbidden: "Apple refuses this provider; look at the developer account"
        case .tooManyProviderTokenUpdates:
            "every call makes a provider token, and Apple wants one in 20 minutes at most; try again then"

        case .tooManyRequests: "APNs wants to be asked less often; try again in a minute"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            "APNs has a problem of its own; try again"
        case .none, .other: text(ofStatus: status, reason)
        }
    }

    private static func text(ofStatus status: Int, _ reason: ReasonCode) -> String? {
        switch status {
        case 403: "the credential is refused"
        case 410: "the token is dead: delete it, unless it was registered again since"
        case 429: "APNs wants to be asked less often; try again in a minute"
        case 500...: "APNs has a problem of its own; try again"
        case _ where AnswerOrigin.isForeign(UInt16(clamping: status), reason):
            "APNs gives a reason with each refusal, so this is hardly its answer: look at what the host is, and at "
                + "proxies on the way"
        default: nil
        }
    }

    private static func gatewayText(of word: String, _ binary: BinarySettings) -> String? {
        switch word {
        case "InvalidTokenSize": "a gateway takes device tokens of 32 bytes, 64 hex digits"
        case "InvalidTopicSize": "the topic in the client certificate is not one that the gateway takes"
        case "ProtocolError":
            "the gateway does not read frames of binary.format: \(binary.format.rawValue); try an older format, and "
                + "look at what the host is"
        case "ProcessingError", "UnknownError",
            _ where word.hasPrefix("GatewayStatus"):
            "the gateway has a problem of its own, and says no more; try again"
        default: nil
        }
    }
}
