internal import COpenSSL

/// An EC P-256 private key that signs with ES256 (RFC 7518, 3.4), as in Apple's `.p8` files. Thread-safe.
package final class SigningKey: Sendable {
    /// The size of a signature: r and s, 32 big-endian bytes each.
    package static let signatureCount = 64

    private let key: PrivateKey

    package convenience init(pem text: String) throws(TLSError) { try self.init(.text(text, name: "signing key")) }

    /// Parses a key. Error texts begin with the source's name.
    package init(_ source: CredentialSource) throws(TLSError) {
        let pem = PEM(source)
        if pem.labels.contains("ENCRYPTED PRIVATE KEY") || pem.text.contains("Proc-Type: 4,ENCRYPTED") {
            throw pem.failure(
                "the private key is encrypted, unlike Apple's .p8 files; decrypt it with: openssl pkey -in FILE")
        }
        key = try pem.privateKey(passphrase: nil)
        guard key.algorithm == "EC" else {
            throw pem.failure("is a key for \(key.algorithm), but provider tokens are signed with EC P-256 (ES256)")
        }
        guard key.curve == "prime256v1" else {
            throw pem.failure(
                "is a key on the curve \(key.curve ?? "unknown"), but provider tokens are signed with EC P-256 (ES256)")
        }
    }

    /// Signs a message with ES256: SHA-256, ECDSA, r || s as in JOSE. Takes about 25 us.
    package func sign(_ message: [UInt8]) -> [UInt8] {
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }
        // A P-256 signature in DER has up to 72 bytes.
        var der = [UInt8](repeating: 0, count: 80)
        var count = der.count
        let isReady = unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.raw) == 1
        let isSigned = unsafe isReady && EVP_DigestSign(context, &der, &count, message, message.count) == 1
        precondition(isSigned, "a P-256 key that was validated must be able to sign")
        return Self.jose(Array(der.prefix(count)))
    }

    package var verificationKey: VerificationKey {
        unsafe EVP_PKEY_up_ref(key.raw)
        return unsafe VerificationKey(PrivateKey(adopting: key.raw))
    }

    /// Converts an ECDSA-Sig-Value (RFC 3279, 2.2.3) to r || s.
    private static func jose(_ der: [UInt8]) -> [UInt8] {
        unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            let signature = unsafe d2i_ECDSA_SIG(nil, &start, der.count)
            defer { unsafe ECDSA_SIG_free(signature) }
            var bytes = [UInt8](repeating: 0, count: signatureCount)
            unsafe bytes.withUnsafeMutableBufferPointer { bytes in
                // BN_bn2binpad(3): big-endian with leading zeros. It returns -1 if the number does not fit, but 256
                // bits always fit.
                unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), bytes.baseAddress, 32)
                unsafe BN_bn2binpad(ECDSA_SIG_get0_s(signature), bytes.baseAddress! + 32, 32)
            }
            return bytes
        }
    }
}

/// The public key that verifies provider tokens. Immutable and thread-safe.
package final class VerificationKey: Sendable {
    private let key: PrivateKey

    fileprivate init(_ key: PrivateKey) { self.key = key }

    /// Parses PEM: a `PUBLIC KEY`, or a private key, whose public half is used.
    package init(pem text: String) throws(TLSError) {
        let pem = PEM(text: text, name: "public key")
        if pem.labels.contains("PUBLIC KEY") {
            ErrorQueue.clear()
            guard let raw = unsafe withReader(text.utf8, { unsafe PEM_read_bio_PUBKEY($0, nil, nil, nil) }) else {
                throw pem.failure("cannot be decoded: \(ErrorQueue.takeText())")
            }
            key = unsafe PrivateKey(adopting: raw)
        } else {
            key = try pem.privateKey(passphrase: nil)
        }
        guard key.curve == "prime256v1" else { throw pem.failure("is not a P-256 key") }
    }

    /// Returns whether the signature matches the message: ES256's 64 bytes (RFC 7518, 3.4), or the same two numbers in
    /// DER (RFC 3279, 2.2.3), as ECDSA libraries return them.
    package func isValid(signature: [UInt8], of message: [UInt8]) -> Bool {
        let isPlain = signature.count == SigningKey.signatureCount
        // DER of two 256-bit numbers has 8 to 72 bytes.
        guard isPlain || 8...72 ~= signature.count,
            let der = isPlain ? Self.der(signature) : signature
        else { return false }
        let context = unsafe EVP_MD_CTX_new()
        defer {
            unsafe EVP_MD_CTX_free(context)
            ErrorQueue.clear()
        }
        return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.raw) == 1
            && EVP_DigestVerify(context, der, der.count, message, message.count) == 1
    }

    package var pem: String { key.publicPEM ?? "" }

    private static func der(_ jose: [UInt8]) -> [UInt8]? {
        let signature = unsafe ECDSA_SIG_new()
        defer { unsafe ECDSA_SIG_free(signature) }
        // ECDSA_SIG_set0(3) takes ownership of both numbers.
        guard unsafe ECDSA_SIG_set0(signature, BN_bin2bn(jose, 32, nil), BN_bin2bn(Array(jose[32...]), 32, nil)) == 1
        else { return nil }
        var der: UnsafeMutablePointer<UInt8>?
        // i2d_ECDSA_SIG(3) allocates the result if given NULL. Free it with OPENSSL_free.
        let count = unsafe i2d_ECDSA_SIG(signature, &der)
        guard count > 0, let start = unsafe der else { return nil }
        defer { unsafe CRYPTO_free(start, nil, 0) }
        return unsafe Array(UnsafeBufferPointer(start: start, count: Int(count)))
    }
}
