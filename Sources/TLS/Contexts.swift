internal import COpenSSL
internal import Glibc
internal import Synchronization

package enum Trust: Hashable, Sendable {
    /// The system's CA certificates (package `ca-certificates`), or those that the environment variables SSL_CERT_FILE
    /// and SSL_CERT_DIR name.
    case system
    /// At least one CA certificate in PEM, used instead of the system's. Error texts begin with `name`.
    case pem(String, name: String = "CA certificate")
    /// No verification of the peer's certificate.
    case anyone
}

/// The TLS settings shared by all sessions of a client: TLS 1.2 or later, trusted authorities, and certificate.
/// Immutable and thread-safe.
@safe package final class ClientContext: @unchecked Sendable {
    let raw: OpaquePointer
    let alpn: [String]

    /// - Parameter alpn: The application protocols to offer (RFC 7301), in order of preference. If the list is not
    ///   empty, the server must select one of them.
    package init(trust: Trust = .system, alpn: [String] = ["h2"], identity: Identity? = nil) throws(TLSError) {
        unsafe raw = try makeContext(TLS_client_method())
        unsafe KeyLog.observe(raw)
        self.alpn = alpn
        unsafe try setTrust(trust, raw)
        unsafe SSL_CTX_set_verify(raw, trust == .anyone ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nil)
        if let identity { unsafe try use(identity, raw) }
        if !alpn.isEmpty {
            let list = protocolList(alpn)
            // SSL_CTX_set_alpn_protos(3) copies the list. Unlike most OpenSSL functions, it returns 0 on success.
            guard unsafe SSL_CTX_set_alpn_protos(raw, list, UInt32(list.count)) == 0 else { throw outOfMemory() }
        }
    }

    deinit { unsafe SSL_CTX_free(raw) }
}

/// The TLS settings shared by all sessions of a server. Immutable and thread-safe.
@safe package final class ServerContext: @unchecked Sendable {
    package enum ClientCertificates: Hashable, Sendable {
        case notRequested
        /// The server requests a certificate, but neither requires nor verifies it (the simulator accepts any client).
        case requested
        case required(Trust)
    }

    let raw: OpaquePointer
    /// The accepted protocols in RFC 7301's format. OpenSSL's callback reads them while the context exists.
    private let protocols: UnsafeMutableBufferPointer<UInt8>

    /// - Parameter alpn: The accepted application protocols, in order of preference. If empty, the server does not
    ///   answer ALPN. The handshake fails if a client offers only other protocols. It succeeds if a client does not use
    ///   ALPN, and `Session.applicationProtocol` is then `nil`.
    package init(
        identity: Identity, alpn: [String] = ["h2"], clientCertificates: ClientCertificates = .notRequested
    ) throws(TLSError) {
        unsafe raw = try makeContext(TLS_server_method())
        let list = protocolList(alpn)
        unsafe protocols = .allocate(capacity: list.count + 1)
        _ = unsafe protocols.update(fromContentsOf: list)
        unsafe protocols[list.count] = 0
        unsafe try use(identity, raw)
        // Send no session tickets: the worker never resumes a session, and the tickets would precede the first answer.
        unsafe SSL_CTX_set_num_tickets(raw, 0)
        switch clientCertificates {
        case .notRequested:
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_NONE, nil)
        case .requested:
            // SSL_CTX_set_verify(3): the handshake continues if the callback returns 1. OpenSSL calls it on the
            // handshake's thread.
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER) { _, _ in 1 }
        case .required(let trust):
            unsafe try setTrust(trust, raw)
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        guard !list.isEmpty else { return }
        unsafe SSL_CTX_set_alpn_select_cb(raw, select, protocols.baseAddress)
    }

    deinit {
        unsafe SSL_CTX_free(raw)
        unsafe protocols.deallocate()
    }
}

/// Selects the ALPN protocol: the first of `list` (NUL-terminated) that the client offers. Returns a fatal alert if the
/// client offers none of them. OpenSSL calls this function on the handshake's thread.
private func select(
    _ session: OpaquePointer?, _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ outCount: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?, _ offeredCount: UInt32,
    _ list: UnsafeMutableRawPointer?
) -> Int32 {
    let ours = unsafe list!.assumingMemoryBound(to: UInt8.self)
    var count = 0
    while unsafe ours[count] != 0 { unsafe count += 1 + Int(ours[count]) }
    var chosen: UnsafeMutablePointer<UInt8>?
    let result = unsafe SSL_select_next_proto(&chosen, outCount, ours, UInt32(count), offered, offeredCount)
    guard result == OPENSSL_NPN_NEGOTIATED else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    unsafe out!.pointee = UnsafePointer(chosen)
    return SSL_TLSEXT_ERR_OK
}

/// Returns the names in RFC 7301's format (section 3.1): each one preceded by its length in one byte.
private func protocolList(_ names: [String]) -> [UInt8] {
    names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
}

private func makeContext(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
    ErrorQueue.clear()
    guard let raw = unsafe SSL_CTX_new(method) else { throw outOfMemory() }
    unsafe openssl_ctx_restrict(raw)
    return unsafe raw
}

