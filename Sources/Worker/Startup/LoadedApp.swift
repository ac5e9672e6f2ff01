package import Configuration
package import Network
package import TLS

/// An app with its credential and trust loaded, ready to connect.
package struct LoadedApp: Sendable {
    package internal(set) var settings: AppSettings
    /// Trust, and the client certificate where the credential is one.
    package let context: ClientContext
    /// Signs provider tokens; `nil`: the client certificate says who sends.
    package let signingKey: SigningKey?
    /// What the client certificate says; `nil`: there is none.
    package let certificate: CertificateDetails?
    /// Which provider token the app sends; apps with the same share one, since Apple counts a key's tokens.
    let tokenIdentity: TokenIdentity?

    /// - Throws: `StartFailure` with a line for each file that cannot be used.
    package init(_ settings: AppSettings) throws(StartFailure) {
        self.settings = settings
        var lines: [String] = []
        var signingKey: SigningKey?
        var identity: Identity?
        do {
            switch settings.credential {
            case .token(let credential): signingKey = try credential.signingKey()
            case .certificate(let credential): identity = try credential.identity()
            }
        } catch {
            lines.append("app \(settings.name): \(error)")
        }
        let trust: Trust =
            !settings.verifiesHost ? .anyone : settings.caFile.map { .file($0) } ?? .system
        var context: ClientContext?
        do {
            context = try ClientContext(ClientOptions(trust: trust, identity: identity))
        } catch {
            lines.append("app \(settings.name): tls: \(error)")
        }
        guard lines.isEmpty, let context else { throw StartFailure(lines) }
        self.context = context
        self.signingKey = signingKey
        certificate = identity?.details
        tokenIdentity =
            if case .token(let credential) = settings.credential, let signingKey {
                TokenIdentity(
                    teamID: credential.teamID, keyID: credential.keyID, publicKey: signingKey.verificationKey.pem)
            } else {
                nil
            }
    }

    /// Loads every app; the failure has the lines of all that cannot be.
    package static func load(_ apps: [AppSettings]) throws(StartFailure) -> [LoadedApp] {
        var loaded: [LoadedApp] = []
        var lines: [String] = []
        for app in apps {
            do throws(StartFailure) {
                loaded.append(try LoadedApp(app))
            } catch {
                lines += error.lines
            }
        }
        guard lines.isEmpty else { throw StartFailure(lines) }
        return loaded
    }

    /// Whom to CONNECT through.
    package var proxy: DialTarget.Proxy? {
        settings.proxy.map { proxy in
            DialTarget.Proxy(
                host: proxy.host, port: UInt16(clamping: proxy.port),
                credentials: (try? proxy.credentials?.loadLine()) ?? "")
        }
    }
}

/// A team's key. The public half tells keys apart that a file held under the same id one after the other.
struct TokenIdentity: Hashable, Sendable {
    var teamID: String
    var keyID: String
    /// PEM.
    var publicKey: String
}

extension TokenCredential {
    fileprivate func signingKey() throws -> SigningKey {
        switch key {
        case .file(let path): try SigningKey(file: path)
        case .text(let pem): try SigningKey(pem: pem)
        }
    }
}

extension CertificateCredential {
    fileprivate func identity() throws -> Identity {
        let passphrase = try passphrase?.loadLine()
        switch form {
        case .pem(let certificate, let key):
            return try Identity(
                certificate: certificate.source("certificate.pem"), key: key?.source("certificate.key"),
                passphrase: passphrase)
        case .pkcs12(let bundle):
            return try Identity(pkcs12: bundle.source("certificate.pkcs12"), passphrase: passphrase)
        }
    }

    /// Where the certificate stands, for messages.
    var place: String {
        switch form {
        case .pem(let certificate, _): certificate.path ?? "certificate.pem"
        case .pkcs12(let bundle): bundle.path ?? "certificate.pkcs12"
        }
    }
}

extension Secret {
    fileprivate func source(_ name: String) -> CredentialSource {
        switch self {
        case .text(let text): .text(text, name: name)
        case .file(let path): .file(path)
        }
    }
}
