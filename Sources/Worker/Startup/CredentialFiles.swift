package import Configuration
internal import TLS

extension AppSettings {
    /// The files of key, certificate, passphrase and CA, which is the system's bundle unless the app has its own. What
    /// stands in the configuration itself has none.
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
        let bundle = authorities == nil && verifiesHost ? SystemTrust.file : authorities?.path
        return secrets.compactMap { $0?.path } + [bundle].compactMap(\.self)
    }

    /// Whether `other` can use the connections of this one: it dials the same host in the same way, and has no further
    /// bundle id, which APNs would refuse on them.
    package func connects(like other: AppSettings) -> Bool {
        Set(bundleIDs).isSuperset(of: other.bundleIDs)
            && credential == other.credential && host == other.host && port == other.port && proxy == other.proxy
            && connections == other.connections && authorities == other.authorities
            && verifiesHost == other.verifiesHost
            && indexesAuthorization == other.indexesAuthorization && binary?.ofGateway == other.binary?.ofGateway
    }
}

extension BinarySettings {
    /// The settings without the feedback's, which connections to the gateway do not depend on.
    fileprivate var ofGateway: Self {
        var settings = self
        settings.feedback = nil
        return settings
    }
}
