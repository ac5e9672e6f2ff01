internal import COpenSSL
internal import Glibc
internal import Synchronization

package enum Trust: Hashable, Sendable {
    /// The system's CA certificates (the image needs `ca-certificates`; SSL_CERT_FILE and SSL_CERT_DIR are heeded).
    case system
    /// PEM with one or more CA certificates, instead of the system's. Errors begin with `name`.
    case pem(String, name: String = "CA certificate")
    /// Anyone: no verification at all.
    case anyone
}

package struct ClientOptions: Sendable {
    package var trust: Trust
    /// Application protocols offered (RFC 7301), in order of preference. If any, a server that picks none fails.
    package var alpn: [String]
    package var identity: Identity?

    package init(trust: Trust = .system, alpn: [String] = ["h2"], identity: Identity? = nil) {
        self.trust = trust
        self.alpn = alpn
        self.identity = identity
    }
}

/// What all of a client's sessions share: TLS 1.2 or later, trust, certificate. Immutable; any thread.
@safe package final class ClientContext: @unchecked Sendable {
    let raw: OpaquePointer
    let alpn: [String]
    let verifies: Bool

    package init(_ options: ClientOptions) throws(TLSError) {
        unsafe raw = try makeContext(TLS_client_method())
        unsafe KeyLog.observe(raw)
        alpn = options.alpn
        verifies = options.trust != .anyone
        unsafe try setTrust(options.trust, raw)
        unsafe SSL_CTX_set_verify(raw, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nil)
        if let identity = options.identity { unsafe try use(identity, raw) }
        if !alpn.isEmpty {
            let list = protocolList(alpn)
            // SSL_CTX_set_alpn_protos(3): copied; returns 0 on success, unlike most.
            guard unsafe SSL_CTX_set_alpn_protos(raw, list, UInt32(list.count)) == 0 else { throw outOfMemory() }
        }
    }

    deinit { unsafe SSL_CTX_free(raw) }
}

package struct ServerOptions: Sendable {
    package enum ClientCertificates: Hashable, Sendable {
        case notRequested
        /// Asked for, not insisted on, and not verified (a simulator accepts every provider's).
        case requested
        case required(Trust)
    }

    package var identity: Identity
    /// Application protocols accepted, in order of preference. If empty, ALPN is not answered. A client that offers
    /// none of them is refused; one that does not use ALPN is not (see `Session.applicationProtocol`).
    package var alpn: [String]
    package var clientCertificates: ClientCertificates

    package init(
        identity: Identity, alpn: [String] = ["h2"], clientCertificates: ClientCertificates = .notRequested
    ) {
        self.identity = identity
        self.alpn = alpn
        self.clientCertificates = clientCertificates
    }
}

/// What all of a server's sessions share. Immutable; any thread.
@safe package final class ServerContext: @unchecked Sendable {
    let raw: OpaquePointer
    /// The accepted protocols as RFC 7301 writes them; OpenSSL's callback reads them while the context lives.
    private let protocols: UnsafeMutableBufferPointer<UInt8>

    package init(_ options: ServerOptions) throws(TLSError) {
        unsafe raw = try makeContext(TLS_server_method())
        let list = protocolList(options.alpn)
        unsafe protocols = .allocate(capacity: list.count + 1)
        _ = unsafe protocols.update(fromContentsOf: list)
        unsafe protocols[list.count] = 0
        unsafe try use(options.identity, raw)
        // No session tickets: no client resumes, and they would be written before the first answer.
        unsafe SSL_CTX_set_num_tickets(raw, 0)
        switch options.clientCertificates {
        case .notRequested:
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_NONE, nil)
        case .requested:
            // SSL_CTX_set_verify(3): a callback that returns 1 goes on whatever was found. The handshake's thread.
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER) { _, _ in 1 }
        case .required(let trust):
            unsafe try setTrust(trust, raw)
            unsafe SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        guard !list.isEmpty else { return }
        unsafe SSL_CTX_set_alpn_select_cb(
            raw,
            { _, out, outCount, offered, offeredCount, list in unsafe select(out, outCount, offered, offeredCount, list)
            },
            protocols.baseAddress)
    }

    deinit {
        unsafe SSL_CTX_free(raw)
        unsafe protocols.deallocate()
    }
}

