internal import COpenSSL

/// An error of a credential, a handshake or a session, with a text for operators.
package struct TLSError: Error, Hashable, Sendable, CustomStringConvertible {
    package var text: String
    /// Whether the server rejected the client certificate.
    package var isCertificateRefused: Bool

    package init(_ text: String, isCertificateRefused: Bool = false) {
        self.text = text
        self.isCertificateRefused = isCertificateRefused
    }

    package var description: String { text }
}

/// The calling thread's OpenSSL error queue.
enum ErrorQueue {
    /// Removes errors of earlier calls, which SSL_get_error(3) would attribute to the next call.
    static func clear() { ERR_clear_error() }

    /// Returns the oldest error, usually the cause of the others, and clears the queue. Returns 0 if the queue is
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
