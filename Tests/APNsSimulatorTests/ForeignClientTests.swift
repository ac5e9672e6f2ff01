import Foundation
import HTTPServer
import Network
import Testing

@testable import APNsSimulator

/// A program of the distribution.
struct Tool {
    var output: String
    var exit: Int32

    static func isThere(_ name: String) -> Bool { FileManager.default.isExecutableFile(atPath: "/usr/bin/\(name)") }

    init(_ name: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/\(name)")
        process.arguments = arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        exit = process.terminationStatus
    }
}

/// A simulator with its keys on disk, for programs that read files.
final class Served {
    let directory: String
    let simulator: Simulator

    /// - Parameter firstStreams: nghttp2's clients send 100 requests before they have seen the server's SETTINGS.
    init(firstStreams: UInt32 = 1) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "simulator-\(UUID().uuidString)").path
        var options = SimulatorOptions()
        options.directory = directory
        options.firstStreams = firstStreams
        simulator = try Simulator(options)
    }

    deinit {
        simulator.stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    var control: String { "http://127.0.0.1:\(simulator.controlPort!)" }
    func url(_ token: String) -> String { "https://localhost:\(simulator.port)/3/device/\(token)" }

    func curl(_ arguments: String...) throws -> Tool { try Tool("curl", ["-s", "--max-time", "20"] + arguments) }
}

@Suite(.timeLimit(.minutes(5)))
struct ForeignClientTests {
    @Test(.enabled(if: Tool.isThere("curl"), "needs /usr/bin/curl"))
    func `curl sends a push`() throws {
        let served = try Served()
        func push(_ token: String, _ more: String...) throws -> Tool {
            try Tool(
                "curl",
                [
                    "-s", "--max-time", "20", "--http2", "--cacert", "\(served.directory)/ca.pem", "-D", "-", "-d",
                    #"{"aps":{"alert":"Hi"}}"#, "-H", "authorization: \(served.simulator.bearer())", "-H",
                    "apns-topic: com.example.app",
                ] + more + [served.url(token)])
        }
        let accepted = try push(plainToken, "-H", "apns-id: 123e4567-e89b-12d3-a456-42665544000a")
        #expect(accepted.output.hasPrefix("HTTP/2 200"))
        #expect(accepted.output.contains("apns-id: 123e4567-e89b-12d3-a456-42665544000a"))
        let dead = try push(token("fa174101", 255))
        #expect(dead.output.hasPrefix("HTTP/2 410"))
        #expect(dead.output.contains("content-type: application/json"))
        #expect(dead.output.hasSuffix(#"{"reason":"Unregistered","timestamp":1600000000255}"#))
        let twice = try push(plainToken, "-H", "apns-priority: 5", "-H", "apns-priority: 5")
        #expect(twice.output.hasSuffix(#"{"reason":"DuplicateHeaders"}"#))
        let got = try push(plainToken, "-X", "GET")
        #expect(got.output.hasPrefix("HTTP/2 405") && got.output.hasSuffix(#"{"reason":"MethodNotAllowed"}"#))
    }

    @Test(.enabled(if: Tool.isThere("curl"), "needs /usr/bin/curl"))
    func `A client without trust or HTTP/2 is refused`() throws {
        let served = try Served()
        #expect(try served.curl("--http2", served.url(plainToken)).exit == 60, "certificate not trusted")
        // HTTP/1.1 only: no protocol in common.
        let old = try served.curl("--http1.1", "--cacert", "\(served.directory)/ca.pem", served.url(plainToken))
        #expect(old.exit != 0)
    }

    @Test(.enabled(if: Tool.isThere("nghttp"), "needs /usr/bin/nghttp"))
    func `nghttp sees Apple's settings`() throws {
        let served = try Served()
        let data = "\(served.directory)/body.json"
        try #"{"aps":{}}"#.write(toFile: data, atomically: true, encoding: .utf8)
        let run = try Tool(
            "nghttp",
            [
                "-nv", "--no-dep", "-t", "20", "-d", data, "-H", "authorization: \(try served.simulator.bearer())",
                "-H",
                "apns-topic: com.example.app", served.url(plainToken),
            ])
        for text in [
            "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]", "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]",
            "[SETTINGS_HEADER_TABLE_SIZE(0x01):4096]", "[SETTINGS_INITIAL_WINDOW_SIZE(0x04):65535]",
            "[SETTINGS_MAX_FRAME_SIZE(0x05):16384]", "[SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000]", ":status: 200",
        ] {
            #expect(run.output.contains(text), "\(text)")
        }
    }

