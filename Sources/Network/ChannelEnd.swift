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
        /// The handshake was not over in time.
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
