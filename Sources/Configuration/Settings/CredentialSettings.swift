/// A provider token's signing key (`.p8`) and what names it.
package struct TokenCredential: Hashable, Sendable {
    /// PEM.
    package var key: Secret
    package var keyID: String
    package var teamID: String

    package init(key: Secret, keyID: String, teamID: String) {
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
    }
}

/// A client certificate and its private key.
package struct CertificateCredential: Hashable, Sendable {
    package enum Form: Hashable, Sendable {
        /// PEM: ours first, then its chain; or a file in DER with ours alone. `key`: PEM; `nil`: it stands beside the
        /// certificate.
        case pem(certificate: Secret, key: Secret?)
        /// PKCS#12: a file of its bytes, or base64 where it stands in the configuration itself.
        case pkcs12(Secret)
    }

    package var form: Form
    /// Of the key or the PKCS#12 file; a line break at its end does not count. `nil`: neither is encrypted.
    package var passphrase: Secret?

    package init(_ form: Form, passphrase: Secret? = nil) {
        self.form = form
        self.passphrase = passphrase
    }
}

extension AppSettings.Credential {
    /// `token` or `certificate`; `nil` after it was said what is wrong.
    init?(reading section: inout Section) {
        var token: TokenCredential?
        var certificate: CertificateCredential?
        if var inner = section.value("token")?.section() {
            token = TokenCredential(reading: &inner)
            inner.finish()
        }
        if let value = section.value("certificate"), var inner = value.section() {
            certificate = CertificateCredential(reading: &inner)
            inner.finish()
            if section.has("token") { value.refuse("an app has either a token or a certificate") }
        }
        if !section.has("token"), !section.has("certificate") {
            section.reading.refuse(
                section.path(of: "token"), "is missing; an app has a token or a certificate", at: section.mark)
        }
        guard let credential = token.map(Self.token) ?? certificate.map(Self.certificate) else { return nil }
        self = credential
    }
}

extension TokenCredential {
    fileprivate init(reading section: inout Section) {
        self.init(key: .text(""), keyID: "", teamID: "")
        if let key = section.secret("key") {
            self.key = key
        } else if !section.has("key"), !section.has("key_file") {
            section.refuseMissing("key_file")
        }
        section.required("key_id", into: &keyID) { $0.text("Apple's 10 letters and digits", where: Self.isAppleID) }
        section.required("team_id", into: &teamID) { $0.text("Apple's 10 letters and digits", where: Self.isAppleID) }
    }

    private static func isAppleID(_ text: String) -> Bool {
        text.utf8.count == 10 && text.unicodeScalars.allSatisfy { $0.isASCIIWord && $0 != "_" }
    }
}

extension CertificateCredential {
    /// `nil` after it was said what is wrong.
    fileprivate init?(reading section: inout Section) {
        let file = section.value("file")
        let pem = section.value("pem")
        let key = section.secret("key")
        let pkcs12File = section.value("pkcs12_file")
        let pkcs12 = section.value("pkcs12")
        let passphrase = section.secret("passphrase")
        let sources = [file, pem, pkcs12File, pkcs12].compactMap(\.self)
        guard let source = sources.first else {
            section.reading.refuse(
                section.path(of: "file"), "is missing; a certificate comes from file, pem, pkcs12_file or pkcs12",
                at: section.mark)
            return nil
        }
        for other in sources.dropFirst() { other.refuse("give one of file, pem, pkcs12_file and pkcs12") }
        guard pkcs12File == nil, pkcs12 == nil else {
            for name in ["key", "key_file"] where section.has(name) {
                section.value(name)?.refuse("a PKCS#12 file holds the key too")
            }
            let text: Secret? =
                pkcs12File.map { $0.filePath().map { .file($0) } } ?? source.secretText().map { .text($0) }
            guard let text else { return nil }
            self.init(.pkcs12(text), passphrase: passphrase)
            return
        }
        let text: Secret? = file.map { $0.filePath().map { .file($0) } } ?? source.secretText().map { .text($0) }
        guard let text else { return nil }
        self.init(.pem(certificate: text, key: key), passphrase: passphrase)
    }
}
