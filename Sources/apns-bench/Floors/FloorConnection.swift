import CNghttp2
import COpenSSL
import Glibc

/// One connection of the bare send floor: a socket that OpenSSL reads and writes itself, and an nghttp2 session whose
/// output is gathered to 16 KB for each write.
final class FloorConnection {
    let socket: Int32
    /// The kernel takes no more for now.
    private(set) var isBlocked = false

    private static let recordSize = 16_384
    private let ssl: OpaquePointer
    private var session: OpaquePointer!
    private let requests: FloorRequests
    private let input = UnsafeMutablePointer<UInt8>.allocate(capacity: FloorConnection.recordSize)
    /// A record, and room for the frame that fills it.
    private let output = UnsafeMutablePointer<UInt8>.allocate(capacity: 3 * FloorConnection.recordSize)
    private var outputCount = 0
    private var open = 0
    /// No request before the server has said how many.
    private var streams = 0

    /// Connects and shakes hands.
    init(_ context: OpaquePointer, port: Int, _ requests: FloorRequests) throws(BenchFailure) {
        self.requests = requests
        socket = try Ports.connect(port)
        ssl = SSL_new(context)
        SSL_set_fd(ssl, socket)
        openssl_set_server_name(ssl, "localhost")
        guard SSL_connect(ssl) == 1 else { throw BenchFailure("the TLS handshake with port \(port) failed") }
        // SSL_CTX_set_mode(3), a macro: partial writes, from a buffer that may move.
        SSL_ctrl(ssl, SSL_CTRL_MODE, 1 | 2, nil)
        _ = fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK)
        var raw: OpaquePointer?
        nghttp2_session_client_new(&raw, Self.callbacks, Unmanaged.passUnretained(self).toOpaque())
        session = raw
        var noPush = nghttp2_settings_entry(
            settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0)
        nghttp2_submit_settings(session, 0, &noPush, 1)
    }

    deinit {
        nghttp2_session_del(session)
        SSL_free(ssl)
        close(socket)
        input.deallocate()
        output.deallocate()
    }

    /// Reads what there is, and sends as many requests as there are streams.
    func turn() throws(BenchFailure) {
        isBlocked = false
        try receive()
        try gather()
        while open < streams, !requests.isExhausted, !isBlocked {
            guard requests.submit(to: session) > 0 else { throw BenchFailure("nghttp2 took no request") }
            open += 1
            try gather()
        }
        try write(all: true)
    }

    private func receive() throws(BenchFailure) {
        while true {
            let count = SSL_read(ssl, input, Int32(Self.recordSize))
            guard count > 0 else {
                let error = SSL_get_error(ssl, count)
                if error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE { return }
                throw BenchFailure("the server ended the connection")
            }
            guard nghttp2_session_mem_recv(session, input, Int(count)) == Int(count) else {
                throw BenchFailure("nghttp2 refused what the server said")
            }
        }
    }

    /// Takes all that the session has to say.
    private func gather() throws(BenchFailure) {
        while outputCount < 2 * Self.recordSize {
            var bytes: UnsafePointer<UInt8>?
            let count = nghttp2_session_mem_send(session, &bytes)
            guard count >= 0 else { throw BenchFailure("nghttp2 has no memory") }
            if count == 0 { break }
            precondition(count <= Self.recordSize + 9, "a frame is no larger than SETTINGS_MAX_FRAME_SIZE")
            (output + outputCount).update(from: bytes!, count: count)
            outputCount += count
        }
        try write(all: false)
    }

    /// - Parameter all: also what does not fill a record.
    private func write(all: Bool) throws(BenchFailure) {
        var start = 0
        while outputCount - start >= Self.recordSize || all && outputCount > start {
            let count = SSL_write(ssl, output + start, Int32(min(outputCount - start, Self.recordSize)))
            guard count > 0 else {
                let error = SSL_get_error(ssl, count)
                guard error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ else {
                    throw BenchFailure("the server ended the connection")
                }
                isBlocked = true
                break
            }
            start += Int(count)
        }
        if start > 0 {
            outputCount -= start
            memmove(output, output + start, outputCount)
        }
    }

    // MARK: What nghttp2 calls, from inside `nghttp2_session_mem_recv`

    nonisolated(unsafe) private static let callbacks: OpaquePointer = {
        var raw: OpaquePointer?
        nghttp2_session_callbacks_new(&raw)
        let callbacks = raw!
        nghttp2_session_callbacks_set_on_header_callback2(callbacks) { _, frame, name, value, _, user in
            guard frame!.pointee.hd.type == UInt8(NGHTTP2_HEADERS.rawValue),
                nghttp2_rcbuf_get_buf(name).len == 7, nghttp2_rcbuf_get_buf(name).base[0] == UInt8(ascii: ":")
            else { return 0 }
            let status = nghttp2_rcbuf_get_buf(value)
            if status.len != 3 || memcmp(status.base, "200", 3) != 0 { FloorConnection.at(user).requests.refused += 1 }
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, user in
            guard frame!.pointee.hd.type == UInt8(NGHTTP2_SETTINGS.rawValue) else { return 0 }
            let limit = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS)
            FloorConnection.at(user).streams = Int(min(limit, 1_000))
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, _, code, user in
            let connection = FloorConnection.at(user)
            connection.open -= 1
            connection.requests.noteEnd(wasFine: code == 0)
            return 0
        }
        return callbacks
    }()

    private static func at(_ user: UnsafeMutableRawPointer?) -> FloorConnection {
        Unmanaged<FloorConnection>.fromOpaque(user!).takeUnretainedValue()
    }
}
