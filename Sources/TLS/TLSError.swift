/// What went wrong with a credential, a handshake or a session, in words for an operator.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// A certificate, key or CA file cannot be used: missing, not PEM, of another kind, encrypted, not matching.
        case credential
        /// The peer's certificate is not acceptable; the text names the host.
        case verification
        /// The peers agreed on no application protocol.
        case applicationProtocol
        /// The handshake or the session failed: an alert of the peer, something that is no TLS.
        case protocolFailure
        /// The connection ended without close_notify.
        case connectionLost
    }

    package var kind: Kind
    package var text: String

    package init(_ kind: Kind, _ text: String) {
        self.kind = kind
        self.text = text
    }

    package var description: String { text }
}
