/// One TLS connection without a socket: ciphertext in and out as memory. One thread at a time.
package final class Session {
    /// For a connection to `hostName`, which the server's certificate must be valid for: a DNS name (also sent as SNI) or an
    /// IP address literal.
    package static func client(_ context: ClientContext, hostName: String) throws(TLSError) -> Session {
        fatalError("not yet")
    }

    package static func server(_ context: ServerContext) throws(TLSError) -> Session { fatalError("not yet") }

    private init() {}

    /// Lends ciphertext from the peer; it must stay valid until `handshake` or `read` has asked for more or thrown.
    package func receive(_ ciphertext: UnsafeRawBufferPointer) { fatalError("not yet") }

    /// Goes on with the handshake. A client's first call makes its ClientHello.
    ///
    /// - Returns: true when complete.
    /// - Throws: `TLSError`; there may be an alert to write then.
    package func handshake() throws(TLSError) -> Bool { fatalError("not yet") }

    package enum ReadResult: Hashable, Sendable {
        case bytes(Int)
        /// All ciphertext lent was used up.
        case wantsMore
        /// The peer's close_notify: it will send nothing more.
        case closed
    }

    /// Decrypts at most one record into the buffer.
    package func read(into plaintext: UnsafeMutableRawBufferPointer) throws(TLSError) -> ReadResult {
        fatalError("not yet")
    }

    /// Encrypts all of it, in records of at most 16,384 bytes, into the pending output.
    package func write(_ plaintext: UnsafeRawBufferPointer) throws(TLSError) { fatalError("not yet") }

    /// Encrypts close_notify.
    package func closeNotify() { fatalError("not yet") }

    /// Told by the caller when the peer's end of stream came.
    package func receivedEndOfStream() { fatalError("not yet") }

    /// Ciphertext for the peer; valid until the next call of this session.
    package var pendingOutput: UnsafeRawBufferPointer { fatalError("not yet") }
    package func consumeOutput(_ count: Int) { fatalError("not yet") }

    package var isHandshakeComplete: Bool { fatalError("not yet") }
    /// What ALPN agreed on.
    package var applicationProtocol: String? { fatalError("not yet") }
    /// `TLSv1.3`.
    package var version: String { fatalError("not yet") }
    /// The peer's certificate, when it sent one.
    package var peerCertificate: CertificateDetails? { fatalError("not yet") }
}

/// What an operator or a simulator wants to know of a certificate.
package struct CertificateDetails: Hashable, Sendable {
    package var subject: String
    /// `UID=` of the subject: the bundle id in Apple's provider certificates.
    package var userID: String?
    package var commonName: String?
    /// In milliseconds since the epoch.
    package var notBeforeMs: Int64
    package var notAfterMs: Int64
}
