internal import COpenSSL

/// An owned reference to an `X509`. Immutable and thread-safe.
@safe final class Certificate: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes ownership of the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe X509_free(raw) }

    /// Parses a certificate in DER, such as Apple's `.cer` files.
    convenience init(der: [UInt8], name: String) throws(TLSError) {
        ErrorQueue.clear()
        // d2i_X509(3): the caller must free the certificate. NULL if the bytes are not a certificate.
        let raw = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_X509(nil, &start, der.count)
        }
        guard let raw = unsafe raw else {
            ErrorQueue.clear()
            throw TLSError(
                "\(name): is DER but not a certificate; for PKCS#12 (.p12, .pfx) use pkcs12_file")
        }
        unsafe self.init(adopting: raw)
    }

    /// Returns whether the bytes can be DER rather than PEM: they begin with a SEQUENCE longer than 127 bytes, whose
    /// length byte is not ASCII.
    static func isDER(_ bytes: [UInt8]) -> Bool { bytes.count > 1 && bytes[0] == 0x30 && bytes[1] > 0x80 }

    var pem: String? { unsafe writtenText { unsafe PEM_write_bio_X509($0, raw) } }
}

/// An owned reference to an `EVP_PKEY`. Immutable and thread-safe (EVP_PKEY(3): reading is thread-safe).
@safe final class PrivateKey: @unchecked Sendable {
    let raw: OpaquePointer

    /// Takes ownership of the caller's reference.
    init(adopting raw: OpaquePointer) { unsafe self.raw = raw }

    deinit { unsafe EVP_PKEY_free(raw) }

    static func generate() throws(TLSError) -> PrivateKey {
        guard let raw = unsafe openssl_generate_p256() else {
            throw TLSError("a key cannot be generated: \(ErrorQueue.takeText())")
        }
        return unsafe PrivateKey(adopting: raw)
    }

    /// Parses a private key in DER: unencrypted PKCS#8, or the traditional format of the key's algorithm.
    convenience init?(der: [UInt8]) {
        guard der.first == 0x30 else { return nil }
        ErrorQueue.clear()
        defer { ErrorQueue.clear() }
        // d2i_AutoPrivateKey(3): the caller must free the key. NULL if the bytes are not a key.
        let raw = unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            return unsafe d2i_AutoPrivateKey(nil, &start, der.count)
        }
        guard let raw = unsafe raw else { return nil }
        unsafe self.init(adopting: raw)
    }

    var pem: String? { unsafe writtenText { unsafe PEM_write_bio_PrivateKey($0, raw, nil, nil, 0, nil, nil) } }

    var publicPEM: String? { unsafe writtenText { unsafe PEM_write_bio_PUBKEY($0, raw) } }

    /// The name of the algorithm, such as `EC`, `RSA` or `ED25519`.
    var algorithm: String { unsafe EVP_PKEY_get0_type_name(raw).map { unsafe String(cString: $0) } ?? "unknown" }

    var curve: String? {
        var name = [CChar](repeating: 0, count: 80)
        var count = 0
        guard unsafe EVP_PKEY_get_group_name(raw, &name, name.count, &count) == 1 else { return nil }
        return String(decoding: name.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// The bytes of a credential. Error texts begin with `name` and never contain the bytes.
package struct CredentialSource: Hashable, Sendable {
    let bytes: [UInt8]
    let name: String

    /// Creates a source from PEM, or base64 of PKCS#12.
    package static func text(_ text: String, name: String) -> CredentialSource {
        CredentialSource(bytes: Array(text.utf8), name: name)
    }

    /// Creates a source from the contents of a file: PEM, DER or PKCS#12.
    package static func bytes(_ bytes: [UInt8], name: String) -> CredentialSource {
        CredentialSource(bytes: bytes, name: name)
    }
}

/// A certificate, its chain and its private key. Immutable and thread-safe.
package final class Identity: Sendable {
    let certificate: Certificate
    let chain: [Certificate]
    let key: PrivateKey

    /// Parses PEM. The first certificate is the leaf, and the other certificates are its chain. Without `key`, the text
    /// of `certificate` must also contain the key. A certificate may also be in DER, which has neither a chain nor a
    /// key.
    package convenience init(
        certificate: CredentialSource, key: CredentialSource? = nil, passphrase: String? = nil
    ) throws(TLSError) {
        let isDER = Certificate.isDER(certificate.bytes)
        let certificates =
            try isDER
            ? [Certificate(der: certificate.bytes, name: certificate.name)] : PEM(certificate).certificates()
        if isDER, key == nil {
            throw TLSError(
                "\(certificate.name): is a certificate in DER, which cannot contain a private key; set key_file too")
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

    /// Parses PKCS#12 (RFC 7292) as exported by Keychain, or base64 of it. If OpenSSL 3 needs its legacy provider to
    /// decrypt the bundle, the provider is loaded into a separate library context.
    package convenience init(pkcs12 source: CredentialSource, passphrase: String? = nil) throws(TLSError) {
        let parts = try PKCS12Bundle(source.bytes, name: source.name).parts(passphrase: passphrase)
        try self.init(certificate: parts.certificate, chain: parts.chain, key: parts.key, name: source.name)
    }

    init(certificate: Certificate, chain: [Certificate], key: PrivateKey, name: String) throws(TLSError) {
        ErrorQueue.clear()
        guard unsafe X509_check_private_key(certificate.raw, key.raw) == 1 else {
            ErrorQueue.clear()
            throw TLSError("\(name): the private key does not match the certificate")
        }
        self.certificate = certificate
        self.chain = chain
        self.key = key
    }

    package var details: CertificateDetails { CertificateDetails(certificate) }
}
