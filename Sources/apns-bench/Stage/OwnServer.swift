import Glibc

/// A server of the bench's own (`TLSServerCommand`), running.
struct OwnServer {
    let address: PushAddress
    private let process: Child

    /// - Parameter address: its address, by its port.
    init(
        _ command: TLSServerCommand, _ stage: Stage, address: (ServerCertificates, _ port: Int) -> PushAddress
    ) throws {
        let port = try Ports.free(1)[0]
        let certificates = try stage.serverCertificates()
        self.address = address(certificates, port)
        process = try Child(
            command.name,
            [
                Programs.own.path, command.name, "--port", "\(port)", "--certificate", certificates.certificateFile,
                "--key", certificates.keyFile,
            ], scratch: stage.scratch)
        try awaitServing(port, by: process)
    }

    /// Ends it; the lines that it printed.
    func end() throws -> [Substring] {
        process.signal(SIGTERM)
        _ = try process.wait(until: Deadline(seconds: 20))
        return process.output.split(separator: "\n")
    }

    var failure: BenchFailure { process.failure }
}
