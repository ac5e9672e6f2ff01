/// The key that signs provider tokens (`.p8`), with its key id and the team id.
package struct TokenCredential: Hashable, Sendable {
    package var key: Secret
    package var keyID: String
    package var teamID: String
}

package struct CertificateCredential: Hashable, Sendable {
    package enum Form: Hashable, Sendable {
        /// The certificate and its chain in PEM, or the certificate in DER. `key` is `nil` if the certificate's file
        /// also contains the key.
        case pem(certificate: Secret, key: Secret?)
        /// A PKCS#12 file, or its content as base64 in the configuration itself.
        case pkcs12(Secret)
    }

    package var form: Form
    /// The passphrase of the key or of the PKCS#12 file, or `nil` if neither is encrypted.
    package var passphrase: Secret?
}

extension AppSettings.Credential {
    /// Reads the app's `token` or `certificate`, and reports invalid values. Returns `nil` if neither can be read.
    init?(reading section: inout Section) {
        let token = section.value("token")?.section { TokenCredential(reading: &$0) }
        let value = section.value("certificate")
        let certificate = value?.section { CertificateCredential(reading: &$0) }
        if section.has("token") { value?.refuse("give either a token or a certificate, not both") }
        if !section.has("token", "certificate") {
            section.refuseMissing("token", "; an app needs a token or a certificate")
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
        } else if !section.has("key", "key_file") {
            section.refuseMissing("key_file")
        }
        section.required("key_id", into: &keyID) { $0.text("an id of 10 letters and digits", where: Self.isAppleID) }
        section.required("team_id", into: &teamID) { $0.text("an id of 10 letters and digits", where: Self.isAppleID) }
    }

    private static func isAppleID(_ text: String) -> Bool {
        text.utf8.count == 10 && text.unicodeScalars.allSatisfy { $0.isASCIIWord && $0 != "_" }
    }
}

extension CertificateCredential {
    /// Returns `nil` after rejecting an invalid certificate setting.
    fileprivate init?(reading section: inout Section) {
        let pem = section.secret("pem", file: "file")
        let key = section.secret("key")
        let pkcs12 = section.secret("pkcs12")
        let passphrase = section.secret("passphrase")
        switch (section.has("pem", "file"), section.has("pkcs12", "pkcs12_file")) {
        case (false, false):
            section.refuseMissing("file", "; a certificate needs file, pem, pkcs12_file or pkcs12")
            return nil
        case (true, true):
            section.refuse(anyOf: ["pkcs12_file", "pkcs12"], "give only one of file, pem, pkcs12_file and pkcs12")
            return nil
        case (true, false):
            guard let pem else { return nil }
            self.init(form: .pem(certificate: pem, key: key), passphrase: passphrase)
        case (false, true):
            section.refuse(anyOf: ["key", "key_file"], "a PKCS#12 file also contains the key")
            guard let pkcs12 else { return nil }
            self.init(form: .pkcs12(pkcs12), passphrase: passphrase)
        }
    }
}
