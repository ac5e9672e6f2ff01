package import Configuration
internal import Delivery
package import PushRecords

/// What a refusal means for someone who sends by hand, and what to do about it; one line without a full stop. Source:
/// Apple, "Handling notification responses from APNs" and "Handling error responses from Apple Push Notification
/// service".
package struct RefusalAdvice: Equatable, Sendable {
    /// What a refusal is about.
    enum Subject: Sendable { case device, request, credential, service }

    let subject: Subject
    let text: String

    /// - Parameters:
    ///   - reason: Apple's word; `nil`: the answer had none that could be read.
    ///   - status: as the answer had it; of an app of the binary protocol, the gateway's.
    ///   - topic: the `apns-topic` that was sent.
    ///   - isOtherTried: a token that is bad here was sent to the app of the other environment as well.
    /// - Returns: `nil`: nothing is known of such a refusal.
    package static func text(
        _ reason: Reason?, status: Int, topic: String, of app: AppSettings, isOtherTried: Bool = false
    ) -> String? {
        // What had none has its status as the reason in a result.
        guard let reason, reason.rawValue != "HTTP \(status)" else {
            return of(.none, status: status, topic, app)?.text
        }
        guard let code = ReasonCode(reason.rawValue) else {
            let known = app.binary.flatMap { ofGateway(reason.rawValue, $0) }
            return (known ?? of(.other, status: status, topic, app))?.text
        }
        return of(code, status: status, topic, app, isOtherTried: isOtherTried)?.text
    }

    /// What may be done about a reason that is known by name.
    static func of(
        _ reason: ReasonCode, status: Int, _ topic: String, _ app: AppSettings, isOtherTried: Bool = false
    ) -> RefusalAdvice? {
        func device(_ text: String) -> Self { Self(subject: .device, text: text) }
        func request(_ text: String) -> Self { Self(subject: .request, text: text) }
        func credential(_ text: String) -> Self { Self(subject: .credential, text: text) }
        func service(_ text: String) -> Self { Self(subject: .service, text: text) }
        return switch reason {
        case .badDeviceToken where isOtherTried:
            device("no device of either environment has that token: is it cut short, or of another team's app?")
        case .badDeviceToken: device(badToken(app))
        case .deviceTokenNotForTopic:
            device(
                "the token belongs to another app than \(topic); the topic is the bundle id of the app that registered, with the suffix of the push type where that has one"
            )
        case .unregistered:
            device(
                "the app was removed from the device, or the token was replaced: delete it, unless it was registered again since"
            )
        case .expiredToken: device("the token expired: delete it, unless it was registered again since")
        case .missingDeviceToken where app.binary != nil:
            device("a gateway of the binary protocol takes notifications for one device, no broadcasts")

        case .badCollapseId: request("an apns-collapse-id has at most 64 bytes")
        case .badExpirationDate: request("apns-expiration is seconds since 1970, or 0")
        case .badMessageId: request("an apns-id is a UUID: 32 hex digits in groups of 8-4-4-4-12")
        case .badPriority: request("apns-priority is 10, 5 or 1; a background push takes 5 only")
        case .invalidPushType:
            request(
                "apns-push-type does not fit what the payload asks for, or the topic's suffix, or is not one of Apple's"
            )
        case .missingPushType: request("a broadcast names its apns-push-type, liveactivity")
        case .missingTopic where app.binary != nil: credential("the client certificate names no topic")
        case .missingTopic: request("with a key, or a certificate for several topics, a request names its topic")
        case .payloadEmpty: request("the payload is empty; an alert has at least {\"aps\":{\"alert\":\"Hi\"}}")
        case .payloadTooLarge: request(tooLarge(app))
        case .badRequestPayload:
            request("the payload is not what a Live Activity takes: aps has timestamp, event and content-state")
        case .missingDeviceToken, .badPath, .methodNotAllowed, .duplicateHeaders, .missingChannelId, .badRequestParams:
            request(
                "the request did not arrive as it was sent; is a proxy between here and APNs, or the host not APNs?")
        case .badChannelId:
            request("that is no channel id: write it as `apns-worker channels` create and list print it, in base64")
        case .channelNotRegistered:
            request(
                "\(topic) has no such channel in \(app.environment.text): it was deleted, or is another app's or the other environment's; `apns-worker channels list` tells which there are"
            )
        case .cannotCreateChannelConfig:
            request(
                "\(topic) has all the channels that Apple allows (10,000 in each environment): delete those whose event is over"
            )
        case .featureNotEnabled:
            request(
                "broadcast is not set up for \(topic): at developer.apple.com, turn on Broadcast Capability of its identifier's Push Notifications"
            )

        case .invalidProviderToken:
            credential("key, key_id and team_id do not belong together, or the key was revoked")
        case .expiredProviderToken:
            credential("this machine's clock is wrong by more than the hour that a token lives")
        case .missingProviderToken: credential("APNs did not get the certificate; an app without one needs token")
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            credential("the key is not for \(app.environment.text), or not for \(topic)")
        case .badCertificate: credential("the certificate is not one for push notifications, or was revoked")
        case .badCertificateEnvironment: credential("the certificate is not for \(app.environment.text)")
        case .topicDisallowed, .badTopic, .topicMismatch:
            credential(
                "the credential is not for \(topic); look at the key's team and at how the bundle id is written")
        case .forbidden: credential("Apple refuses this provider; look at the developer account")
        case .tooManyProviderTokenUpdates:
            credential("every call makes a provider token, and Apple wants one in 20 minutes at most; try again then")

        case .tooManyRequests: service("APNs wants to be asked less often; try again in a minute")
        case .idleTimeout, .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            service("APNs has a problem of its own; try again")
        case .none, .other: ofStatus(status, reason)
        }
    }

    /// Of a refusal without a reason, or with one that is not known.
    private static func ofStatus(_ status: Int, _ reason: ReasonCode) -> RefusalAdvice? {
        switch status {
        case 403: RefusalAdvice(subject: .credential, text: "the credential is refused")
        case 410:
            RefusalAdvice(subject: .device, text: "the token is dead: delete it, unless it was registered again since")
        case 429:
            RefusalAdvice(subject: .service, text: "APNs wants to be asked less often; try again in a minute")
        case 500...: RefusalAdvice(subject: .service, text: "APNs has a problem of its own; try again")
        case _ where AnswerOrigin.isForeign(UInt16(clamping: status), reason):
            RefusalAdvice(
                subject: .service,
                text:
                    "APNs gives a reason with each refusal, so this is hardly its answer: look at what the host is, and at proxies on the way"
            )
        default: nil
        }
    }

    private static func badToken(_ app: AppSettings) -> String {
        let other: PushEnvironment = app.environment == .production ? .development : .production
        return
            "no device of \(app.environment.text) has that token: a build from Xcode has one of development, TestFlight and the App Store of production (try \(other.text)); or it is cut short"
    }

    private static func tooLarge(_ app: AppSettings) -> String {
        guard let binary = app.binary else { return "a payload has at most 4,096 bytes, 5,120 for voip and broadcasts" }
        return
            "a payload has at most \(binary.payloadLimit) bytes here (binary.payload_limit); where the gateway itself refused a shorter one, lower that (256 before iOS 8)"
    }

    /// The binary protocol's own words.
    private static func ofGateway(_ word: String, _ binary: BinarySettings) -> RefusalAdvice? {
        switch word {
        case "InvalidTokenSize":
            RefusalAdvice(subject: .device, text: "a gateway takes device tokens of 32 bytes, 64 hex digits")
        case "InvalidTopicSize":
            RefusalAdvice(
                subject: .credential, text: "the topic in the client certificate is not one that the gateway takes")
        case "ProtocolError":
            RefusalAdvice(
                subject: .request,
                text:
                    "the gateway does not read frames of binary.format: \(binary.format.rawValue); try an older format, and look at what the host is"
            )
        case "ProcessingError", "UnknownError",
            _ where word.hasPrefix("GatewayStatus"):
            RefusalAdvice(subject: .service, text: "the gateway has a problem of its own, and says no more; try again")
        default: nil
        }
    }
}
