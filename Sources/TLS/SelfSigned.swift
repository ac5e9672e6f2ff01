internal import COpenSSL

/// Keys for the simulator, the demo and tests. Never use them in production.
package enum SelfSigned {
    /// Returns a new EC P-256 private key in the format of Apple's `.p8` files (unencrypted PKCS#8 in PEM).
    package static func privateKey() throws(TLSError) -> String {
        guard let pem = try PrivateKey.generate().pem else { throw failed() }
        return pem
    }

    fileprivate static func failed() -> TLSError {
        TLSError("cannot create a certificate: \(ErrorQueue.takeText())")
    }
}

/// A temporary certificate authority for the simulator, the demo and tests. All keys are EC P-256.
package struct CertificateAuthority: Sendable {
    package let certificatePEM: String
    package let keyPEM: String
    private let certificate: Certificate
    private let key: PrivateKey

    /// Creates an authority that is valid for ten years.
    package init(commonName: String = "apns-worker test CA") throws(TLSError) {
        let key = try PrivateKey.generate()
        let certificate = try build(
            subject: [("CN", commonName)],
            extensions: [
                (NID_basic_constraints, "critical,CA:TRUE"), (NID_key_usage, "critical,keyCertSign,cRLSign"),
                (NID_subject_key_identifier, "hash"),
            ], days: 3650, key: key, issuer: nil, issuerKey: key)
        guard let certificatePEM = certificate.pem, let keyPEM = key.pem else { throw SelfSigned.failed() }
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
        self.certificate = certificate
        self.key = key
    }

    /// Restores an existing authority from its certificate and key.
    package init(certificatePEM: String, keyPEM: String) throws(TLSError) {
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
        certificate = try PEM(text: certificatePEM, name: "CA certificate").certificates()[0]
        key = try PEM(text: keyPEM, name: "CA key").privateKey(passphrase: nil)
    }

    package struct Issued: Sendable {
        package var certificatePEM: String
        package var keyPEM: String

        package func identity() throws(TLSError) -> Identity {
            try Identity(certificatePEM: certificatePEM, keyPEM: keyPEM)
        }
    }

    /// Returns a server certificate for these names and, unless `isLocal` is false, `localhost`, `127.0.0.1` and `::1`.
    /// If `validForDays` is negative, the certificate is expired.
    package func issueServer(
        names: [String] = [], isLocal: Bool = true, validForDays: Int = 825
    ) throws(TLSError) -> Issued {
        let names = (isLocal ? ["localhost", "127.0.0.1", "::1"] : []) + names
        let alternatives = names.map { name in
            let isAddress = name.contains(":") || name.utf8.allSatisfy { 0x30...0x39 ~= $0 || $0 == 0x2E }
            return isAddress ? "IP:\(name)" : "DNS:\(name)"
        }.joined(separator: ",")
        return try issue(
            subject: [("CN", names.first ?? "localhost")],
            extensions: [(NID_ext_key_usage, "serverAuth"), (NID_subject_alt_name, alternatives)], days: validForDays)
    }

    /// Returns a client certificate like Apple's, with the bundle id as the subject's `UID`.
    package func issueClient(bundleID: String, validForDays: Int = 395) throws(TLSError) -> Issued {
        try issue(
            subject: [("UID", bundleID), ("CN", "Apple Push Services: \(bundleID)")],
            extensions: [(NID_ext_key_usage, "clientAuth")], days: validForDays)
    }

    private func issue(
        subject: [(field: String, value: String)], extensions: [(identifier: Int32, value: String)], days: Int
    ) throws(TLSError) -> Issued {
        let ours = try PrivateKey.generate()
        let issued = try build(
            subject: subject, extensions: [(NID_basic_constraints, "critical,CA:FALSE")] + extensions, days: days,
            key: ours, issuer: certificate, issuerKey: key)
        guard let certificatePEM = issued.pem, let keyPEM = ours.pem else { throw SelfSigned.failed() }
        return Issued(certificatePEM: certificatePEM, keyPEM: keyPEM)
    }
}

/// Builds a certificate. Extensions use the syntax of x509v3_config(5). Without an issuer, the certificate is
/// self-signed.
private func build(
    subject: [(field: String, value: String)], extensions: [(identifier: Int32, value: String)], days: Int,
    key: PrivateKey, issuer: Certificate?, issuerKey: PrivateKey
) throws(TLSError) -> Certificate {
    ErrorQueue.clear()
    guard let raw = unsafe X509_new() else { throw SelfSigned.failed() }
    let certificate = unsafe Certificate(adopting: raw)
    let issuerRaw = unsafe issuer?.raw ?? raw
    let name = unsafe X509_get_subject_name(raw)
    // The validity begins a day before now, because clocks differ. A certificate with negative `days` was valid for one
    // day.
    let startDays = min(-1, days - 1)
    // X509 versions count from 0, so 2 means version 3.
    let isBuilt =
        unsafe X509_set_version(raw, 2) == 1
        && ASN1_INTEGER_set_uint64(X509_get_serialNumber(raw), .random(in: 1...UInt64(Int64.max))) == 1
        && X509_gmtime_adj(X509_getm_notBefore(raw), startDays * 86_400) != nil
        && X509_gmtime_adj(X509_getm_notAfter(raw), days * 86_400) != nil && X509_set_pubkey(raw, key.raw) == 1
        && subject.allSatisfy { field, value in
            unsafe X509_NAME_add_entry_by_txt(name, field, MBSTRING_FLAG | 0x1000, value, -1, -1, 0) == 1
        } && X509_set_issuer_name(raw, X509_get_subject_name(issuerRaw)) == 1
        && extensions.allSatisfy { unsafe add($0.identifier, $0.value, to: raw, issuer: issuerRaw) }
        && X509_sign(raw, issuerKey.raw, EVP_sha256()) > 0
    guard isBuilt else { throw SelfSigned.failed() }
    return certificate
}

private func add(_ identifier: Int32, _ value: String, to raw: OpaquePointer, issuer: OpaquePointer) -> Bool {
    var context = unsafe X509V3_CTX()
    unsafe X509V3_set_ctx(&context, issuer, raw, nil, nil, 0)
    guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value) else { return false }
    defer { unsafe X509_EXTENSION_free(made) }
    return unsafe X509_add_ext(raw, made, -1) == 1
}
