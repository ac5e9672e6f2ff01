internal import COpenSSL

/// What went wrong with a credential, a handshake or a session, in words for an operator.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// A certificate, key or CA file cannot be used: missing, not PEM, of another kind, encrypted, not matching.
        case credential
        /// The peer's certificate is not acceptable; the text names the host.
        case verification
        case clientCertificate
        case applicationProtocol
        /// The handshake or the session failed: an alert of the peer, something that is no TLS.
        case protocolFailure
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

/// The calling thread's OpenSSL error queue.
enum ErrorQueue {
    /// OpenSSL leaves errors of earlier calls in the queue, where SSL_get_error(3) would take them for its own.
    static func clear() { ERR_clear_error() }

    /// The oldest error, which is the cause; the queue is empty afterwards. 0: none.
    static func take() -> UInt {
        defer { ERR_clear_error() }
        return ERR_get_error()
    }

    static func text(_ code: UInt) -> String {
        // ERR_reason_error_string(3): static text, or NULL when there is none for the code.
        guard code != 0, let reason = unsafe ERR_reason_error_string(code) else { return "no reason given" }
        return unsafe String(cString: reason)
    }

    static func takeText() -> String { text(take()) }
}
