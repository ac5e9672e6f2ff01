internal import APNs
package import Configuration
internal import EventLoop
package import Network
internal import PushRecords
package import TLS

/// An app with its loaded credential and trusted CAs, ready to connect unless it has faults.
package struct LoadedApp: Sendable {
    package internal(set) var settings: AppSettings
    /// The reasons why the app's credential, proxy or CA certificates cannot be used, one line each. An app with faults
    /// has no transport.
    package let faults: [String]
    /// The TLS context with the trusted CAs and, if the app has one, the client certificate.
    package let context: ClientContext
    /// The key that signs provider tokens, or `nil` if the app has a client certificate or the key cannot be used.
    package let signingKey: SigningKey?
    package let certificate: CertificateDetails?
    package let proxy: DialTarget.Proxy?
    /// The app's host, through its proxy.
    var target: DialTarget {
        DialTarget(host: settings.host, port: UInt16(clamping: settings.port), proxy: proxy)
    }
    /// The hashes (`FileWatch.hash`) of the contents that were read from the app's files, by path.
    let fileHashes: [String: UInt64]

    /// - Parameter allowsFaults: Whether to create an app with `faults` instead of throwing.
    /// - Throws: `StartFailure` with a line for each fault, unless `allowsFaults`.
    package init(_ settings: AppSettings, allowsFaults: Bool = false) throws(StartFailure) {
        self.settings = settings
        var lines: [String] = []
        var signingKey: SigningKey?
        var identity: Identity?
        var files = ReadFiles()
        /// Returns the result of `body`, or adds a line about the error that `body` throws.
        func load<T>(_ part: String, _ body: () throws -> T) -> T? {
            do {
                return try body()
            } catch {
                lines.append("app \(settings.name): \(part)\(error)")
                return nil
            }
        }
        _ = load("") {
            switch settings.credential {
            case .token(let credential): signingKey = try SigningKey(files.source(credential.key, "token.key"))
            case .certificate(let credential): identity = try credential.identity(&files)
            }
        }
        proxy =
            load("proxy: ") {
                try settings.proxy.map { proxy in
                    DialTarget.Proxy(
                        host: proxy.host, port: UInt16(clamping: proxy.port),
                        credentials: try proxy.credentials.map { try files.line($0) } ?? "")
                }
            } ?? nil
        var context = load("tls: ") {
            let trust: Trust =
                !settings.verifiesHost
                ? .anyone : try settings.authorities.map { try files.trust($0) } ?? files.systemTrust()
            // The binary protocol is older than ALPN, and its servers do not negotiate a protocol.
            let alpn = settings.binary == nil ? ["h2"] : []
            return try ClientContext(trust: trust, alpn: alpn, identity: identity)
        }
        faults = lines
        if allowsFaults, context == nil { context = try? ClientContext(alpn: []) }
        guard allowsFaults || lines.isEmpty, let context else { throw StartFailure(lines) }
        self.context = context
        self.signingKey = signingKey
        fileHashes = files.hashes
        certificate = identity?.details
    }

    /// Loads every app. Throws the errors of the apps that cannot be loaded and for which `allowingFaults` is false.
    package static func load(
        _ apps: [AppSettings], allowingFaults: (AppSettings) -> Bool = { _ in false }
    ) throws(StartFailure) -> [LoadedApp] {
        var lines: [String] = []
        let loaded = apps.compactMap { app in
            do throws(StartFailure) { return try LoadedApp(app, allowsFaults: allowingFaults(app)) } catch {
                lines += error.lines
                return nil
            }
        }
        guard lines.isEmpty else { throw StartFailure(lines) }
        return loaded
    }
}

/// Reads files and stores the hashes of their contents, for comparison by `FileWatch`.
private struct ReadFiles {
    private(set) var hashes: [String: UInt64] = [:]

    private mutating func bytes(_ secret: Secret) throws(TLSError) -> [UInt8] {
        switch secret {
        case .text(let text): Array(text.utf8)
        case .file(let path): try bytes(path)
        }
    }

    private mutating func bytes(_ path: String) throws(TLSError) -> [UInt8] {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try readFile(path) } catch {
            throw TLSError("\(path): cannot be read: \(error.reason)")
        }
        // A file that is both certificate and key is read twice, and may change between the two reads. `FileWatch`
        // notices the change, because only the first hash is kept.
        hashes[path] = hashes[path] ?? FileWatch.hash(of: bytes)
        return bytes
    }

    mutating func trust(_ authorities: Secret) throws(TLSError) -> Trust {
        .pem(String(decoding: try bytes(authorities), as: UTF8.self), name: authorities.path ?? "ca")
    }

    /// Returns the system's CA certificates. OpenSSL reads the bundle itself. This method hashes the bundle so that the
    /// watch detects updates.
    mutating func systemTrust() -> Trust {
        _ = try? bytes(SystemTrust.file)
        return .system
    }

    mutating func source(_ secret: Secret, _ name: String) throws(TLSError) -> CredentialSource {
        .bytes(try bytes(secret), name: secret.path ?? name)
    }

    /// Returns a passphrase or the proxy's credentials, without line breaks at the end.
    mutating func line(_ secret: Secret) throws(TLSError) -> String {
        Secret.line(in: try bytes(secret))
    }
}

