internal import COpenSSL

/// An error of a credential, a handshake or a session, with a text for operators.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// A certificate, key or CA file cannot be used: it is missing, encrypted, not PEM or of the wrong type, or the
        /// key does not belong to the certificate.
        case credential
        /// The peer's certificate is not trusted or is for another host. The text names the host.
        case verification
        case clientCertificate
        case applicationProtocol
        /// The handshake or the session failed: an alert from the peer, or data that is not TLS.
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
    /// Removes errors of earlier calls, which SSL_get_error(3) would attribute to the next call.
    static func clear() { ERR_clear_error() }

    /// Returns the oldest error, which is the cause of the others, and clears the queue. Returns 0 if the queue is
    /// empty.
    static func take() -> UInt {
        defer { ERR_clear_error() }
        return ERR_get_error()
    }

    static func text(_ code: UInt) -> String {
        // ERR_reason_error_string(3) returns static text, or NULL if there is none for the code.
        guard code != 0, let reason = unsafe ERR_reason_error_string(code) else { return "no reason given" }
        return unsafe String(cString: reason)
    }

    static func takeText() -> String { text(take()) }
}
