import Glibc

/// The bench's own gateway of the binary protocol, which takes everything.
final class GatewaySink {
    let address: PushAddress
    private let process: Child

    init(_ stage: Stage) throws {
        let port = try Ports.free(1)[0]
        let certificates = try stage.serverCertificates()
        address = certificates.gateway(port: port)
        process = try Child(
            "gateway-sink",
            [
                Programs.own.path, SinkServerOptions.command, "--port", "\(port)", "--certificate",
                certificates.certificateFile, "--key", certificates.keyFile,
            ], scratch: stage.scratch)
        try awaitServing(port, by: process)
    }

    /// Ends it.
    ///
    /// - Returns: how many notifications it has taken.
    func end() throws -> Int {
        process.signal(SIGTERM)
        _ = try process.wait(until: Deadline(seconds: 20))
        guard let count = process.output.split(separator: "\n").last.flatMap({ Int($0) }) else { throw process.failure }
        return count
    }
}
