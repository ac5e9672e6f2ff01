import Foundation
import TestSupport

/// A running `apns-worker simulate` process.
struct RunningSimulator {
    let process: ChildProcess
    let port: Int
    /// The address of the control endpoint.
    let control: String

    /// Starts the simulator, with its authority, signing key and books in the folder.
    ///
    /// - Parameter port: the port, or 0 for any free one. A test that restarts the simulator on the same port must
    ///   claim it first (`Ports`).
    init(in folder: URL, port: Int = 0, _ more: [String] = []) throws {
        process = try ChildProcess(
            Tool.worker.path(),
            ["simulate", "--listen", "127.0.0.1:\(port)", "--control", "0", "--directory", folder.path] + more)
        try process.waitFor("listening;")
        self.port = try process.port(after: "APNs simulator on")
        control = "http://127.0.0.1:\(try process.port(after: "control endpoint:"))"
    }

    // MARK: The control endpoint

    /// Changes the simulator's behavior from now on: `latency=50ms`, `fault=goaway@100&streams=1`.
    func set(_ faults: String) throws {
        let answer = LocalHTTP.request("\(control)/faults?\(faults)", method: "POST")
        guard answer.status == 200 else { throw Unexpected("\(faults): \(answer)\n\(process.text.suffix(2_000))") }
    }

    struct Totals: Decodable {
        var requests: Int
        var accepted: Int
    }

    func totals() throws -> Totals {
        let answer = LocalHTTP.request("\(control)/totals")
        guard answer.status == 200 else { throw Unexpected("\(answer)\n\(process.text.suffix(2_000))") }
        return try JSONDecoder().decode(Totals.self, from: Data(answer.body.utf8))
    }

    func awaitRequests(_ count: Int) throws {
        try eventually("\(count) requests at the server", of: process) { try totals().requests >= count }
    }

    /// Waits until the simulator has accepted `count` more notifications than now.
    func awaitAccepted(more count: Int) throws {
        let wanted = try totals().accepted + count
        try eventually("\(wanted) notifications accepted", of: process) { try totals().accepted >= wanted }
    }
}

extension ChildProcess {
    /// Returns the port at the end of the line that begins with these words.
    func port(after words: String) throws -> Int {
        let line = text.split(separator: "\n").first { $0.hasPrefix(words) }
        guard let port = line?.firstMatch(of: /:(\d+)\/?$/).flatMap({ Int($0.1) }) else {
            throw Unexpected("no port after “\(words)”:\n\(text)")
        }
        return port
    }
}

/// Repeats a check until it succeeds.
///
/// - Parameter process: a process whose end also ends the wait, and whose output is part of the error.
func eventually(
    _ what: @autoclosure () -> String, of process: ChildProcess? = nil, _ holds: () throws -> Bool
) throws {
    var isDone = false
    _ = try waitUntil(everyMs: 100) {
        isDone = try holds()
        return isDone || process?.ended != nil
    }
    // The check may succeed only after the process has ended.
    guard try isDone || process?.ended != nil && holds() else {
        let ending = process?.ended.map { ", and it ended (\($0))" } ?? ""
        throw Unexpected("\(what()) did not come\(ending):\n\(process?.text.suffix(8_000) ?? "")")
    }
}

extension Scene {
    /// Starts the simulator, and sets its port, authority and signing key in the configuration.
    func startSimulator(_ more: String...) throws -> RunningSimulator {
        let simulator = try startOtherSimulator(arguments: more)
        configuration.port = simulator.port
        return simulator
    }

    /// Starts a simulator without changing the configuration.
    func startOtherSimulator(port: Int = 0, arguments more: [String]) throws -> RunningSimulator {
        let simulator = try RunningSimulator(in: folder, port: port, more)
        keep(simulator.process)
        return simulator
    }

    /// Runs `send --direct` with the configuration.
    func sendDirectly(_ more: String...) throws -> Finished {
        try configure()
        return try command("send --direct -t \(deviceTokens(1, "80fe")[0]) -a Hi", more)
    }

    /// Returns the path of a file with the simulator's table of token prefixes, taken from its help.
    func prefixes() throws -> String {
        let help = try ChildProcess.run(Tool.worker.path(), ["simulate", "--help"])
        try write(help.text, to: "simulate-help.txt")
        return file("simulate-help.txt")
    }

    // MARK: Keys and certificates

    /// Creates a certificate that an authority in the folder signs, or a self-signed one: `NAME.pem` and
    /// `NAME-key.pem`.
    func makeCertificate(_ name: String, by authority: String? = nil, subject: String, _ more: String...) throws {
        let signer = authority.map { ["-CA", file("\($0).pem"), "-CAkey", file("\($0)-key.pem")] } ?? []
        try openssl(
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "90",
                "-subj", subject, "-keyout", file("\(name)-key.pem"), "-out", file("\(name).pem"),
            ] + signer + more)
    }

    /// Creates a signing key in Apple's format: P-256, PKCS#8, PEM.
    func makeSigningKey(_ name: String) throws {
        try openssl(["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file(name)])
    }

    private func openssl(_ arguments: [String]) throws {
        let ended = try ChildProcess.run(Tool.openssl.path(), arguments)
        guard ended.ending == .exited(0) else { throw Unexpected(ended.text) }
    }
}

/// The admin pages of a running worker.
struct Pages {
    let address: String
    let worker: ChildProcess

    /// Waits until the worker has logged their address.
    init(of worker: ChildProcess) throws {
        try worker.waitFor("admin pages address=")
        // A worker that its supervisor has restarted has another address.
        guard let match = worker.text.matches(of: /admin pages address=(\S+)/).last else {
            throw Unexpected("no address of the admin pages:\n\(worker.text)")
        }
        address = "http://\(match.1)"
        self.worker = worker
    }

    /// Returns the current status code and text of a page. The content may be a second old, so wait for an expected
    /// state.
    func get(_ path: String) throws -> (Int, String) { LocalHTTP.request(address + path) }

    /// Reads a page until it is as expected, and returns its text. Throws an error with the last content.
    @discardableResult
    func await(_ path: String, _ isAsItShouldBe: ((Int, String)) throws -> Bool) throws -> String {
        var last = (0, "")
        try eventually("\(path) said \(last.0): \(last.1)\nwhat was expected", of: worker) {
            last = try get(path)
            return try isAsItShouldBe(last)
        }
        return last.1
    }

    /// Reads a page until it contains these texts.
    @discardableResult
    func await(_ path: String, says texts: String...) throws -> String {
        try self.await(path) { texts.allSatisfy($0.1.contains) }
    }

    struct Problem: Decodable {
        var subject: String
        var text: String
        var advice: String
    }

    static func problems(in status: String) -> [Problem] {
        struct Status: Decodable { var problems: [Problem] }
        return (try? JSONDecoder().decode(Status.self, from: Data(status.utf8)))?.problems ?? []
    }

    /// Returns the sum of a metric's samples, or of those with a label such as `app="shop"`.
    static func sum(_ name: String, _ label: String = "", in metrics: String) -> Int {
        metrics.split(separator: "\n").filter { $0.hasPrefix(name + "{") && (label.isEmpty || $0.contains(label)) }
            .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
    }
}

/// Returns device tokens that end with the numbers from `first` on.
func deviceTokens(_ count: Int, _ prefix: String = "", from first: Int = 0) -> [String] {
    (first..<first + count).map { prefix + hex($0, digits: 64 - prefix.count) }
}

func hex(_ number: Int, digits: Int) -> String {
    let text = String(number, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
}
