internal import Configuration
internal import PushRecords

/// Warnings about a configuration that can be used but may not do what it seems to, a line each.
enum ConfigurationWarnings {
    /// Warns of keys with which apps of both environments send: since February 2025 a key may be for one of them only.
    static func ofKeys(_ apps: [AppSettings]) -> [String] {
        var users: [(key: [String], apps: [AppSettings])] = []
        for app in apps {
            guard case .token(let token) = app.credential else { continue }
            let key = [token.teamID, token.keyID]
            if let place = users.firstIndex(where: { $0.key == key }) {
                users[place].apps.append(app)
            } else {
                users.append((key, [app]))
            }
        }
        return users.compactMap { key, apps in
            guard let production = apps.first(where: { $0.environment == .production }),
                let development = apps.first(where: { $0.environment == .development })
            else { return nil }
            return
                "key \(key[1]) is used in production (app \(production.name)) and in development (app "
                + "\(development.name)): a key may be for one environment only, and APNs answers "
                + "BadEnvironmentKeyIdInToken in the other; --probe shows it"
        }
    }

    /// Warns of bundle ids that are another push type's topic.
    static func ofBundleIDs(_ app: AppSettings) -> [String] {
        app.bundleIDs.compactMap { id in
            guard let (bundleID, type) = split(id) else { return nil }
            let line = "app \(app.name): \(id) in bundle_ids is the topic of push type \(type.text)"
            if type == .location, case .certificate = app.credential {
                return "\(line), which Apple takes with a token only, and the app has a certificate"
            }
            return
                "\(line): give \(bundleID), whose topics are taken with it; without apns-push-type a request for \(id) "
                + "is of type alert, which APNs refuses there"
        }
    }

    /// Splits a topic with a push type's suffix into the bundle id and the push type.
    static func split(_ topic: String) -> (bundleID: Substring, PushType)? {
        for type in PushType.allCases {
            guard let suffix = type.topicSuffix, topic.hasSuffix(suffix), topic.count > suffix.count else { continue }
            return (topic.dropLast(suffix.count), type)
        }
        return nil
    }
}