extension CertificateCredential {
    fileprivate func identity(_ files: inout ReadFiles) throws -> Identity {
        let passphrase = try passphrase.map { try files.line($0) }
        switch form {
        case .pem(let certificate, let key):
            return try Identity(
                certificate: files.source(certificate, "certificate.pem"),
                key: key.map { try files.source($0, "certificate.key") }, passphrase: passphrase)
        case .pkcs12(let bundle):
            return try Identity(pkcs12: files.source(bundle, "certificate.pkcs12"), passphrase: passphrase)
        }
    }
}

/// Provider tokens, one for each key, because Apple limits how often a token may change. Not thread-safe.
final class ProviderTokens {
    /// The tokens by team, key id and public key, which distinguishes successive keys with the same id. Includes
    /// replaced keys, because Apple may refuse another new token if a replaced key is soon used again.
    private var tokens: [[String]: ProviderToken] = [:]

    /// Returns the app's provider token, or `nil` if the app has a certificate.
    func token(of app: LoadedApp) -> ProviderToken? {
        guard case .token(let credential) = app.settings.credential, let key = app.signingKey else { return nil }
        let identity = [credential.teamID, credential.keyID, key.verificationKey.pem]
        if let token = tokens[identity] { return token }
        let token = ProviderToken(keyID: credential.keyID, teamID: credential.teamID, key: key)
        tokens[identity] = token
        return token
    }
}

extension AppSettings {
    /// The path or the configuration key of the app's certificate, or `nil` if the app has a key instead.
    var certificatePlace: String? {
        guard case .certificate(let credential) = credential else { return nil }
        return switch credential.form {
        case .pem(let certificate, _): certificate.path ?? "certificate.pem"
        case .pkcs12(let bundle): bundle.path ?? "certificate.pkcs12"
        }
    }

    /// The paths of the app's key, certificate, passphrase and CA files (by default the system's CA bundle). Secrets
    /// given directly in the configuration have no path.
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

    /// Returns whether `other` can use this app's connections: `other` has the same connection settings and no
    /// additional bundle id, which APNs would refuse on an existing connection.
    package func connects(like other: AppSettings) -> Bool {
        // Connections to the gateway do not depend on the settings of the feedback service.
        var (binary, otherBinary) = (self.binary, other.binary)
        binary?.feedback = nil
        otherBinary?.feedback = nil
        return Set(bundleIDs).isSuperset(of: other.bundleIDs)
            && credential == other.credential && host == other.host && port == other.port && proxy == other.proxy
            && connections == other.connections && authorities == other.authorities
            && verifiesHost == other.verifiesHost && indexesAuthorization == other.indexesAuthorization
            && binary == otherBinary
    }
}

// MARK: Certificates

extension LoadedApp {
    /// Returns a line for each reason why Apple will refuse the app's certificate, or why the worker cannot verify
    /// Apple's certificate. The worker loads the app anyway, because an app that cannot send must not stop other apps.
    package func certificateFaults(nowMs: Int64) -> [String] {
        var lines: [String] = []
        if settings.verifiesHost, settings.authorities == nil, SystemTrust.isEmpty {
            lines.append(
                "app \(settings.name): no host can be trusted, because there is no CA certificate in \(SystemTrust.file): "
                    + "install ca-certificates, or set tls.ca_file")
        }
        guard let certificate, let place = settings.certificatePlace else { return lines }
        let name = "app \(settings.name): the certificate in \(place)"
        if certificate.notAfterMs <= nowMs {
            lines.append("\(name) expired on \(certificate.notAfterDay): replace it")
        } else if certificate.notBeforeMs > nowMs {
            lines.append("\(name) is not valid before \(certificate.notBeforeDay): check this machine's clock")
        }
        let topics = certificate.topics.isEmpty ? certificate.userID.map { [$0] } ?? [] : certificate.topics
        // A topic is the bundle id, with or without the suffix of a push type: `com.example.shop.voip`.
        for id in settings.bundleIDs
        where !topics.isEmpty && !topics.contains(where: { $0 == id || $0.hasPrefix("\(id).") }) {
            lines.append("\(name) is for \(topics.joined(separator: ", ")), not for \(id) (bundle_ids)")
        }
        let isMarked = certificate.isForDevelopment || certificate.isForProduction
        let isRight =
            settings.environment == .production ? certificate.isForProduction : certificate.isForDevelopment
        if isMarked && !isRight {
            lines.append(
                "\(name) is for \(certificate.isForProduction ? "production" : "development"), but the app's "
                    + "environment is \(settings.environment.text)")
        }
        return lines
    }

    /// Returns a warning if the app's certificate expires within 30 days, otherwise `nil`.
    package func certificateWarning(nowMs: Int64) -> String? {
        guard let certificate, let place = settings.certificatePlace else { return nil }
        let leftMs = certificate.notAfterMs - nowMs
        guard leftMs > 0, leftMs <= 30 * 86_400_000 else { return nil }
        return "app \(settings.name): the certificate in \(place) expires on \(certificate.notAfterDay), in "
            + "\(leftMs / 86_400_000) days"
    }
}
