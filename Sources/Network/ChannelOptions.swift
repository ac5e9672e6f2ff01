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
    /// TCP_NOTSENT_LOWAT: how many unsent bytes the kernel buffers. 0 for its default.
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
        /// No address accepted a connection. The text describes the last failure.
        case unreachable
        /// The proxy could not be reached or refused to connect.
        case proxyRefused
        /// An error of certificate, ALPN or protocol, also on an open channel.
        case tlsFailed
        /// The server rejected the client certificate, which TLS 1.3 servers do after the handshake.
        case certificateRefused
        case handshakeTimedOut
    }

    package var kind: Kind
    /// A text for logs with host, address and cause.
    package var text: String
    /// Whether the peer ended an open channel's stream without close_notify, as a server does that only closes its
    /// socket.
    package var isEndOfStream = false

    package init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }

    package var description: String { text }
}