private func use(_ identity: Identity, _ context: OpaquePointer) throws(TLSError) {
    // SSL_CTX_use_cert_and_key(3) takes its own references.
    guard unsafe SSL_CTX_use_cert_and_key(context, identity.certificate.raw, identity.key.raw, nil, 1) == 1,
        identity.chain.allSatisfy({ unsafe openssl_ctx_add_chain(context, $0.raw) == 1 })
    else {
        throw TLSError("the certificate cannot be used: \(ErrorQueue.takeText())")
    }
}

private func setTrust(_ trust: Trust, _ context: OpaquePointer) throws(TLSError) {
    let store: OpaquePointer
    switch trust {
    case .anyone: return
    case .system:
        guard let system = unsafe SystemTrust.store() else { throw outOfMemory() }
        unsafe store = system
    case .pem(let text, let name):
        let certificates = try PEM(text: text, name: name).certificates()
        guard let new = unsafe X509_STORE_new() else { throw outOfMemory() }
        unsafe store = new
        // X509_STORE_add_cert(3) takes its own reference. Adding a certificate twice is not an error.
        for certificate in certificates { unsafe X509_STORE_add_cert(store, certificate.raw) }
    }
    unsafe SSL_CTX_set_cert_store(context, store)
}

/// The system's CA certificates (2 MB), shared by all contexts and read again after their file has changed.
/// Thread-safe.
package enum SystemTrust {
    /// The path of the system's CA bundle. OpenSSL also searches a certificate directory.
    package static var file: String {
        unsafe path(X509_get_default_cert_file_env(), X509_get_default_cert_file())
    }

    /// Whether neither the CA bundle nor OpenSSL's certificate directory contains a certificate.
    package static var isEmpty: Bool {
        var status = stat()
        guard unsafe stat(file, &status) != 0 || status.st_size == 0 else { return false }
        var found = unsafe glob_t()
        defer { unsafe globfree(&found) }
        let directory = unsafe path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir())
        return unsafe glob("\(directory)/*.0", 0, nil, &found) != 0
    }

    @unsafe private static func path(_ variable: UnsafePointer<CChar>?, _ standard: UnsafePointer<CChar>?) -> String {
        let value = unsafe variable.flatMap { unsafe getenv($0) }
        return unsafe String(cString: value.map { unsafe UnsafePointer($0) } ?? standard!)
    }

    @safe private struct Store: @unchecked Sendable {
        var raw: OpaquePointer?
        var version: [Int] = []
    }

    private static let current = Mutex(Store())

    /// Returns the current certificates as an `X509_STORE`, read again if the CA bundle has changed, or `nil` if
    /// OpenSSL cannot create a store. The caller owns the returned reference, and passes it on to
    /// SSL_CTX_set_cert_store(3), which takes ownership.
    static func store() -> OpaquePointer? {
        var status = stat()
        let isThere = unsafe stat(file, &status) == 0
        let version =
            isThere ? [Int(status.st_ino), Int(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec] : []
        return unsafe current.withLock { store in
            if unsafe store.raw == nil || store.version != version {
                guard let new = unsafe X509_STORE_new(), unsafe X509_STORE_set_default_paths(new) == 1 else {
                    return nil
                }
                // Contexts that use the old store have their own references.
                unsafe X509_STORE_free(store.raw)
                unsafe (store.raw, store.version) = (new, version)
            }
            unsafe X509_STORE_up_ref(store.raw)
            return unsafe store.raw
        }
    }
}

private func outOfMemory() -> TLSError {
    TLSError("OpenSSL cannot set up TLS: \(ErrorQueue.takeText())")
}

/// Writes the secrets of all client TLS sessions to a file in the NSS key log format, for Wireshark. Call `start`
/// before the first `ClientContext` is created. The file has mode 0600, because it reveals the traffic. Thread-safe.
package enum KeyLog {
    /// The file's descriptor, or -1 if logging is off. It stays open until the process ends.
    private static let descriptor = Atomic<Int32>(-1)

    /// Opens the file, creating it if needed, and starts to append to it.
    package static func start(_ path: String) throws(TLSError) {
        let opened = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0o600)
        guard opened >= 0 else {
            throw TLSError("key log \(path): cannot be opened: \(unsafe String(cString: strerror(errno)))")
        }
        descriptor.store(opened, ordering: .relaxed)
    }

    /// Logs the secrets of this context's sessions if logging is on.
    static func observe(_ context: OpaquePointer) {
        guard descriptor.load(ordering: .relaxed) >= 0 else { return }
        // SSL_CTX_set_keylog_callback(3): the line has no line break. OpenSSL calls the callback on the handshake's
        // thread.
        unsafe SSL_CTX_set_keylog_callback(context) { _, line in
            guard let line = unsafe line else { return }
            unsafe KeyLog.append(line)
        }
    }

    /// Appends the line and its break in one write(2), so that lines of several threads do not mix. A line that cannot
    /// be written is lost, because the log must not delay a connection.
    private static func append(_ line: UnsafePointer<CChar>) {
        let whole = unsafe String(cString: line) + "\n"
        _ = unsafe Glibc.write(descriptor.load(ordering: .relaxed), whole, whole.utf8.count)
    }
}
