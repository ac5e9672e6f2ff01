import Configuration
import EventLoop
import Glibc
import HTTP2
import Network
import TLS

/// What the process of the probe server is told.
struct ProbeServerOptions: Sendable {
    /// The first argument that makes `apns-bench` this process.
    static let command = "probe-server"

    var port = 0
    var certificateFile = ""
    var keyFile = ""

    static let table = OptionTable<ProbeServerOptions>(
        command: "apns-bench \(command)", usage: ["OPTIONS"],
        about: ["Answers 200 to every request, counts bytes of HEADERS, and looks when a request came."],
        options: [
            .init("port", value: "PORT", "Where it listens, on 127.0.0.1.") { options, text throws(UsageError) in
                options.port = try OptionValue.integer(text, 1...65_535)
            },
            .init("certificate", value: "FILE", "Its certificate.") { $0.certificateFile = $1 },
            .init("key", value: "FILE", "Its key.") { $0.keyFile = $1 },
        ])
}

/// `apns-bench probe-server`: runs until SIGTERM, then prints what it has seen: a name and a number a line.
func runProbeServer(_ arguments: [String]) -> Int32 {
    runChild(
        ProbeServerOptions.table, arguments, ProbeServerOptions(), prefix: "apns-bench probe-server: "
    ) { options in
        guard let certificate = contents(of: options.certificateFile), let key = contents(of: options.keyFile) else {
            throw BenchFailure("\(options.certificateFile) or \(options.keyFile) cannot be read")
        }
        let context = try ServerContext(
            ServerOptions(identity: Identity(certificatePEM: certificate, keyPEM: key)))
        let loop = try Loop()
        let counts = ProbeCounts()
        let listener = try Listener(host: "127.0.0.1", port: UInt16(options.port), loop: loop) { accepted in
            let connection = ProbeConnection(counts, loop)
            connection.channel = SecureChannel(accepted: accepted, context: context, loop: loop, delegate: connection)
        }
        let signals = try Signals([SIGTERM, SIGINT], loop: loop) { _ in loop.stop() }
        loop.run()
        withExtendedLifetime((listener, signals)) {}
        say(counts.text)
    }
}

/// What came over all connections.
final class ProbeCounts {
    var requests = 0
    /// Of HEADERS and CONTINUATION frames, without the nine bytes that begin each.
    var headerBytes = 0
    /// From `at_us` in a payload to the request's last byte here, in microseconds; those that have one.
    private var delaysUs: [Int32] = []
    private static let delayLimit = 4_000_000

    func note(delayUs: Int64) {
        if delaysUs.count < Self.delayLimit { delaysUs.append(Int32(clamping: delayUs)) }
    }

    var text: String {
        let times = Percentiles(ofMicroseconds: delaysUs)
        return """
            requests \(requests)
            header_bytes \(headerBytes)
            timed \(delaysUs.count)
            p50_us \(Int(times.p50 * 1_000))
            p99_us \(Int(times.p99 * 1_000))
            p999_us \(Int(times.p999 * 1_000))
            max_us \(delaysUs.max() ?? 0)

            """
    }
}
