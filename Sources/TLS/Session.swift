internal import COpenSSL
internal import Glibc

/// A TLS connection without a socket: the caller passes received ciphertext in, and writes the ciphertext that comes
/// out. Not thread-safe.
@safe package final class Session {
    /// The version of the loaded OpenSSL.
    package static var libraryVersion: String { unsafe String(cString: OpenSSL_version(OPENSSL_VERSION_STRING)) }

    private let raw: OpaquePointer
    /// The client or server context, retained because OpenSSL's callbacks use its members.
    private let context: AnyObject
    /// OpenSSL's memory BIOs, owned by `raw`. `input` has ciphertext from the peer, and `output` ciphertext for the
    /// peer.
    private let input: OpaquePointer
    private let output: OpaquePointer
    /// The peer's name in errors: the host name, or "the client".
    private let peer: String
    private let expectsProtocol: [String]
    package private(set) var isHandshakeComplete = false

    /// Creates a client's session. The server's certificate must be valid for `hostName`, a DNS name (also sent as SNI)
    /// or an IP address.
    package static func client(_ context: ClientContext, hostName: String) throws(TLSError) -> Session {
        let session = unsafe try Session(context, context.raw, peer: hostName, expectsProtocol: context.alpn)
        unsafe SSL_set_connect_state(session.raw)
        try session.expect(hostName)
        return session
    }

    package static func server(_ context: ServerContext) throws(TLSError) -> Session {
        let session = unsafe try Session(context, context.raw, peer: "the client", expectsProtocol: [])
        unsafe SSL_set_accept_state(session.raw)
        return session
    }

    private init(
        _ owner: AnyObject, _ context: OpaquePointer, peer: String, expectsProtocol: [String]
    ) throws(TLSError) {
        ErrorQueue.clear()
        guard let raw = unsafe SSL_new(context), let input = unsafe BIO_new(BIO_s_mem()),
            let output = unsafe BIO_new(BIO_s_mem())
        else { throw TLSError("OpenSSL cannot create a session: \(ErrorQueue.takeText())") }
        // SSL_set_bio(3) takes ownership of both BIOs.
        unsafe SSL_set_bio(raw, input, output)
        unsafe self.raw = raw
        unsafe self.input = input
        unsafe self.output = output
        self.context = owner
        self.peer = peer
        self.expectsProtocol = expectsProtocol
    }

    deinit { unsafe SSL_free(raw) }

    private func expect(_ hostName: String) throws(TLSError) {
        let name = hostName.hasSuffix(".") ? String(hostName.dropLast()) : hostName
        guard !name.utf8.contains(0) else { throw TLSError("a host name must not contain a NUL") }
        let parameters = unsafe SSL_get0_param(raw)
        // X509_VERIFY_PARAM_set1_ip_asc(3) returns 0 if `name` is not an IP address.
        if unsafe X509_VERIFY_PARAM_set1_ip_asc(parameters, name) == 1 { return }
        ErrorQueue.clear()
        unsafe X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        guard unsafe !name.isEmpty && SSL_set1_host(raw, name) == 1 && openssl_set_server_name(raw, name) == 1 else {
            ErrorQueue.clear()
            throw TLSError("\"\(hostName)\" is not a host name")
        }
    }

    // MARK: Ciphertext

    /// Copies ciphertext from the peer into the session.
    package func receive(_ ciphertext: UnsafeRawBufferPointer) {
        unsafe BIO_write(input, ciphertext.baseAddress, Int32(clamping: ciphertext.count))
    }

    /// The ciphertext for the peer, valid until the next call to this session.
    package var pendingOutput: UnsafeRawBufferPointer {
        var start: UnsafeMutableRawPointer?
        let count = unsafe BIO_ctrl(output, BIO_CTRL_INFO, 0, &start)
        return unsafe UnsafeRawBufferPointer(start: start, count: count)
    }

    /// Removes the first `count` bytes of `pendingOutput`, which the caller has written to the peer.
    package func consumeOutput(_ count: Int) {
        // Read the bytes to remove them, because BIO_reset(3) would clear the whole buffer.
        unsafe withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 16) { buffer in
            var left = count
            while left > 0 {
                let taken = unsafe Int(BIO_read(output, buffer.baseAddress, Int32(min(left, buffer.count))))
                precondition(taken > 0, "the consumed bytes must be part of the pending output")
                left -= taken
            }
        }
    }

    // MARK: Handshake

    /// Continues the handshake. Returns whether the handshake is complete. After an error, `pendingOutput` may contain
    /// an alert.
    package func handshake() throws(TLSError) -> Bool {
        if isHandshakeComplete { return true }
        ErrorQueue.clear()
        let result = unsafe SSL_do_handshake(raw)
        guard result == 1 else {
            if unsafe SSL_get_error(raw, result) == SSL_ERROR_WANT_READ { return false }
            throw failure(during: "handshake")
        }
        if !expectsProtocol.isEmpty, applicationProtocol == nil {
            throw TLSError(
                "\(peer) does not speak \(expectsProtocol.joined(separator: " or ")): it selected no protocol (ALPN)")
        }
        isHandshakeComplete = true
        return true
    }

    package var applicationProtocol: String? {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        unsafe SSL_get0_alpn_selected(raw, &name, &count)
        guard let start = unsafe name, count > 0 else { return nil }
        return unsafe String(decoding: UnsafeBufferPointer(start: start, count: Int(count)), as: UTF8.self)
    }

    package var version: String { unsafe String(cString: SSL_get_version(raw)) }

    package var peerCertificate: CertificateDetails? {
        // SSL_get1_peer_certificate(3) returns a reference that the caller must free.
        unsafe SSL_get1_peer_certificate(raw).map { unsafe CertificateDetails(Certificate(adopting: $0)) }
    }

    // MARK: Plaintext

    package enum ReadResult: Hashable, Sendable {
        case bytes(Int)
        /// No complete TLS record is left. More ciphertext is needed from the peer.
        case wantsMore
        /// The peer sent close_notify and will send nothing more.
        case closed
    }

    /// Decrypts up to one record into the buffer, which must not be empty.
    package func read(into plaintext: UnsafeMutableRawBufferPointer) throws(TLSError) -> ReadResult {
        ErrorQueue.clear()
        var count = 0
        let result = unsafe SSL_read_ex(raw, plaintext.baseAddress, plaintext.count, &count)
        if result == 1 { return .bytes(count) }
        switch unsafe SSL_get_error(raw, result) {
        case SSL_ERROR_WANT_READ: return .wantsMore
        case SSL_ERROR_ZERO_RETURN: return .closed
        default: throw failure(during: "connection")
        }
    }

    /// Encrypts all bytes into the pending output, in records of up to 16,384 bytes.
    package func write(_ plaintext: UnsafeRawBufferPointer) throws(TLSError) {
        guard unsafe !plaintext.isEmpty else { return }
        ErrorQueue.clear()
        var count = 0
        let result = unsafe SSL_write_ex(raw, plaintext.baseAddress, plaintext.count, &count)
        // A memory BIO accepts all bytes, so there are no partial writes.
        guard result == 1 else { throw failure(during: "connection") }
    }

    /// Encrypts close_notify, once, if the handshake is complete.
    package func closeNotify() {
        guard isHandshakeComplete else { return }
        ErrorQueue.clear()
        // SSL_shutdown(3) must not be called after a fatal error. The result 0 means that close_notify was sent but the
        // peer's close_notify has not arrived, which is sufficient here.
        _ = unsafe SSL_shutdown(raw)
        ErrorQueue.clear()
    }

    // MARK: Failures

    private func failure(during phase: String) -> TLSError {
        let error = ErrorQueue.take()
        let reason = openssl_tls_reason(error)
        // ssl.h: the reason of the peer's alert is SSL_AD_REASON_OFFSET plus its number (RFC 8446, 6.2).
        let alert = reason - SSL_AD_REASON_OFFSET
        if 42...49 ~= alert || alert == 116, unsafe SSL_is_server(raw) == 0 && SSL_get_certificate(raw) != nil {
            return TLSError(
                "\(peer) refuses the client certificate (\(ErrorQueue.text(error)))", isCertificateRefused: true)
        }
        switch reason {
        case SSL_R_UNEXPECTED_EOF_WHILE_READING:
            return TLSError("\(peer) ended the \(phase) without close_notify")
        case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
            return TLSError("\(peer) does not speak \(expectsProtocol.joined(separator: " or ")) (ALPN)")
        case SSL_R_NO_APPLICATION_PROTOCOL:
            return TLSError("\(peer) offers no supported protocol (ALPN)")
        case SSL_R_WRONG_VERSION_NUMBER, SSL_R_HTTP_REQUEST, SSL_R_HTTPS_PROXY_REQUEST:
            return TLSError("\(peer) does not speak TLS (\(ErrorQueue.text(error)))")
        default:
            // The verify result shows the cause. If an authority's signature is invalid, the oldest error in OpenSSL's
            // queue is about the signature and not about verification.
            if unsafe SSL_get_verify_mode(raw) & SSL_VERIFY_PEER != 0,
                unsafe SSL_get_verify_result(raw) != Int(X509_V_OK)
            {
                return TLSError(verificationText())
            }
            return TLSError("TLS \(phase) with \(peer) failed: \(ErrorQueue.text(error))")
        }
    }

    private func verificationText() -> String {
        let result = unsafe SSL_get_verify_result(raw)
        let why = unsafe String(cString: X509_verify_cert_error_string(result))
        switch Int32(truncatingIfNeeded: result) {
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the certificate of \(peer) is for another name (\(why))"
        // The issuer is not trusted, for example because it is the certificate authority of a simulator or a proxy.
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_SIGNATURE_FAILURE:
            let advice =
                unsafe SSL_is_server(raw) == 1
                ? "" : " (set tls.ca_file to a file with the authorities to trust instead of the system's)"
            return "the certificate of \(peer) is not trusted: \(why)\(advice)"
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return "the certificate of \(peer) is not valid yet: check this machine's clock"
        default:
            return "the certificate of \(peer) is not trusted: \(why)"
        }
    }
}
