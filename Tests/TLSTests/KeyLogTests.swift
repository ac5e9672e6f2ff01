import Foundation
import TLS
import Testing

@Suite struct KeyLogTests {
    @Test func `The secrets of a client session are logged under its client random for Wireshark`() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "keys-\(UUID().uuidString).log").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try KeyLog.start(path)
        let pair = try Pair()
        try pair.settle()
        // RFC 8446, 4: the random follows the record header, the message header and the legacy version.
        let random = pair.fromClient[11..<43].map { String(format: "%02x", $0) }.joined()
        let lines = try String(contentsOfFile: path, encoding: .utf8).split(separator: "\n")
        let labels = lines.filter { $0.contains(" \(random) ") }.map { $0.prefix { $0 != " " } }
        #expect(
            Set(labels).isSuperset(of: [
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0",
                "SERVER_TRAFFIC_SECRET_0",
            ]), "\(labels)")
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func `The error of a key log that cannot be opened names its path`() {
        let failure = failure { try KeyLog.start("/nowhere/keys.log") }
        #expect(failure?.text == "key log /nowhere/keys.log: cannot be opened: No such file or directory")
    }
}
