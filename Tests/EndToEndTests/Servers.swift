import Foundation
import TestSupport

/// `apns-worker simulate` as a process of its own.
struct RunningSimulator {
    let process: ChildProcess
    /// Of the control endpoint.
    let control: String
}

extension Scene {
    /// Starts the simulator and points the configuration at it: its port, its authority, its signing key.
    func startSimulator(_ more: String...) throws -> RunningSimulator {
        let ports = KafkaBroker.freePorts(2)
        let process = try ChildProcess(
            Tool.worker.path(),
            [
                "simulate", "--listen", "127.0.0.1:\(ports[0])", "--control", "127.0.0.1:\(ports[1])", "--directory",
                folder.path,
            ] + more)
        try process.waitFor("listening", seconds: 20)
        configuration.port = ports[0]
        return RunningSimulator(process: process, control: "http://127.0.0.1:\(ports[1])")
    }

    /// The file with the simulator's table of token prefixes, as its help prints it.
    func prefixes() throws -> String {
        let help = try Self.run(Tool.worker.path(), ["simulate", "--help"])
        try write(help.text, to: "simulate-help.txt")
        return file("simulate-help.txt")
    }

    /// Starts nghttp2's own server, with an empty file for each device token it is to know, and points the
    /// configuration at it. It accepts any provider token.
    func startForeignServer(knownTokens count: Int) throws -> ChildProcess {
        let root = folder.appending(path: "htdocs/3/device")
        try FileManager.default.createDirectory(at: root, withIntermediateDirectories: true)
        var tokens = ""
        for number in 0..<count {
            let token = hex(number, digits: 8) + String(repeating: "5a", count: 28)
            guard FileManager.default.createFile(atPath: root.appending(path: token).path, contents: nil) else {
                throw Unexpected("no file can be made in \(root.path)")
            }
            tokens += token + "\n"
        }
        try write(tokens, to: "known.txt")
        try makeCertificate()
        try makeSigningKey(configuration.keyFile)
        let port = KafkaBroker.freePorts(1)[0]
        let server = try ChildProcess(
            Tool.nghttpd.path(),
            [
                "-a", "127.0.0.1", "-m", "1000", "-d", folder.appending(path: "htdocs").path, "\(port)",
                file("server.key"), file("server.pem"),
            ])
        try server.waitFor("listen", seconds: 20)
        configuration.port = port
        configuration.caFile = "server.pem"
        return server
    }

    /// A certificate for localhost that signs itself: `server.pem` and `server.key`.
    func makeCertificate() throws {
        try openssl(
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", file("server.key"), "-out", file("server.pem"))
    }

    /// A key as Apple gives them out: P-256, PKCS#8, PEM.
    func makeSigningKey(_ name: String) throws {
        try openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file(name))
    }

    private func openssl(_ arguments: String...) throws {
        let ended = try Self.run(Tool.openssl.path(), arguments)
        guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
    }
}

func hex(_ number: Int, digits: Int) -> String {
    let text = String(number, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
