internal import APNs
internal import Configuration
internal import PushRecords
internal import TLS

/// What can be used as it is configured, and will not do what it seems to, a line each.
enum ConfigurationWarnings {
    /// Keys with which apps of both environments send: since February 2025 a key may be for one of them only.
    static func ofKeys(_ apps: [AppSettings]) -> [String] {
        var keys: [[String]] = []
        var users: [[String]: [AppSettings]] = [:]
        for app in apps {
            guard case .token(let token) = app.credential else { continue }
            let key = [token.teamID, token.keyID]
            if users[key] == nil { keys.append(key) }
            users[key, default: []].append(app)
        }
        return keys.compactMap { key in
            let apps = users[key] ?? []
            func first(_ environment: PushEnvironment) -> String? {
                apps.first { $0.environment == environment }?.name
            }
            guard let production = first(.production), let development = first(.development) else { return nil }
            return
                "key \(key[1]) is used in production (app \(production)) and in development (app \(development)): a key may "
                + "be for one environment only, and APNs answers BadEnvironmentKeyIdInToken in the other; --probe shows it"
        }
    }

    /// Bundle ids that are another push type's topic.
    static func ofBundleIDs(_ app: AppSettings) -> [String] {
        app.bundleIDs.compactMap { id in
            guard let (bundleID, type) = split(id) else { return nil }
            let line = "app \(app.name): \(id) in bundle_ids is the topic of push type \(type.text)"
            if type == .location, case .certificate = app.credential {
                return "\(line), which Apple takes with a token only, and the app has a certificate"
            }
            return
                "\(line): give \(bundleID), whose topics are taken with it; without apns-push-type a request for \(id) is of "
                + "type alert, which APNs refuses there"
        }
    }

    /// The bundle id and the push type whose topic a text is; `nil`: it has no push type's suffix.
    static func split(_ topic: String) -> (bundleID: Substring, PushType)? {
        for type in PushType.allCases {
            guard let suffix = type.topicSuffix, topic.hasSuffix(suffix), topic.count > suffix.count else { continue }
            return (topic.dropLast(suffix.count), type)
        }
        return nil
    }

    /// What a certificate that lists its topics can carry.
    static func ofCertificate(_ app: LoadedApp) -> String? {
        guard let topics = app.certificate?.topics, !topics.isEmpty else { return nil }
        return
            "app \(app.settings.name): the certificate is for the topics \(topics.joined(separator: ", ")); what has another one "
            + "is refused, and Apple takes push type location with a token only"
    }
}

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
