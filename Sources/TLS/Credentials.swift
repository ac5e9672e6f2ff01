internal import COpenSSL

/// One owner of an `X509`. Immutable once made; any thread.
@safe final class Certificate: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(raw) }

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

/// A certificate, its chain and its private key. Immutable; any thread.
package final class Identity: Sendable {
    let certificate: Certificate
    let chain: [Certificate]
    let key: PrivateKey

    /// From PEM text. The first certificate is ours, the rest is its chain; `keyPEM` may be the same text.
    ///
    /// - Throws: `TLSError` of kind `credential`: not PEM, no key, wrong or missing passphrase, key of another certificate.
    package convenience init(certificatePEM: String, keyPEM: String, passphrase: String? = nil) throws(TLSError) {
        try self.init(
            certificate: PEM(text: certificatePEM, name: "certificate"), key: PEM(text: keyPEM, name: "key"),
            passphrase: passphrase)
    }

    /// The same from files; errors name the file.
    package convenience init(certificateFile: String, keyFile: String, passphrase: String? = nil) throws(TLSError) {
        try self.init(
            certificate: PEM(file: certificateFile), key: PEM(file: keyFile), passphrase: passphrase)
    }

    private convenience init(certificate: PEM, key: PEM, passphrase: String?) throws(TLSError) {
        let certificates = try certificate.certificates()
        try self.init(
            certificate: certificates[0], chain: Array(certificates.dropFirst()),
            key: key.privateKey(passphrase: passphrase), name: "\(key.name)")
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
