internal import COpenSSL
internal import Glibc
internal import Synchronization

/// Writes the secrets of TLS sessions to a file in the NSS key log format, with which Wireshark decrypts what was
/// captured of them.
///
/// It holds for the whole process, as SSLKEYLOGFILE does in browsers and curl: call `start` before the first
/// `ClientContext` is made. Whoever has the file can read the traffic, so it is made with mode 0600. Any thread.
package enum KeyLog {
    /// The file's descriptor, or -1 while nothing is logged. It stays open until the process ends.
    private static let descriptor = Atomic<Int32>(-1)

    /// Appends to the file from now on.
    ///
    /// - Throws: `TLSError` of kind `credential` if the file cannot be opened.
    package static func start(_ path: String) throws(TLSError) {
        let opened = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0o600)
        guard opened >= 0 else {
            throw TLSError(.credential, "key log \(path): \(unsafe String(cString: strerror(errno)))")
        }
        let previous = descriptor.exchange(opened, ordering: .relaxed)
        if previous >= 0 { close(previous) }
    }

    /// Logs the secrets of the sessions of this context, if a log was started.
    static func observe(_ context: OpaquePointer) {
        guard descriptor.load(ordering: .relaxed) >= 0 else { return }
        // SSL_CTX_set_keylog_callback(3): the line has no line break. Called by the handshake, on its thread.
        unsafe SSL_CTX_set_keylog_callback(context) { _, line in
            guard let line = unsafe line else { return }
            unsafe KeyLog.append(line)
        }
    }

    /// One write(2) for the line and its break, so that lines of several threads do not mix. A line that cannot be
    /// written is lost: the log must not hold up a connection.
    private static func append(_ line: UnsafePointer<CChar>) {
        let count = unsafe strlen(line)
        unsafe withUnsafeTemporaryAllocation(byteCount: count + 1, alignment: 1) { whole in
            unsafe memcpy(whole.baseAddress!, line, count)
            unsafe whole[count] = UInt8(ascii: "\n")
            _ = unsafe Glibc.write(descriptor.load(ordering: .relaxed), whole.baseAddress!, whole.count)
        }
    }
}
