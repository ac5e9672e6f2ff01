/// An EC P-256 private key that signs with ES256 (RFC 7518, 3.4), as Apple's `.p8` files hold one. Immutable; any thread.
package final class SigningKey: Sendable {
    /// Bytes of a signature: r and s, 32 big-endian bytes each.
    package static let signatureCount = 64

    /// - Throws: `TLSError` of kind `credential` whose text says what is wrong and with which file: cannot be read, not
    ///   PEM, a certificate or public key, encrypted, not EC, another curve than P-256.
    package convenience init(file: String) throws(TLSError) { fatalError("not yet") }

    package init(pem: String) throws(TLSError) { fatalError("not yet") }

    /// ES256 over the message: SHA-256, ECDSA, r || s as JOSE has them.
    package func sign(_ message: UnsafeRawBufferPointer) -> [UInt8] { fatalError("not yet") }
    package func sign(_ message: [UInt8]) -> [UInt8] { fatalError("not yet") }

    package var verificationKey: VerificationKey { fatalError("not yet") }
}

/// The public half, for whoever checks provider tokens. Immutable; any thread.
package final class VerificationKey: Sendable {
    /// From PEM: `PUBLIC KEY`, or a private key, whose public half is taken.
    package init(pem: String) throws(TLSError) { fatalError("not yet") }

    package func isValid(signature: UnsafeRawBufferPointer, of message: UnsafeRawBufferPointer) -> Bool {
        fatalError("not yet")
    }
    package func isValid(signature: [UInt8], of message: [UInt8]) -> Bool { fatalError("not yet") }

    package var pem: String { fatalError("not yet") }
}
