import Foundation
import TestSupport
import Testing

@testable import APNsSimulator

/// A simulator that saves its keys to disk, for programs that read files.
private final class Served {
    private let folder: TemporaryFolder
    var directory: String { folder.path }
    let simulator: Simulator

    /// - Parameter firstStreams: h2load sends 100 requests before it has received the server's SETTINGS.
    init(firstStreams: UInt32 = 1) throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        simulator = try Simulator.with { ($0.directory, $0.firstStreams) = (folder.path, firstStreams) }
    }

    deinit { simulator.stop() }

    /// Options of a push that curl, nghttp and h2load have in common.
    func headers() throws -> [String] {
        ["-H", "authorization: \(try simulator.bearer())", "-H", "apns-topic: com.example.app"]
    }

    /// Writes a payload to a file and returns its path.
    func body(_ text: String) throws -> String { try folder.write(text, "body.json") }

    func url(_ token: String) -> String { "https://localhost:\(simulator.port)/3/device/\(token)" }
}

extension Trait where Self == ConditionTrait {
    fileprivate static func needs(_ program: String) -> Self {
        .enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/\(program)"), "needs /usr/bin/\(program)")
    }
}

@Suite(.timeLimit(.minutes(5)))
struct ForeignClientTests {
    @Test(.needs("curl"))
    func `curl sends pushes and receives the responses of APNs`() throws {
        let served = try Served()
        func push(_ token: String, _ more: String...) throws -> String {
            let arguments = [
                "-s", "--max-time", "180", "--http2", "--cacert", "\(served.directory)/ca.pem", "-D", "-", "-d",
                #"{"aps":{"alert":"Hi"}}"#,
            ]
            return try ChildProcess.run("curl", arguments + served.headers() + more + [served.url(token)]).text
        }
        let accepted = try push(plainToken, "-H", "apns-id: 123e4567-e89b-12d3-a456-42665544000a")
        #expect(accepted.hasPrefix("HTTP/2 200"))
        #expect(accepted.contains("apns-id: 123e4567-e89b-12d3-a456-42665544000a"))
        let dead = try push(token("fa174101", 255))
        #expect(dead.hasPrefix("HTTP/2 410"))
        #expect(dead.contains("content-type: application/json"))
        #expect(dead.hasSuffix(#"{"reason":"Unregistered","timestamp":1600000000255}"#))
        let twice = try push(plainToken, "-H", "apns-priority: 5", "-H", "apns-priority: 5")
        #expect(twice.hasSuffix(#"{"reason":"DuplicateHeaders"}"#))
        let got = try push(plainToken, "-X", "GET")
        #expect(got.hasPrefix("HTTP/2 405") && got.hasSuffix(#"{"reason":"MethodNotAllowed"}"#))
    }

    @Test(.needs("curl"))
    func `A client that does not trust the simulator or does not offer HTTP/2 cannot connect`() throws {
        let served = try Served()
        func ending(_ arguments: String...) throws -> ChildProcess.Ending {
            try ChildProcess.run("curl", ["-s", "--max-time", "180"] + arguments + [served.url(plainToken)]).ending
        }
        #expect(try ending("--http2") == .exited(60), "curl must reject the certificate")
        // A client with HTTP/1.1 only has no protocol in common with the simulator.
        #expect(try ending("--http1.1", "--cacert", "\(served.directory)/ca.pem") != .exited(0))
    }

    @Test(.needs("nghttp"))
    func `nghttp receives the SETTINGS of APNs`() throws {
        let served = try Served()
        let arguments = ["-nv", "--no-dep", "-t", "180", "-d", try served.body(#"{"aps":{}}"#)]
        let output = try ChildProcess.run("nghttp", arguments + served.headers() + [served.url(plainToken)]).text
        for text in [
            "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]", "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]",
            "[SETTINGS_HEADER_TABLE_SIZE(0x01):4096]", "[SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]",
            "[SETTINGS_MAX_FRAME_SIZE(0x05):16384]", "[SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000]", ":status: 200",
        ] {
            #expect(output.contains(text), "\(text)")
        }
    }

    @Test(.needs("h2load"))
    func `The books contain every request of h2load`() throws {
        let served = try Served(firstStreams: 1000)
        let arguments = ["-n", "10000", "-c", "4", "-m", "100", "-d", try served.body(#"{"aps":{"alert":"Hello"}}"#)]
        let output = try ChildProcess.run("h2load", arguments + served.headers() + [served.url(plainToken)]).text
        #expect(output.contains("10000 succeeded, 0 failed"), "\(output)")
        let totals = served.simulator.books.totals
        #expect(totals.accepted == 10_000 && totals.acceptedDistinct == 10_000 && totals.tokens == 1)
        #expect(totals.connections == 4)
        let dump = LocalHTTP.request("\(served.simulator.control)/accepted").body.split(separator: "\n")
        #expect(dump.count == 10_000)
        #expect(dump.allSatisfy { $0.hasSuffix(" \(plainToken) 1") && $0.count == 36 + 1 + 64 + 2 })
        #expect(LocalHTTP.request("\(served.simulator.control)/tokens").body == "\(plainToken) 10000 10000\n")
    }
}
