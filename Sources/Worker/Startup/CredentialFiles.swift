package import Configuration
package import Delivery

/// Which files the apps' credentials and trust are read from, so that whoever watches them knows which apps to load
/// again when one changes.
package struct CredentialFiles: Hashable, Sendable {
    /// Each once, in the order of the apps.
    package private(set) var paths: [String] = []
    private var users: [String: [Int]] = [:]

    /// - Parameter apps: in the order of their indexes.
    package init(_ apps: [AppSettings]) {
        for (index, app) in apps.enumerated() {
            for path in app.credentialFiles where users[path]?.last != index {
                if users[path] == nil { paths.append(path) }
                users[path, default: []].append(index)
            }
        }
    }

    /// The apps that read any of these, in order.
    package func apps(using paths: [String]) -> [AppIndex] {
        Set(paths.flatMap { users[$0] ?? [] }).sorted().map { AppIndex($0) }
    }
}

extension AppSettings {
    /// Key, certificate, passphrase and CA files, in that order; those that stand in the configuration itself are none.
    var credentialFiles: [String] {
        let secrets: [Secret?] =
            switch credential {
            case .token(let token): [token.key]
            case .certificate(let certificate):
                switch certificate.form {
                case .pem(let text, let key): [text, key, certificate.passphrase]
                case .pkcs12(let bundle): [bundle, certificate.passphrase]
                }
            }
        return secrets.compactMap { $0?.path } + [authorities?.path].compactMap(\.self)
    }

    /// Whether `other` can go on with the connections of this one: it dials the same host in the same way, and has no
    /// bundle id beyond, which APNs would refuse on them. Then only what its files hold can ask for new connections.
    package func connects(like other: AppSettings) -> Bool {
        Set(bundleIDs).isSuperset(of: other.bundleIDs)
            && credential == other.credential && host == other.host && port == other.port && proxy == other.proxy
            && connections == other.connections && authorities == other.authorities
            && verifiesHost == other.verifiesHost
            && indexesAuthorization == other.indexesAuthorization && binary?.ofGateway == other.binary?.ofGateway
    }
}

extension BinarySettings {
    /// Without what only the feedback's reads look at: a connection to the gateway goes on when that changes.
    fileprivate var ofGateway: Self {
        var settings = self
        settings.feedback = nil
        return settings
    }
}
