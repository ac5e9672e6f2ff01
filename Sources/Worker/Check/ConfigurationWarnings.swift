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
