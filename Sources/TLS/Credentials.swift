internal import COpenSSL

/// One owner of an `X509`. Immutable once made; any thread.
@safe final class Certificate: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes over the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(raw) }

    /// One in DER, as Apple's `.cer` files are.
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

    static func generate() throws(TLSError) -> PrivateKey {
        guard let raw = unsafe openssl_generate_p256() else {
            throw TLSError(.credential, "a key cannot be generated: \(ErrorQueue.takeText())")
        }
        return unsafe PrivateKey(adopting: raw)
    }

    /// From DER: PKCS#8 that is not encrypted, or the traditional form of its algorithm.
    convenience init?(der: [UInt8]) {
        guard der.first == 0x30 else { return nil }
        ErrorQueue.clear()
        defer { ErrorQueue.clear() }
        // d2i_AutoPrivateKey(3): the key is the caller's to free; NULL if it is none.
        let raw = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_AutoPrivateKey(nil, &start, der.count)
        }
        guard let raw = unsafe raw else { return nil }
        unsafe self.init(adopting: raw)
    }

    var pem: String? { unsafe writtenText { unsafe PEM_write_bio_PrivateKey($0, raw, nil, nil, 0, nil, nil) } }

    var publicPEM: String? { unsafe writtenText { unsafe PEM_write_bio_PUBKEY($0, raw) } }

    /// `EC`, `RSA`, `ED25519`.
    var algorithm: String { unsafe EVP_PKEY_get0_type_name(raw).map { unsafe String(cString: $0) } ?? "unknown" }

    var curve: String? {
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard unsafe EVP_PKEY_get_group_name(raw, &name, name.count, &count) == 1 else { return nil }
        return String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// The bytes of a credential. Errors begin with `name` and never have the bytes.
package struct CredentialSource: Hashable, Sendable {
    let bytes: [UInt8]
    let name: String

    /// PEM, or base64 of PKCS#12.
    package static func text(_ text: String, name: String) -> CredentialSource {
        CredentialSource(bytes: Array(text.utf8), name: name)
    }

    /// The contents of a file: PEM, DER or PKCS#12.
    package static func bytes(_ bytes: [UInt8], name: String) -> CredentialSource {
        CredentialSource(bytes: bytes, name: name)
    }
}

/// A certificate, its chain and its private key. Immutable; any thread.
package final class Identity: Sendable {
    let certificate: Certificate
    let chain: [Certificate]
    let key: PrivateKey

    /// From PEM. The first certificate is the own one, the rest is its chain. Without `key`, the key stands in the same
    /// text. A certificate may also be in DER, which has neither a chain nor a key.
    package convenience init(
        certificate: CredentialSource, key: CredentialSource? = nil, passphrase: String? = nil
    ) throws(TLSError) {
        let isDER = Certificate.isDER(certificate.bytes)
        let certificates =
            try isDER
            ? [Certificate(der: certificate.bytes, name: certificate.name)] : PEM(certificate).certificates()
        if isDER, key == nil {
            throw TLSError(
                .credential,
                "\(certificate.name): is a certificate in DER, which holds no private key: give key_file, too")
        }
        let keyPEM = PEM(key ?? certificate)
        try self.init(
            certificate: certificates[0], chain: Array(certificates.dropFirst()),
            key: keyPEM.privateKey(passphrase: passphrase), name: keyPEM.name)
    }

    package convenience init(certificatePEM: String, keyPEM: String, passphrase: String? = nil) throws(TLSError) {
        try self.init(
            certificate: .text(certificatePEM, name: "certificate"), key: .text(keyPEM, name: "key"),
            passphrase: passphrase)
    }

    /// From PKCS#12 (RFC 7292) as Keychain exports it, or base64 of it. What OpenSSL 3 only decrypts with its legacy
    /// provider is decrypted in a library context of its own.
    package convenience init(pkcs12 source: CredentialSource, passphrase: String? = nil) throws(TLSError) {
        let parts = try PKCS12Bundle(source.bytes, name: source.name).parts(passphrase: passphrase)
        try self.init(certificate: parts.certificate, chain: parts.chain, key: parts.key, name: source.name)
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

    package var details: CertificateDetails { CertificateDetails(certificate) }
}
