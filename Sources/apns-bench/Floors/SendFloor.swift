import CNghttp2
import COpenSSL
import Glibc

/// The least that a program in C does with nghttp2 and OpenSSL for what the worker does with APNs: post each request,
/// read each answer. No queue, no window, nothing kept of a request but that it is open.
///
/// One thread, all connections in turn with poll(2).
///
/// `apns-bench send-floor PORT AUTHORITY CONNECTIONS COUNT DEVICES` prints the milliseconds from the first request to
/// the last answer.
final class SendFloor {
    private let port: Int
    private let connectionCount: Int
    private let context: OpaquePointer
    private let requests: FloorRequests

    init(_ words: [String]) throws(BenchFailure) {
        let numbers = words.map { Int($0) ?? 0 }
        guard numbers.count == 5 else { throw BenchFailure("send-floor takes five arguments") }
        port = numbers[0]
        connectionCount = numbers[2]
        guard let context = SSL_CTX_new(TLS_client_method()),
            SSL_CTX_load_verify_locations(context, words[1], nil) == 1
        else { throw BenchFailure("OpenSSL cannot read \(words[1])") }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        let alpn: [UInt8] = [2, UInt8(ascii: "h"), UInt8(ascii: "2")]
        SSL_CTX_set_alpn_protos(context, alpn, UInt32(alpn.count))
        self.context = context
        requests = FloorRequests(count: numbers[3], devices: numbers[4])
    }

    deinit { SSL_CTX_free(context) }

    func run() throws(BenchFailure) -> Int64 {
        var connections: [FloorConnection] = []
        for _ in 0..<connectionCount {
            connections.append(try FloorConnection(context, port: port, requests))
        }
        let startNs = Clocks.monotonicNs
        var watched = connections.map { pollfd(fd: $0.socket, events: Int16(POLLIN), revents: 0) }
        for connection in connections { try connection.turn() }
        while requests.answered < requests.count {
            for index in watched.indices {
                watched[index].events = Int16(connections[index].isBlocked ? POLLIN | POLLOUT : POLLIN)
            }
            guard poll(&watched, nfds_t(watched.count), 1_000) >= 0 || errno == EINTR else {
                throw BenchFailure("poll: \(String(cString: strerror(errno)))")
            }
            for index in watched.indices where watched[index].revents != 0 { try connections[index].turn() }
        }
        guard requests.refused == 0 else {
            throw BenchFailure("\(requests.refused) requests were not answered with 200")
        }
        return (Clocks.monotonicNs - startNs) / 1_000_000
    }
}

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
        socket = try connectToLoopback(port)
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

/// The requests of the bare send floor: the worker's header fields with random tokens and an apns-id that differs from
/// request to request, in memory made once.
final class FloorRequests {
    let count: Int
    private(set) var submitted = 0
    private(set) var answered = 0
    var refused = 0

    private static let fieldCount = 8
    private static let prefix: StaticString = "/3/device/"
    private static let pathSize = FloorRequests.prefix.utf8CodeUnitCount + TokenSource.size
    private let fields = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: FloorRequests.fieldCount)
    /// One path after the other.
    private let paths: UnsafeMutablePointer<UInt8>
    private let devices: Int
    private let id: UnsafeMutablePointer<UInt8>
    private var payload = PayloadText()

    init(count: Int, devices: Int) {
        self.count = count
        self.devices = devices
        paths = .allocate(capacity: devices * Self.pathSize)
        var source = TokenSource()
        for index in 0..<devices {
            let path = paths + index * Self.pathSize
            path.update(from: Self.prefix.utf8Start, count: Self.prefix.utf8CodeUnitCount)
            _ = source.next(into: path + Self.prefix.utf8CodeUnitCount)
        }
        id = Self.copy("00000000-0000-8000-8000-000000000000")
        let noIndex = NGHTTP2_NV_FLAG_NO_INDEX.rawValue
        let all: [(name: String, value: String, flags: UInt32)] = [
            (":method", "POST", 0), (":scheme", "https", 0), (":authority", "localhost", 0), (":path", "", noIndex),
            ("authorization", Traffic.authorization, 0), ("apns-topic", Traffic.bundleID, 0),
            ("apns-push-type", Traffic.pushType, 0), ("apns-id", "", noIndex),
        ]
        for (index, field) in all.enumerated() {
            let flags =
                field.flags | NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
            fields[index] = nghttp2_nv(
                name: Self.copy(field.name), value: Self.copy(field.value), namelen: field.name.utf8.count,
                valuelen: field.value.utf8.count, flags: UInt8(flags))
        }
        fields[7].value = id
        fields[7].valuelen = 36
        fields[3].valuelen = Self.pathSize
    }

    /// As long as the process.
    private static func copy(_ text: String) -> UnsafeMutablePointer<UInt8> {
        UnsafeMutableRawPointer(strdup(text)!).assumingMemoryBound(to: UInt8.self)
    }

    var isExhausted: Bool { submitted == count }

    /// Gives the next request to a session, which serializes it before the next one is given.
    func submit(to session: OpaquePointer) -> Int32 {
        fields[3].value = paths + submitted % devices * Self.pathSize
        var rest = submitted
        for place in stride(from: 35, through: 24, by: -1) {
            let digit = UInt8(rest & 15)
            id[place] = digit < 10 ? 48 + digit : 87 + digit
            rest >>= 4
        }
        payload.set(submitted)
        var body = nghttp2_data_provider(
            source: nghttp2_data_source(ptr: Unmanaged.passUnretained(self).toOpaque()), read_callback: Self.readBody)
        submitted += 1
        return nghttp2_submit_request(session, nil, fields, Self.fieldCount, &body, nil)
    }

    /// Called by nghttp2 from inside `nghttp2_session_mem_send`; a payload fits into any frame.
    private static let readBody: nghttp2_data_source_read_callback = { _, _, into, length, flags, source, _ in
        let requests = Unmanaged<FloorRequests>.fromOpaque(source!.pointee.ptr).takeUnretainedValue()
        let count = requests.payload.bytes.count
        guard count <= length else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        requests.payload.bytes.withUnsafeBytes { _ = memcpy(into!, $0.baseAddress!, count) }
        flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        return count
    }

    /// A stream ended.
    func noteEnd(wasFine: Bool) {
        answered += 1
        if !wasFine { refused += 1 }
    }
}
