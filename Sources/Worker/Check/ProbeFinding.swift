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
            self.init(.fine, "\(name): the credential is accepted for \(topic) (\(said))")
        default:
            if answer.status == 200 {
                self.init(
                    .fine,
                    "\(name): the credential is accepted for \(topic) (200 for a token of zeros, as a simulator says)"
                )
            } else {
                let advice = Self.advice(answer, app, topic).map { ": \($0)" } ?? ""
                self.init(.notFine, "\(name): the probe for \(topic) was answered \(said)\(advice)")
            }
        }
    }

    /// What is wrong, or what to do.
    private static func advice(_ answer: CredentialProbe.Answer, _ app: AppSettings, _ topic: String) -> String? {
        let status = Int(answer.status)
        if answer.reason == .invalidPushType, let (bundleID, type) = ConfigurationWarnings.split(topic) {
            return
                "it is the topic of push type \(type.text), and the probe is an alert: give \(bundleID) in bundle_ids"
        }
        return RefusalAdvice.of(answer.reason, status: status, topic, app).map { advice in
            advice.subject == .service ? "\(advice.text); it says nothing about the credential" : advice.text
        }
    }
}
