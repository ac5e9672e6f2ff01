import Configuration
import EventLoop
import Glibc
import Network
import TLS

/// One connection of a server of the bench's own, which owns its channel.
protocol ServedConnection: SecureChannelDelegate {
    var channel: SecureChannel? { get set }
}

/// A server of the bench's own over TLS, as a process.
struct TLSServerCommand {
    /// What it is told.
    struct Options: Sendable {
        var port = 0
        var certificateFile = ""
        var keyFile = ""
    }

    /// The first argument that makes `apns-bench` this process.
    let name: String
    let about: String
    /// As `TLS.ServerOptions.alpn`.
    let alpn: [String]

    private var table: OptionTable<Options> {
        OptionTable(
            command: "apns-bench \(name)", usage: ["OPTIONS"], about: [about],
            options: [
                .init("port", value: "PORT", "Where it listens, on 127.0.0.1.") { options, text throws(UsageError) in
                    options.port = try OptionValue.integer(text, 1...65_535)
                },
                .init("certificate", value: "FILE", "Its certificate.") { $0.certificateFile = $1 },
                .init("key", value: "FILE", "Its key.") { $0.keyFile = $1 },
            ])
    }

    /// Runs until SIGTERM, then prints what it has seen.
    func run(
        _ arguments: [String], accept: @escaping (Loop) -> any ServedConnection, seen: () -> String
    ) -> Int32 {
        runChild(table, arguments, Options(), prefix: "apns-bench \(name): ") { options in
            guard let certificate = contents(of: options.certificateFile), let key = contents(of: options.keyFile)
            else {
                throw BenchFailure("\(options.certificateFile) or \(options.keyFile) cannot be read")
            }
            let context = try ServerContext(
                TLS.ServerOptions(identity: Identity(certificatePEM: certificate, keyPEM: key), alpn: alpn))
            let loop = try Loop()
            let listener = try Listener(host: "127.0.0.1", port: UInt16(options.port), loop: loop) { accepted in
                let connection = accept(loop)
                connection.channel = SecureChannel(
                    accepted: accepted, context: context, loop: loop, delegate: connection)
            }
            let signals = try Signals([SIGTERM, SIGINT], loop: loop) { _ in loop.stop() }
            loop.run()
            withExtendedLifetime((listener, signals)) {}
            say(seen())
        }
    }
}
