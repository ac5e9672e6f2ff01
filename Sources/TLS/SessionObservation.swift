internal import COpenSSL

/// What passed through a session, for who looks on; never what is in it.
package enum SessionObservation: Sendable, Hashable {
    /// A TLS record; `type` by its header, which in TLS 1.3 says application data of all that is encrypted.
    case record(isSent: Bool, type: UInt8, length: Int)
    /// A message of the handshake, or after it (RFC 8446, 4).
    case handshake(isSent: Bool, type: UInt8, length: Int)
    case alert(isSent: Bool, isFatal: Bool, code: UInt8)

    /// `nil`: of no interest. Source: SSL_set_msg_callback(3).
    fileprivate init?(isSent: Bool, _ type: Int32, _ bytes: UnsafeRawBufferPointer) {
        switch (type, bytes.count) {
        case (SSL3_RT_HEADER, 5...):
            self = unsafe .record(isSent: isSent, type: bytes[0], length: Int(bytes[3]) << 8 | Int(bytes[4]))
        case (SSL3_RT_HANDSHAKE, 1...): self = unsafe .handshake(isSent: isSent, type: bytes[0], length: bytes.count)
        case (SSL3_RT_ALERT, 2...): self = unsafe .alert(isSent: isSent, isFatal: bytes[0] == 2, code: bytes[1])
        default: return nil
        }
    }
}

/// Who is told of a session's observations, as an object whose address OpenSSL can hold.
final class SessionWatcher {
    private let take: (SessionObservation) -> Void

    init(_ take: @escaping (SessionObservation) -> Void) { self.take = take }

    /// Tells it of what passes from now on. It has to live as long as the SSL.
    func watch(_ ssl: OpaquePointer) {
        unsafe SSL_set_msg_callback(ssl) { isSent, _, type, bytes, count, _, watcher in
            guard let watcher = unsafe watcher else { return }
            let bytes = unsafe UnsafeRawBufferPointer(start: bytes, count: count)
            guard let seen = unsafe SessionObservation(isSent: isSent != 0, type, bytes) else { return }
            unsafe Unmanaged<SessionWatcher>.fromOpaque(watcher).takeUnretainedValue().take(seen)
        }
        // SSL_set_msg_callback_arg(3) is a macro for this.
        _ = unsafe SSL_ctrl(ssl, SSL_CTRL_SET_MSG_CALLBACK_ARG, 0, Unmanaged.passUnretained(self).toOpaque())
    }
}