/// Returns the first protocol of `list` (NUL-terminated) that the client offers, else an alert. The handshake's thread.
private func select(
    _ out: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ outCount: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredCount: UInt32, _ list: UnsafeMutableRawPointer?
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

/// RFC 7301, 3.1: each name with its length before it.
private func protocolList(_ names: [String]) -> [UInt8] {
    names.flatMap { [UInt8($0.utf8.count)] + Array($0.utf8) }
}

private func makeContext(_ method: OpaquePointer?) throws(TLSError) -> OpaquePointer {
    ErrorQueue.clear()
    guard let raw = unsafe SSL_CTX_new(method) else { throw outOfMemory() }
    _ = unsafe openssl_ctx_set_min_tls12(raw)
    unsafe openssl_ctx_disable_session_cache(raw)
    unsafe SSL_CTX_set_options(raw, openssl_options())
    return unsafe raw
}

private func use(_ identity: Identity, _ context: OpaquePointer) throws(TLSError) {
    // SSL_CTX_use_cert_and_key(3) takes references of its own.
    guard unsafe SSL_CTX_use_cert_and_key(context, identity.certificate.raw, identity.key.raw, nil, 1) == 1,
        identity.chain.allSatisfy({ unsafe openssl_ctx_add_chain(context, $0.raw) == 1 })
    else {
        throw TLSError(.credential, "the certificate cannot be used: \(ErrorQueue.takeText())")
    }
}

private func setTrust(_ trust: Trust, _ context: OpaquePointer) throws(TLSError) {
    let store: OpaquePointer
    switch trust {
    case .anyone: return
    case .system:
        guard let system = unsafe SystemTrust.store() else { throw outOfMemory() }
        unsafe store = system
    case .pem(let text, let name): unsafe store = try makeStore(PEM(text: text, name: name))
    }
    unsafe SSL_CTX_set_cert_store(context, store)
}

private func makeStore(_ pem: PEM) throws(TLSError) -> OpaquePointer {
    let certificates = try pem.certificates()
    guard let store = unsafe X509_STORE_new() else { throw outOfMemory() }
    // X509_STORE_add_cert(3): takes a reference of its own; a certificate twice is no error.
    for certificate in certificates { unsafe X509_STORE_add_cert(store, certificate.raw) }
    return unsafe store
}

/// The system's CA certificates (2 MB), shared by all contexts and read again once their file changed. Any thread.
package enum SystemTrust {
    /// The file that holds them all. There may be a directory as well.
    package static var file: String {
        unsafe path(X509_get_default_cert_file_env(), X509_get_default_cert_file())
    }

    /// Whether neither the file nor the directory has a certificate.
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

    /// Returns a reference for the caller (SSL_CTX_set_cert_store(3) takes it over), or `nil` without memory.
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
                // Contexts that use the former one have references of their own.
                unsafe X509_STORE_free(store.raw)
                unsafe (store.raw, store.version) = (new, version)
            }
            unsafe X509_STORE_up_ref(store.raw)
            return unsafe store.raw
        }
    }
}

private func outOfMemory() -> TLSError {
    TLSError(.credential, "OpenSSL cannot set up TLS: \(ErrorQueue.takeText())")
}

/// Writes the secrets of all TLS sessions to a file in the NSS key log format, for Wireshark. Call `start` before the
/// first `ClientContext` is made. The file has mode 0600, since it decrypts the traffic. Any thread.
package enum KeyLog {
    /// The file's descriptor, or -1 while nothing is logged. It stays open until the process ends.
    private static let descriptor = Atomic<Int32>(-1)

    /// Appends to the file from now on.
    package static func start(_ path: String) throws(TLSError) {
        let opened = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0o600)
        guard opened >= 0 else {
            throw TLSError(.credential, "key log \(path): \(unsafe String(cString: strerror(errno)))")
        }
        descriptor.store(opened, ordering: .relaxed)
    }

    /// Logs the secrets of the sessions of this context, if a log was started.
    static func observe(_ context: OpaquePointer) {
        guard descriptor.load(ordering: .relaxed) >= 0 else { return }
        // SSL_CTX_set_keylog_callback(3): the line has no line break. Called by the handshake, on its thread.
        unsafe SSL_CTX_set_keylog_callback(context) { _, line in
            guard let line = unsafe line else { return }
            unsafe KeyLog.append(line)
        }
    }

    /// One write(2) for the line and its break, so that lines of several threads do not mix. A line that cannot be
    /// written is lost: the log must not hold up a connection.
    private static func append(_ line: UnsafePointer<CChar>) {
        let whole = unsafe String(cString: line) + "\n"
        _ = unsafe Glibc.write(descriptor.load(ordering: .relaxed), whole, whole.utf8.count)
    }
}
