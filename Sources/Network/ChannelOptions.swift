package struct ChannelOptions: Sendable {
    /// Most bytes that wait in the channel: gathered plaintext and ciphertext the kernel did not take. At least 32 KiB.
    package var outputLimit = 256 * 1024
    /// From the start to the connection, all addresses and the proxy included.
    package var dialTimeoutNs: Int64 = 10_000_000_000
    package var handshakeTimeoutNs: Int64 = 10_000_000_000
    /// From `close` until unsent bytes are dropped.
    package var closeTimeoutNs: Int64 = 5_000_000_000
    /// TCP_USER_TIMEOUT: how long written data may stay unacknowledged.
    package var userTimeoutMs: Int32 = 15_000
    /// TCP_NOTSENT_LOWAT: how many bytes the kernel takes beyond what it has sent; 0 for as many as it has room for.
    package var unsentLimit: Int32 = 0

    package init() {}
}

/// Why a channel ended, or never opened.
package struct ChannelEnd: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// `close`, `abort` or `reset` was called.
        case closedHere
        /// The peer closed in order (close_notify).
        case closedByPeer
        /// The connection was lost: reset, timed out, ended without close_notify.
        case lost
        /// The name has no address, or no answer came in time.
        case unresolved
        /// No address accepted a connection (the text names the last failure).
        case unreachable
        /// The proxy could not be reached or would not connect.
        case proxyRefused
        /// Certificate, ALPN or protocol; TLS failures of an open channel too.
        case tlsFailed
        /// The server refused the client certificate, which TLS 1.3 servers do after the handshake.
        case certificateRefused
        case handshakeTimedOut
    }

    package var kind: Kind
    /// For log lines: names host, address and cause.
    package var text: String
    /// The peer ended an open channel's stream without close_notify, as a server that only closes its socket does.
    package var isEndOfStream = false

    package init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }

    package var description: String { text }
}
