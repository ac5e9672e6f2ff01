import CNghttp2
import COpenSSL
import Configuration
import Glibc

/// What the process of the bare send floor is told.
struct SendFloorOptions: Sendable {
    /// The first argument that makes `apns-bench` this process.
    static let command = "send-floor"

    var port = 0
    var authorityFile = ""
    var connections = 1
    var count = 0
    var devices = 1
    var timeoutSeconds = 600

    static let table = OptionTable<SendFloorOptions>(
        command: "apns-bench \(command)", usage: ["OPTIONS"],
        about: ["A bare nghttp2 and OpenSSL loop: posts requests, counts answers. apns-bench measures it."],
        options: [
            .init("port", value: "PORT", "The server's, on 127.0.0.1.") { options, text throws(UsageError) in
                options.port = try OptionValue.integer(text, 1...65_535)
            },
            .init("authority", value: "FILE", "Who signed its certificate.") { $0.authorityFile = $1 },
            .init("connections", value: "N", "Connections to it.") { options, text throws(UsageError) in
                options.connections = try OptionValue.integer(text, 1...64)
            },
            .init("count", value: "N", "Requests.") { options, text throws(UsageError) in
                options.count = try OptionValue.integer(text, 1...50_000_000)
            },
            .init("devices", value: "N", "Distinct device tokens.") { options, text throws(UsageError) in
                options.devices = try OptionValue.integer(text, 1...1_000_000)
            },
            .init("timeout", value: "SECONDS", "The longest it may take.") { options, text throws(UsageError) in
                options.timeoutSeconds = try OptionValue.integer(text, 1...86_400)
            },
        ])
}

/// `apns-bench send-floor`: prints the milliseconds from the first request to the last answer.
func runSendFloor(_ arguments: [String]) -> Int32 {
    runChild(SendFloorOptions.table, arguments, SendFloorOptions()) { say("\(try SendFloor($0).run())\n") }
}

/// The least that a program in C does with nghttp2 and OpenSSL for what the worker does with APNs: post each request,
/// read each answer. No queue, no window, nothing kept of a request but that it is open.
///
/// One thread, all connections in turn with poll(2).
private final class SendFloor {
    private let options: SendFloorOptions
    private let context: OpaquePointer
    private let requests: FloorRequests

    init(_ options: SendFloorOptions) throws(BenchFailure) {
        self.options = options
        guard let context = SSL_CTX_new(TLS_client_method()),
            SSL_CTX_load_verify_locations(context, options.authorityFile, nil) == 1
        else { throw BenchFailure("OpenSSL cannot read \(options.authorityFile)") }
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        let alpn: [UInt8] = [2, UInt8(ascii: "h"), UInt8(ascii: "2")]
        SSL_CTX_set_alpn_protos(context, alpn, UInt32(alpn.count))
        self.context = context
        requests = FloorRequests(count: options.count, devices: options.devices)
    }

    deinit { SSL_CTX_free(context) }

    func run() throws(BenchFailure) -> Int64 {
        var connections: [FloorConnection] = []
        for _ in 0..<options.connections {
            connections.append(try FloorConnection(context, port: options.port, requests))
        }
        let deadline = Deadline(seconds: options.timeoutSeconds)
        let startNs = Clocks.monotonicNs
        var watched = connections.map { pollfd(fd: $0.socket, events: Int16(POLLIN), revents: 0) }
        for connection in connections { try connection.turn() }
        while requests.answered < options.count {
            for index in watched.indices {
                watched[index].events = Int16(connections[index].isBlocked ? POLLIN | POLLOUT : POLLIN)
            }
            guard poll(&watched, nfds_t(watched.count), 1_000) >= 0 || errno == EINTR else {
                throw BenchFailure("poll: \(String(cString: strerror(errno)))")
            }
            for index in watched.indices where watched[index].revents != 0 { try connections[index].turn() }
            guard !deadline.isOver else {
                throw BenchFailure("not done in time: \(requests.answered) answered")
            }
        }
        guard requests.refused == 0 else {
            throw BenchFailure("\(requests.refused) requests were not answered with 200")
        }
        return (Clocks.monotonicNs - startNs) / 1_000_000
    }
}
