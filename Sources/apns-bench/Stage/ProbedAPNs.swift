import Glibc

/// The bench's own server in the place of APNs, which tells what it has seen.
final class ProbedAPNs {
    let address: PushAddress
    private let process: Child

    init(_ stage: Stage) throws {
        let port = try Ports.free(1)[0]
        let certificates = try stage.serverCertificates()
        address = certificates.address(port: port)
        process = try Child(
            "probe-server",
            [
                Programs.own.path, ProbeServerOptions.command, "--port", "\(port)", "--certificate",
                certificates.certificateFile, "--key", certificates.keyFile,
            ], scratch: stage.scratch)
        try awaitServing(port, by: process)
    }

    /// Ends it; its figures by name.
    func end() throws -> [String: Int] {
        process.signal(SIGTERM)
        _ = try process.wait(until: Deadline(seconds: 20))
        var figures: [String: Int] = [:]
        for line in process.output.split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2, let number = Int(words[1]) { figures[String(words[0])] = number }
        }
        return figures
    }
}
