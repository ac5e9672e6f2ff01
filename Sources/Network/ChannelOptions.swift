package struct ChannelOptions: Sendable {
    /// The maximum size of queued output in bytes: plaintext, and ciphertext not yet written. At least 32 KiB.
    package var outputLimit = 256 * 1024
    /// The timeout for connecting, including all addresses and the proxy.
    package var dialTimeoutNs: Int64 = 10_000_000_000
    package var handshakeTimeoutNs: Int64 = 10_000_000_000
    /// The time after `close` until unsent bytes are discarded.
    package var closeTimeoutNs: Int64 = 5_000_000_000
    /// TCP_USER_TIMEOUT: how long written data may remain unacknowledged.
    package var userTimeoutMs: Int32 = 15_000
    /// TCP_NOTSENT_LOWAT: how many unsent bytes the kernel buffers, or 0 for the kernel's default.
    package var unsentLimit: Int32 = 0

    package init() {}
}

/// The reason why a channel closed or never opened.
package struct ChannelEnd: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// `close`, `abort` or `reset` was called.
        case closedHere
        /// The peer closed gracefully (close_notify).
        case closedByPeer
        /// The connection was lost: reset, timed out, or ended without close_notify.
        case lost
        /// The host name has no address, or the resolver timed out.
        case unresolved
        /// No address of the host, or of the proxy, accepted a connection. The text describes the last failure.
        case unreachable
        /// The proxy did not open a tunnel: it rejected CONNECT, did not answer it in time, or closed the connection.
        case proxyRefused
        /// A certificate, ALPN or TLS protocol error, in the handshake or later.
        case tlsFailed
        /// The server rejected the client certificate. With TLS 1.3 it does so after the handshake.
        case certificateRefused
        case handshakeTimedOut
    }

    package var kind: Kind
    /// A text for logs with host, address and cause.
    package var text: String
    /// Whether the peer ended an open channel's stream without close_notify. Some servers do so when they only close
    /// their socket.
    package var isEndOfStream = false

    package init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }

    package var description: String { text }
}
