/// Which authorities a client trusts.
package enum Trust: Hashable, Sendable {
    /// The system's CA certificates (the image needs `ca-certificates`; SSL_CERT_FILE and SSL_CERT_DIR are heeded).
    case system
    /// A PEM file with one or more CA certificates, instead of the system's.
    case file(String)
    /// The same, as text.
    case pem(String)
    /// Anyone: no verification at all.
    case anyone
}

/// How a client connects.
package struct ClientOptions: Sendable {
    package var trust: Trust
    /// Application protocols offered (RFC 7301), in order of preference; empty: none offered. When any are offered,
    /// a server that picks none fails the handshake.
    package var alpn: [String]
    /// The client certificate, for servers that ask for one.
    package var identity: Identity?

    package init(trust: Trust = .system, alpn: [String] = ["h2"], identity: Identity? = nil) {
        self.trust = trust
        self.alpn = alpn
        self.identity = identity
    }
}

/// What all of a client's sessions share: TLS 1.2 or later, trust, certificate. Immutable; any thread.
package final class ClientContext: Sendable {
    /// - Throws: `TLSError` of kind `credential`.
    package init(_ options: ClientOptions) throws(TLSError) { fatalError("not yet") }
}

/// How a server accepts.
package struct ServerOptions: Sendable {
    package enum ClientCertificates: Hashable, Sendable {
        case notRequested
        /// Asked for, not insisted on, and not verified (a simulator accepts every provider's).
        case requested
        /// Insisted on, and verified against these authorities.
        case required(Trust)
    }

    package var identity: Identity
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
package final class ServerContext: Sendable {
    /// - Throws: `TLSError` of kind `credential`.
    package init(_ options: ServerOptions) throws(TLSError) { fatalError("not yet") }
}
