internal import APNs
internal import Configuration
internal import PushRecords

extension CredentialProbe.Answer {
    /// Other bundle ids would be answered the same, or are better not asked for now.
    var isAboutAllTopics: Bool {
        switch reason {
        // A key may be for some topics only.
        case .topicMismatch, .unrelatedKeyIdInToken: false
        default: status == 403 || status == 429 || status >= 500
        }
    }
}

extension ConfigurationCheck.Finding {
    /// What the answer to a request for a token of zeros says of the credential. Source: Apple, "Handling notification
    /// responses from APNs".
    init(_ answer: CredentialProbe.Answer, to app: AppSettings, _ topic: String) {
        let said = "\(answer.status) \(answer.text ?? "without a reason")"
        let name = "app \(app.name)"
        switch answer.reason {
        case .badDeviceToken, .deviceTokenNotForTopic, .unregistered, .expiredToken:
            // It got as far as the token, which is nobody's.
            self.init(isFine: true, text: "\(name): the credential is accepted for \(topic) (\(said))")
        default:
            if answer.status == 200 {
                self.init(
                    isFine: true,
                    text:
                        "\(name): the credential is accepted for \(topic) (200 for a token of zeros, as a simulator says)"
                )
            } else {
                let advice = Self.advice(answer, app, topic).map { ": \($0)" } ?? ""
                self.init(isFine: false, text: "\(name): the probe for \(topic) was answered \(said)\(advice)")
            }
        }
    }

    /// What is wrong, or what to do.
    private static func advice(_ answer: CredentialProbe.Answer, _ app: AppSettings, _ topic: String) -> String? {
        switch answer.reason {
        case .invalidProviderToken:
            "key, key_id and team_id do not belong together, or the key was revoked"
        case .expiredProviderToken:
            "this machine's clock is wrong by more than the hour that a token lives"
        case .missingProviderToken:
            "APNs did not get the certificate; an app without one needs token"
        case .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken:
            "the key is not for \(app.environment.text), or not for this topic"
        case .badCertificate:
            "the certificate is not one for push notifications, or was revoked"
        case .badCertificateEnvironment:
            "the certificate is not for \(app.environment.text)"
        case .topicDisallowed, .badTopic, .missingTopic, .topicMismatch:
            "the credential is not for this bundle id"
        case .tooManyProviderTokenUpdates, .tooManyRequests:
            "APNs wants to be asked less often; try again in 20 minutes"
        case .forbidden:
            "Apple refuses this provider; look at the developer account"
        case .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            "APNs has a problem of its own; it says nothing about the credential"
        default:
            answer.status == 403 ? "the credential is refused" : nil
        }
    }
}
