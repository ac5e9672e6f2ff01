internal import COpenSSL

/// One owner of an `X509`. Immutable once made; any thread.
@safe final class Certificate: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(raw) }

    /// One in DER, as Apple's `.cer` files are.
    ///
    /// - Throws: `TLSError` of kind `credential` that begins with `name`.
    convenience init(der: [UInt8], name: String) throws(TLSError) {
        ErrorQueue.clear()
        // d2i_X509(3): the certificate is the caller's to free; NULL: it is none.
        let raw = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_X509(nil, &start, der.count)
        }
        guard let raw = unsafe raw else {
            ErrorQueue.clear()
            throw TLSError(
                .credential, "\(name): is DER, but no certificate; PKCS#12 (.p12, .pfx) belongs in pkcs12_file")
        }
        unsafe self.init(adopting: raw)
    }

    /// Whether these can be DER, and no PEM: a SEQUENCE longer than 127 bytes, whose length is no ASCII.
    static func isDER(_ bytes: [UInt8]) -> Bool { bytes.count > 1 && bytes[0] == 0x30 && bytes[1] > 0x80 }

    var pem: String? { unsafe writtenText { unsafe PEM_write_bio_X509($0, raw) } }
}

/// One owner of an `EVP_PKEY`. Immutable once made; any thread (EVP_PKEY(3): reading is thread-safe).
@safe final class PrivateKey: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe EVP_PKEY_free(raw) }

    /// A new key on P-256.
    static func generate() throws(TLSError) -> PrivateKey {
        guard let raw = unsafe openssl_generate_p256() else {
            throw TLSError(.credential, "a key cannot be generated: \(ErrorQueue.takeText())")
        }
        return unsafe PrivateKey(adopting: raw)
    }

    /// PKCS#8, not encrypted.
    var pem: String? { unsafe writtenText { unsafe PEM_write_bio_PrivateKey($0, raw, nil, nil, 0, nil, nil) } }

    var publicPEM: String? { unsafe writtenText { unsafe PEM_write_bio_PUBKEY($0, raw) } }

    /// `EC`, `RSA`, `ED25519`.
    var algorithm: String { unsafe EVP_PKEY_get0_type_name(raw).map { unsafe String(cString: $0) } ?? "unknown" }

    /// The name of an EC key's curve, `prime256v1`.
    var curve: String? {
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard unsafe EVP_PKEY_get_group_name(raw, &name, name.count, &count) == 1 else { return nil }
        return String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// Where a credential comes from.
package enum CredentialSource: Hashable, Sendable {
    case file(String)
    /// PEM, or base64 of PKCS#12; errors begin with `name` and never have the text.
    case text(String, name: String)
    /// What a file held when it was read: PEM, or PKCS#12 as it is. Errors begin with `name`.
    case bytes([UInt8], name: String)
}

extension CredentialSource {
    /// What a file holds; `nil`: it is a text.
    fileprivate func readBytes() throws(TLSError) -> (bytes: [UInt8], name: String)? {
        switch self {
        case .file(let path): (try readCredential(file: path), path)
        case .bytes(let bytes, let name): (bytes, name)
        case .text: nil
        }
    }
}

/// A certificate, its chain and its private key. Immutable; any thread.
package final class Identity: Sendable {
    let certificate: Certificate
    let chain: [Certificate]
    let key: PrivateKey

    /// From PEM. The first certificate is ours, the rest is its chain; `key` `nil`: it stands in the same text. A
    /// certificate may also be in DER, which has neither a chain nor a key.
    ///
    /// - Throws: `TLSError` of kind `credential` that begins with the source's name: cannot be read, neither PEM nor
    ///   DER, no certificate, no key, wrong or missing passphrase, key of another certificate.
    package convenience init(
        certificate: CredentialSource, key: CredentialSource? = nil, passphrase: String? = nil
    ) throws(TLSError) {
        if let (bytes, name) = try certificate.readBytes(), Certificate.isDER(bytes) {
            let own = try Certificate(der: bytes, name: name)
            guard let key else {
                throw TLSError(
                    .credential, "\(name): is a certificate in DER, which holds no private key: give key_file, too")
            }
            let keyPEM = try PEM(key)
            try self.init(
                certificate: own, chain: [], key: keyPEM.privateKey(passphrase: passphrase), name: keyPEM.name)
            return
        }
        let certificatePEM = try PEM(certificate)
        let keyPEM = if let key { try PEM(key) } else { certificatePEM }
        let certificates = try certificatePEM.certificates()
        try self.init(
            certificate: certificates[0], chain: Array(certificates.dropFirst()),
            key: keyPEM.privateKey(passphrase: passphrase), name: keyPEM.name)
    }

    /// The same from two texts, which may be one.
    package convenience init(certificatePEM: String, keyPEM: String, passphrase: String? = nil) throws(TLSError) {
        try self.init(
            certificate: .text(certificatePEM, name: "certificate"), key: .text(keyPEM, name: "key"),
            passphrase: passphrase)
    }

    /// From PKCS#12 (RFC 7292), as Keychain exports it. What OpenSSL 3 only decrypts with its legacy provider, it is
    /// asked for, in a library context of its own.
    ///
    /// - Throws: `TLSError` of kind `credential` that begins with the source's name: cannot be read, not PKCS#12, wrong
    ///   or missing passphrase, no certificate or key in it, an old cipher and no legacy provider.
    package convenience init(pkcs12: CredentialSource, passphrase: String? = nil) throws(TLSError) {
        let (bytes, name): ([UInt8], String)
        switch pkcs12 {
        case .file(let path): (bytes, name) = (try readCredential(file: path), path)
        case .bytes(let read, let source): (bytes, name) = (read, source)
        case .text(let text, let source):
            guard let decoded = decodedBase64(text) else { throw TLSError(.credential, "\(source): is not base64") }
            (bytes, name) = (decoded, source)
        }
        let parts = try PKCS12Bundle.parts(of: bytes, name: name, passphrase: passphrase)
        try self.init(certificate: parts.certificate, chain: parts.chain, key: parts.key, name: name)
    }

    init(certificate: Certificate, chain: [Certificate], key: PrivateKey, name: String) throws(TLSError) {
        ErrorQueue.clear()
        guard unsafe X509_check_private_key(certificate.raw, key.raw) == 1 else {
            ErrorQueue.clear()
            throw TLSError(.credential, "\(name): the private key is not the certificate's")
        }
        self.certificate = certificate
        self.chain = chain
        self.key = key
    }

    /// What its certificate says.
    package var details: CertificateDetails { CertificateDetails(certificate) }
}
