import Foundation
import TestSupport

/// `apns-worker simulate` as a process of its own.
struct RunningSimulator {
    let process: ChildProcess
    let port: Int
    /// Of the control endpoint.
    let control: String

    /// Starts it with its authority, its signing key and its books in the folder.
    ///
    /// - Parameter port: `nil`: one that is free.
    init(
        in folder: URL, port: Int? = nil, _ more: [String] = [], environment: [String: String] = [:]
    ) throws {
        let ports = KafkaBroker.freePorts(2)
        self.port = port ?? ports[0]
        control = "http://127.0.0.1:\(ports[1])"
        process = try ChildProcess(
            Tool.worker.path(),
            [
                "simulate", "--listen", "127.0.0.1:\(self.port)", "--control", "127.0.0.1:\(ports[1])", "--directory",
                folder.path,
            ] + more, environment: environment)
        try process.waitFor("listening", seconds: 20)
    }
}

extension Scene {
    /// Starts the simulator and points the configuration at it: its port, its authority, its signing key.
    func startSimulator(_ more: String...) throws -> RunningSimulator { try startSimulator(arguments: more) }

    func startSimulator(arguments more: [String], environment: [String: String] = [:]) throws -> RunningSimulator {
        let simulator = try RunningSimulator(in: folder, more, environment: environment)
        configuration.port = simulator.port
        return simulator
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
        try awaitListener(port, of: server)
        configuration.port = port
        configuration.caFile = "server.pem"
        return server
    }

    /// Until something accepts connections on the port: nghttpd says so only once its output fills a buffer.
    private func awaitListener(_ port: Int, of server: ChildProcess) throws {
        let deadline = Date(timeIntervalSinceNow: 20)
        while !canConnect(port) {
            guard server.ended == nil, Date() < deadline else {
                throw Unexpected("nothing listens on port \(port): \(server.text)")
            }
            usleep(20_000)
        }
    }

    private func canConnect(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
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
