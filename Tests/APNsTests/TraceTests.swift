import Foundation
import JSON
import Network
import Synchronization
import Testing

@testable import APNs

/// What a trace keeps, and above all what it does not.
@Suite struct TraceTests {
    private static let token = String(repeating: "80fe", count: 16)
    private static let jwt = "eyJhbGciOiJFUzI1NiJ9." + String(repeating: "Q7x-", count: 40)

    /// A file of its own, removed at the end.
    private final class Folder: Sendable {
        let path = FileManager.default.temporaryDirectory.appending(path: "trace-\(UUID().uuidString)").path
        private let ends = Mutex<[String]>([])

        var said: [String] { ends.withLock { $0 } }

        func open(limit: Int = TraceFile.limit) throws -> TraceFile {
            try TraceFile(path, command: "test", version: "0", limit: limit) { [weak self] line in
                self?.ends.withLock { $0.append(line) }
            }
        }

        func lines() throws -> [[String: Any]] {
            try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n").map {
                try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any], "\($0)")
            }
        }

        deinit { unlink(path) }
    }

    @Test(
        arguments: [
            (":path", "/3/device/\(token)", "/3/device/80fe80fe… (64 characters)"),
            (":path", "/4/broadcasts/apps/com.example.shop", "/4/broadcasts/apps/com.example.shop"),
            ("authorization", "bearer \(jwt)", "bearer (\(7 + jwt.count) bytes)"),
            ("authorization", jwt, "(\(jwt.count) bytes)"),
            ("apns-topic", "com.example.shop", "com.example.shop"), ("apns-collapse-id", "Ms Smith", "(8 bytes)"),
            ("apns-id", "eabeae54-14a8-11e5-b60b-1697f925ec7b", "eabeae54-14a8-11e5-b60b-1697f925ec7b"),
            ("apns-channel-id", "dHN0LXNyY2gtY2hubA==", "(20 bytes)"), ("anything-else", "secret", "(6 bytes)"),
        ])
    func aRequestsFieldIsCut(name: String, value: String, expected: String) {
        #expect(TraceText.sent(name, Array(value.utf8)) == expected)
    }

    /// A server, or a proxy in its place, may repeat what it was sent.
    @Test(
        arguments: [
            (#"{"reason":"BadDeviceToken"}"#, #"{"reason":"BadDeviceToken"}"#),
            ("eabeae54-14a8-11e5-b60b-1697f925ec7b", "eabeae54-14a8-11e5-b60b-1697f925ec7b"),
            ("no \(token)!", "no 80fe80fe… (64 characters)!"),
            ("/3/device/\(token)", "/3/devic… (74 characters)"),
            ("x\(token.prefix(32))", "x80fe80f… (33 characters)"), ("\(token.prefix(31))", "\(token.prefix(31))"),
            ("Bearer \(jwt) é", "Bearer eyJhbGci… (\(jwt.count) characters) é"), ("", ""),
        ])
    func whatAPeerRepeatsIsCut(text: String, expected: String) {
        #expect(TraceText.received(Array(text.utf8)) == expected)
    }

    @Test func aConnectionIsKeptLineByLine() throws {
        let folder = Folder()
        let file = try folder.open()
        let target = DialTarget(
            host: "push.example", port: 443, proxy: .init(host: "::1", port: 3128, credentials: "user:secret"))
        let trace = ConnectionTrace(Trace(file, app: "shop"), target)
        let goAway: [UInt8] =
            [0, 0, 8 + 30, 7, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0] + Array(#"{"reason":"BadCertificate"}   "#.utf8)
        let settings: [UInt8] = [0, 0, 12, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 3, 0xE8, 0, 9, 0, 0, 0, 1]
        (settings + goAway).withUnsafeBytes { trace.received($0) }
        trace.closed(ChannelEnd(.lost, "push.example:443: lost"))
        let lines = try folder.lines()
        #expect(lines.map { $0["event"] as? String } == ["begin", "dial", "frame", "frame", "closed"])
        #expect(lines[0]["command"] as? String == "test" && lines[0]["at_ms"] is Int)
        #expect(lines.dropFirst().allSatisfy { $0["connection"] as? Int == 1 && $0["us"] is Int })
        #expect(lines[1]["proxy"] as? String == "[::1]:3128" && lines[1]["app"] as? String == "shop")
        #expect(lines[2]["type"] as? String == "SETTINGS")
        #expect(lines[2]["settings"] as? [String: Int] == ["MAX_CONCURRENT_STREAMS": 1_000, "9": 1])
        #expect(lines[3]["code"] as? String == "NO_ERROR" && lines[3]["last_stream"] as? Int == 5)
        #expect((lines[3]["body"] as? String)?.hasPrefix(#"{"reason":"BadCertificate"}"#) == true)
        #expect(lines[4]["reason"] as? String == "push.example:443: lost")
        #expect(ConnectionTraceSecret.isAbsent("secret", in: folder.path))
    }

    /// The file never has more than its limit, its last line says why it ends, and so does its owner's line, once.
    @Test func aFullTraceSaysSoAndStops() throws {
        let folder = Folder()
        let file = try folder.open(limit: 8_192)
        for number in 0..<1_000 { file.append("frame") { $0.member("connection", number) } }
        let lines = try folder.lines()
        #expect(lines.last?["event"] as? String == "end")
        #expect((lines.last?["reason"] as? String)?.hasPrefix("it has reached its limit") == true)
        let size = try FileManager.default.attributesOfItem(atPath: folder.path)[.size] as? Int
        #expect(try #require(size) <= 8_192 && lines.count > 100)
        #expect(folder.said.count == 1)
        #expect(throws: TraceFile.Failure.self) { try folder.open(limit: 8_192) }
        // Where there is room, the next one goes on behind it.
        _ = try folder.open()
        #expect(try folder.lines().last?["event"] as? String == "begin")
        let mode = try FileManager.default.attributesOfItem(atPath: folder.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test(arguments: ["/", "/dev/null", "/nowhere/trace"])
    func whatIsNoFileIsRefused(path: String) {
        #expect {
            _ = try TraceFile(path, command: "test", version: "0") { _ in }
        } throws: {
            "\($0)".hasPrefix("trace \(path): ")
        }
    }
}

private enum ConnectionTraceSecret {
    static func isAbsent(_ secret: String, in path: String) -> Bool {
        (try? String(contentsOfFile: path, encoding: .utf8))?.contains(secret) == false
    }
}