    @Test(.enabled(if: Tool.isThere("h2load"), "needs /usr/bin/h2load"))
    func `h2load and the books agree`() throws {
        let served = try Served(firstStreams: 1000)
        let data = "\(served.directory)/body.json"
        try #"{"aps":{"alert":"Hello"}}"#.write(toFile: data, atomically: true, encoding: .utf8)
        let authorization = try served.simulator.bearer()
        let run = try Tool(
            "h2load",
            [
                "-n", "10000", "-c", "4", "-m", "100", "-d", data, "-H", "authorization: \(authorization)", "-H",
                "apns-topic: com.example.app", "-H", "apns-push-type: alert", served.url(plainToken),
            ])
        #expect(run.output.contains("10000 succeeded, 0 failed"), "\(run.output)")
        let totals = served.simulator.books.totals
        #expect(totals.accepted == 10_000 && totals.acceptedDistinct == 10_000 && totals.tokens == 1)
        #expect(totals.connections == 4)
        let dump = try served.curl("\(served.control)/accepted").output.split(separator: "\n")
        #expect(dump.count == 10_000)
        #expect(dump.allSatisfy { $0.hasSuffix(" \(plainToken) 1") && $0.count == 36 + 1 + 64 + 2 })
        #expect(try served.curl("\(served.control)/tokens").output == "\(plainToken) 10000 10000\n")
    }
}

@Suite(.timeLimit(.minutes(5)), .enabled(if: Tool.isThere("curl"), "needs /usr/bin/curl"))
struct ControlPagesTests {
    @Test func `Totals are JSON and reset`() throws {
        let served = try Served()
        let provider = try served.simulator.provider()
        try provider.push(1, token: token("fa174101"))
        #expect(provider.run { provider.responses.count == 2 })
        func totals(_ text: String) throws -> NSDictionary {
            try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary)
        }
        let before = try totals(served.curl("\(served.control)/totals").output)
        #expect(before["requests"] as? Int == 2 && before["accepted"] as? Int == 1 && before["refused"] as? Int == 1)
        #expect(before["reasons"] as? NSDictionary == ["Unregistered": 1])
        #expect(before["open_connections"] as? Int == 1)
        let after = try totals(served.curl("-X", "POST", "\(served.control)/reset").output)
        #expect(after["requests"] as? Int == 0 && after["open_connections"] as? Int == 1)
        #expect(try served.curl("\(served.control)/received").output == "")
    }

    @Test func `One token can be looked up`() throws {
        let served = try Served()
        let provider = try served.simulator.provider()
        try provider.push(1, token: token("ABCD"))
        #expect(provider.run { provider.responses.count == 2 })
        #expect(
            try served.curl("\(served.control)/token?token=\(token("abcd"))").output
                == "{\"arrived\":1,\"accepted\":1}\n")
    }

    @Test func `Faults are set, shown and removed`() throws {
        let served = try Served()
        let page = "\(served.control)/faults"
        #expect(try served.curl(page).output == "{\"latency\":\"0\",\"streams\":1000,\"faults\":[]}\n")
        let set = try served.curl("-X", "POST", "\(page)?latency=20ms..80ms&fault=goaway@10000&fault=no-answer@5s")
            .output
        #expect(set == "{\"latency\":\"20ms..80ms\",\"streams\":1000,\"faults\":[\"goaway@10000\",\"no-answer@5s\"]}\n")
        #expect(
            try served.curl("-X", "POST", "\(page)?latency=0").output
                == "{\"latency\":\"0\",\"streams\":1000,\"faults\":[\"goaway@10000\",\"no-answer@5s\"]}\n")
        #expect(
            try served.curl("-X", "POST", "\(page)?fault=&gateway=slow=100&gateway=close@9").output
                == "{\"latency\":\"0\",\"streams\":1000,\"faults\":[],\"gateway\":[\"slow=100\",\"close@9\"]}\n")
        #expect(
            try served.curl("-X", "POST", "\(page)?gateway=").output
                == "{\"latency\":\"0\",\"streams\":1000,\"faults\":[]}\n")
    }

    @Test(arguments: [
        ("/faults?latency=soon", "latency 'soon'"), ("/faults?fault=goaway", "fault 'goaway'"),
        ("/faults?gateway=close", "gateway fault 'close'"),
        ("/faults?fault=x@1", "no fault 'x'"), ("/faults?streams=few", "streams 'few'"),
        ("/faults?falt=goaway@1", "no parameter 'falt'"),
        ("/now", "which fault?"), ("/now?fault=x", "which fault?"), ("/now?fault=no-answer", "is a fault of a request"),
    ])
    func `A wrong parameter is named`(page: String, words: String) throws {
        let served = try Served()
        let answer = try served.curl("-X", "POST", "-w", "%{http_code}", served.control + page).output
        #expect(answer.contains(words) && answer.hasSuffix("400"))
    }

    @Test func `The help names every page`() throws {
        let served = try Served()
        let help = try served.curl("\(served.control)/").output
        let pages = ControlPages(books: served.simulator.books, switches: served.simulator.switches).routes
        for route in pages where route.path != "/" {
            let name = route.method == .get ? "GET  " : "POST "
            #expect(help.contains(name + route.path))
        }
    }
}
