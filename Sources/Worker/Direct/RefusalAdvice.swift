package import Configuration
internal import Delivery
package import PushRecords

/// Explains error answers of APNs: the meaning and what to do, in one line without a full stop. Source: Apple,
/// "Handling notification responses from APNs" and "Handling error responses from Apple Push Notification service".
package enum RefusalAdvice {
    /// - Parameters:
    ///   - reason: Apple's reason, or `nil` if the answer had no readable reason.
    ///   - isOtherTried: Whether a request with a bad token was also sent through the app of the other environment.
    /// - Returns: The advice, or `nil` if there is none for this answer.
    package static func text(
        _ reason: Reason?, status: Int, topic: String, of app: AppSettings, isOtherTried: Bool = false
    ) -> String? {
        // If APNs gave no reason, the worker's result has the reason `HTTP` followed by the status.
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
            "no device in either environment has this token: it is truncated, or belongs to another team's app"
        case .badDeviceToken:
            "no device in \(app.environment.text) has this token: builds from Xcode get development tokens, and builds "
                + "from TestFlight and the App Store get production tokens (try "
                + "\(app.environment == .production ? "development" : "production")); the token may also be truncated"
        case .deviceTokenNotForTopic:
            "the token does not belong to the app \(topic); set the topic to the bundle id of the app that registered, "
                + "followed by the suffix of the push type if it has one"
        case .unregistered:
            "the app was removed from the device, or the token was replaced: delete the token, unless it was "
                + "registered again since then"
        case .expiredToken: "the token expired: delete the token, unless it was registered again since then"
        case .missingDeviceToken where app.binary != nil:
            "a gateway of the binary protocol accepts notifications for devices, but no broadcasts"

        case .badCollapseId: "an apns-collapse-id must have at most 64 bytes"
        case .badExpirationDate: "apns-expiration must be seconds since 1970, or 0"
        case .badMessageId: "an apns-id must be a UUID: 32 hex digits in groups of 8-4-4-4-12"
        case .badPriority: "apns-priority must be 10, 5 or 1, and 5 for a background push"
        case .invalidPushType:
            "apns-push-type is not a push type of Apple, or does not match the payload or the topic's suffix"
        case .missingPushType: "a broadcast needs apns-push-type liveactivity"
        case .missingTopic where app.binary != nil: "the client certificate names no topic"
        case .missingTopic: "with a key, or a certificate for several topics, a request needs a topic"
        case .payloadEmpty: "the payload is empty; an alert needs at least {\"aps\":{\"alert\":\"Hi\"}}"
        case .payloadTooLarge:
            app.binary.map { binary in
                "a payload may have at most \(binary.payloadLimit) bytes (binary.payload_limit); if the gateway "
                    + "refused a shorter payload, lower the limit (the limit was 256 before iOS 8)"
            } ?? "a payload may have at most 4,096 bytes, or 5,120 for voip and broadcasts"
        case .badRequestPayload:
            "the payload is not valid for a Live Activity: aps needs timestamp, event and content-state"
        case .missingDeviceToken, .badPath, .methodNotAllowed, .duplicateHeaders, .missingChannelId, .badRequestParams:
            "APNs did not receive the request as it was sent; check for a proxy that changes requests, and check that "
                + "the host is APNs"
        case .badChannelId:
            "not a channel id; use the base64 text that `apns-worker channels create` or `list` prints"
        case .channelNotRegistered:
            "\(topic) has no such channel in \(app.environment.text): it was deleted, or belongs to another app or "
                + "environment; `apns-worker channels list` lists the existing channels"
        case .cannotCreateChannelConfig:
            "\(topic) has as many channels as Apple allows (10,000 in each environment); delete channels of past events"
        case .featureNotEnabled:
            "broadcast is not enabled for \(topic); at developer.apple.com, turn on Broadcast Capability in the "
                + "Push Notifications settings of the app's identifier"

        case .invalidProviderToken:
            "key, key_id and team_id do not belong together, the key was revoked, or this machine's clock is fast"
        case .expiredProviderToken:
            "APNs rejects provider tokens that are older than one hour: this machine's clock is probably slow"
        case .missingProviderToken:
            "APNs received neither a certificate nor a provider token; check for a proxy that ends TLS or drops headers"
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            "the key is not valid for \(app.environment.text), or not for \(topic)"
        case .badCertificate:
            "the certificate has expired, was revoked, or is not from Apple; renew \(app.certificatePlace ?? "it")"
        case .badCertificateEnvironment: "the certificate is not valid for \(app.environment.text)"
        case .topicDisallowed, .badTopic, .topicMismatch:
            "the credential is not valid for \(topic); check the credential's team and the spelling of the bundle id"
        case .forbidden: "Apple refuses this provider; check the developer account"
        case .tooManyProviderTokenUpdates:
            "each run of a command creates a provider token, and Apple allows one in 20 minutes; wait for 20 minutes"

        case .tooManyRequests: "APNs received too many requests; try again in a minute"
        case .idleTimeout, .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            "APNs could not process the request; try again"
        case .none, .other: text(ofStatus: status, reason)
        }
    }

    private static func text(ofStatus status: Int, _ reason: ReasonCode) -> String? {
        switch status {
        case 403: "APNs refuses the credential"
        case 410: "the token is dead: delete the token, unless it was registered again since then"
        case 429: "APNs received too many requests; try again in a minute"
        case 500...: "APNs could not process the request; try again"
        case _ where AnswerOrigin.isForeign(UInt16(clamping: status), reason):
            "APNs gives a reason with each refusal, so this answer is probably not from APNs; check the host "
                + "and any proxy"
        default: nil
        }
    }

    private static func gatewayText(of word: String, _ binary: BinarySettings) -> String? {
        switch word {
        case "InvalidTokenSize": "a gateway accepts only device tokens of 32 bytes (64 hex digits)"
        case "InvalidTopicSize": "the gateway does not accept the topic in the client certificate"
        case "ProtocolError":
            "the gateway does not accept frames of binary.format: \(binary.format.rawValue); try an older format, "
                + "and check the host"
        case "ProcessingError", "UnknownError",
            _ where word.hasPrefix("GatewayStatus"):
            "the gateway has an internal error and gives no details; try again"
        default: nil
        }
    }
}
