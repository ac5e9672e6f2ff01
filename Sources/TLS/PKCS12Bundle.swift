internal import COpenSSL

/// A PKCS#12 bundle (RFC 7292). Error texts begin with `name`.
struct PKCS12Bundle {
    let bytes: [UInt8]
    let name: String

    /// - Parameter bytes: The bundle, or its base64 with any white space.
    init(_ bytes: [UInt8], name: String) {
        self.bytes = Certificate.isDER(bytes) ? bytes : PEM.base64Decoded(bytes) ?? []
        self.name = name
    }

    func parts(
        passphrase: String?
    ) throws(TLSError) -> (certificate: Certificate, chain: [Certificate], key: PrivateKey) {
        var (found, reason) = try read(passphrase, nil)
        // Bundles from Keychain or from OpenSSL before version 3 are often encrypted with RC2, which only the legacy
        // provider supports. Load it for this read only, so that no other code uses RC2.
        if found == nil {
            if let library = LegacyLibrary() {
                (found, reason) = try read(passphrase, library)
            } else if reason == "unsupported" {
                throw failure(
                    "is encrypted in a way that OpenSSL 3 only reads with its legacy provider, which is not "
                        + "installed (ossl-modules/legacy.so); export it again, or install the provider")
            }
        }
        guard let found else { throw failure("cannot be decrypted: \(reason)") }
        guard let key = found.key else {
            throw failure("contains no private key; in Keychain, export the certificate together with its key")
        }
        guard let certificate = found.certificate else { throw failure("contains no certificate for its private key") }
        // Convert to PEM and back, so that the objects do not belong to the legacy library context, which is freed.
        return (
            try PEM(text: certificate, name: name).certificates()[0],
            found.chain.isEmpty ? [] : try PEM(text: found.chain.joined(), name: name).certificates(),
            try PEM(text: key, name: name).privateKey(passphrase: nil)
        )
    }

    private func failure(_ what: String) -> TLSError { TLSError("\(name): \(what)") }

    private struct Found {
        var certificate: String?
        var chain: [String] = []
        var key: String?
    }

    /// Returns the bundle's objects, or OpenSSL's reason if the passphrase is correct but the contents could not be
    /// decrypted.
    private func read(_ passphrase: String?, _ library: LegacyLibrary?) throws(TLSError) -> (
        found: Found?, reason: String
    ) {
        ErrorQueue.clear()
        // PKCS12_init_ex(3): the bundle is decrypted in this library context, or in the default one for NULL.
        var bundle = unsafe PKCS12_init_ex(NID_pkcs7_data, library?.context, nil)
        defer {
            unsafe PKCS12_free(bundle)
            withExtendedLifetime(library) {}
        }
        // d2i_X509(3): on failure, d2i_PKCS12_bio frees the object and sets the pointer to NULL.
        guard unsafe withReader(bytes, { unsafe d2i_PKCS12_bio($0, &bundle) != nil }) else {
            ErrorQueue.clear()
            throw failure("is not PKCS#12")
        }
        guard unsafe PKCS12_mac_present(bundle) == 1 else {
            throw failure("has no checksum (MAC), which OpenSSL requires; export it again")
        }
        guard unsafe isRight(passphrase, for: bundle) else {
            ErrorQueue.clear()
            throw failure(
                passphrase == nil
                    ? "is protected by a passphrase and none was given" : "cannot be opened: wrong passphrase?")
        }
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var chain: OpaquePointer?
        // PKCS12_parse(3): the caller must free all three objects. For a NULL passphrase it also tries an empty one.
        guard unsafe PKCS12_parse(bundle, passphrase, &key, &certificate, &chain) == 1 else {
            return (nil, ErrorQueue.takeText())
        }
        var found = Found()
        found.key = unsafe key.flatMap { unsafe PrivateKey(adopting: $0).pem }
        found.certificate = unsafe certificate.flatMap { unsafe Certificate(adopting: $0).pem }
        defer { unsafe openssl_certificates_free(chain) }
        while unsafe chain != nil, let last = unsafe openssl_certificates_pop(chain) {
            if let pem = unsafe Certificate(adopting: last).pem { found.chain.insert(pem, at: 0) }
        }
        return (found, "")
    }

    /// Returns whether the passphrase matches the bundle's MAC. A bundle without a passphrase was created with NULL or
    /// with an empty passphrase, so both are tried.
    private func isRight(_ passphrase: String?, for bundle: OpaquePointer?) -> Bool {
        guard let passphrase, !passphrase.isEmpty else {
            return unsafe PKCS12_verify_mac(bundle, nil, 0) == 1 || PKCS12_verify_mac(bundle, "", 0) == 1
        }
        return unsafe PKCS12_verify_mac(bundle, passphrase, -1) == 1
    }
}

/// A separate library context with the providers `default` and `legacy`.
@safe private final class LegacyLibrary {
    let context: OpaquePointer
    private let providers: [OpaquePointer]

    /// Returns `nil` if the legacy provider is not installed.
    init?() {
        guard let context = unsafe OSSL_LIB_CTX_new() else { return nil }
        unsafe self.context = context
        let names: [String] = ["default", "legacy"]
        unsafe providers = names.compactMap { unsafe OSSL_PROVIDER_load(context, $0) }
        guard unsafe providers.count == 2 else {
            ErrorQueue.clear()
            return nil
        }
    }

    deinit {
        unsafe providers.forEach { unsafe OSSL_PROVIDER_unload($0) }
        unsafe OSSL_LIB_CTX_free(context)
    }
}
