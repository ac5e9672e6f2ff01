internal import COpenSSL

/// Reads PKCS#12 (RFC 7292).
enum PKCS12Bundle {
    struct Parts {
        var certificate: Certificate
        var chain: [Certificate]
        var key: PrivateKey
    }

    /// - Throws: `TLSError` of kind `credential` that begins with `name`.
    static func parts(of bytes: [UInt8], name: String, passphrase: String?) throws(TLSError) -> Parts {
        let found: Found
        do throws(Refusal) {
            found = try read(bytes, passphrase, nil)
        } catch {
            // RC2 and RC4, which Keychain and OpenSSL before 3 used, are in the legacy provider. Nothing else is to use
            // them, so it is loaded for this one reading.
            guard error.isDecryption else { throw TLSError(.credential, "\(name): \(error.text)") }
            guard let library = LegacyLibrary() else {
                throw TLSError(
                    .credential,
                    error.reason == "unsupported"
                        ? "\(name): is encrypted in a way that OpenSSL 3 only reads with its legacy provider, which is not "
                            + "installed (ossl-modules/legacy.so); export it again, or install the provider"
                        : "\(name): \(error.text)")
            }
            do throws(Refusal) {
                found = try read(bytes, passphrase, library)
            } catch {
                throw TLSError(.credential, "\(name): \(error.text)")
            }
        }
        // By way of PEM, so that nothing belongs to the legacy library, which is gone by now.
        guard let key = found.key else {
            throw TLSError(
                .credential, "\(name): holds no private key; in Keychain, export the certificate together with its key")
        }
        guard let certificate = found.certificate else {
            throw TLSError(.credential, "\(name): holds no certificate for its private key")
        }
        return Parts(
            certificate: try PEM(text: certificate, name: name).certificates()[0],
            chain: found.chain.isEmpty ? [] : try PEM(text: found.chain.joined(), name: name).certificates(),
            key: try PEM(text: key, name: name).privateKey(passphrase: nil))
    }

    /// What a bundle held, as PEM.
    private struct Found {
        var certificate: String?
        var chain: [String] = []
        var key: String?
    }

    private struct Refusal: Error {
        var text: String
        /// OpenSSL's, of the oldest error.
        var reason = ""
        /// The passphrase fits, but what it protects could not be read.
        var isDecryption = false
    }

    private static func read(
        _ bytes: [UInt8], _ passphrase: String?, _ library: LegacyLibrary?
    ) throws(Refusal) -> Found {
        ErrorQueue.clear()
        // PKCS12_init_ex(3): says in which library context a bundle that is read into it is decrypted; NULL: the
        // default.
        var bundle = unsafe PKCS12_init_ex(NID_pkcs7_data, library?.context, nil)
        let isRead = unsafe bytes.withUnsafeBufferPointer { bytes in
            guard
                let bio = unsafe BIO_new_mem_buf(bytes.baseAddress ?? UnsafePointer(bitPattern: 1), Int32(bytes.count))
            else { return false }
            defer { unsafe BIO_free(bio) }
            // d2i_PKCS12_bio(3), d2i_X509(3): on failure the object is freed and the pointer set to NULL.
            return unsafe d2i_PKCS12_bio(bio, &bundle) != nil
        }
        defer {
            unsafe PKCS12_free(bundle)
            withExtendedLifetime(library) {}
        }
        guard isRead else {
            ErrorQueue.clear()
            throw Refusal(text: "is not PKCS#12")
        }
        return try unsafe open(bundle, passphrase)
    }

    private static func open(_ bundle: OpaquePointer?, _ passphrase: String?) throws(Refusal) -> Found {
        guard unsafe PKCS12_mac_present(bundle) == 1 else {
            throw Refusal(text: "has no check sum (MAC), without which OpenSSL opens none; export it again")
        }
        guard unsafe isFit(passphrase, bundle) else {
            ErrorQueue.clear()
            throw Refusal(
                text: passphrase == nil
                    ? "is protected by a passphrase and none was given" : "cannot be opened: wrong passphrase?")
        }
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var chain: OpaquePointer?
        // PKCS12_parse(3): all three are the caller's to free; it tries both forms of "no passphrase".
        let isParsed =
            if let passphrase { unsafe PKCS12_parse(bundle, passphrase, &key, &certificate, &chain) == 1 } else {
                unsafe PKCS12_parse(bundle, nil, &key, &certificate, &chain) == 1
            }
        guard isParsed else {
            let reason = ErrorQueue.takeText()
            throw Refusal(text: "cannot be decrypted: \(reason)", reason: reason, isDecryption: true)
        }
        var found = Found()
        found.key = unsafe key.flatMap { unsafe PrivateKey(adopting: $0).pem }
        found.certificate = unsafe certificate.flatMap { unsafe Certificate(adopting: $0).pem }
        defer { unsafe openssl_certificates_free(chain) }
        // From its end, so it is turned around.
        while unsafe chain != nil, let next = unsafe openssl_certificates_pop(chain) {
            if let pem = unsafe Certificate(adopting: next).pem { found.chain.insert(pem, at: 0) }
        }
        return found
    }

    /// PKCS12_verify_mac(3): "no passphrase" may have been meant as none or as an empty one.
    private static func isFit(_ passphrase: String?, _ bundle: OpaquePointer?) -> Bool {
        guard let passphrase, !passphrase.isEmpty else {
            return unsafe PKCS12_verify_mac(bundle, nil, 0) == 1 || PKCS12_verify_mac(bundle, "", 0) == 1
        }
        return unsafe PKCS12_verify_mac(bundle, passphrase, -1) == 1
    }
}

/// A library context of its own with the providers `default` and `legacy`.
@safe private final class LegacyLibrary {
    let context: OpaquePointer
    private let standard: OpaquePointer
    private let legacy: OpaquePointer

    /// `nil`: the legacy provider is not installed.
    init?() {
        guard let context = unsafe OSSL_LIB_CTX_new() else { return nil }
        let standard = unsafe OSSL_PROVIDER_load(context, "default")
        let legacy = unsafe OSSL_PROVIDER_load(context, "legacy")
        guard let standard = unsafe standard, let legacy = unsafe legacy else {
            if let standard = unsafe standard { unsafe OSSL_PROVIDER_unload(standard) }
            if let legacy = unsafe legacy { unsafe OSSL_PROVIDER_unload(legacy) }
            unsafe OSSL_LIB_CTX_free(context)
            ErrorQueue.clear()
            return nil
        }
        unsafe self.context = context
        unsafe self.standard = standard
        unsafe self.legacy = legacy
    }

    deinit {
        unsafe OSSL_PROVIDER_unload(legacy)
        unsafe OSSL_PROVIDER_unload(standard)
        unsafe OSSL_LIB_CTX_free(context)
    }
}

/// RFC 4648, 4, with line breaks and spaces anywhere; `nil`: it is something else.
func decodedBase64(_ text: String) -> [UInt8]? {
    let digits = text.utf8.filter { $0 != 0x20 && $0 != 0x0A && $0 != 0x0D && $0 != 0x09 }
    guard !digits.isEmpty, digits.count % 4 == 0, digits.count < PEM.fileLimit * 2 else { return nil }
    var bytes = [UInt8](repeating: 0, count: digits.count / 4 * 3)
    // EVP_DecodeBlock(3): padding counts as zeros in what it returns; -1: not base64.
    guard unsafe EVP_DecodeBlock(&bytes, digits, Int32(digits.count)) == bytes.count else {
        ErrorQueue.clear()
        return nil
    }
    bytes.removeLast(digits.suffix(2).count { $0 == UInt8(ascii: "=") })
    return bytes
}
