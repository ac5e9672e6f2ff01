import Foundation
import TLS
import Testing

@Suite struct SessionTests {
    @Test func `Two sessions complete a handshake and exchange data in both directions`() throws {
        let pair = try Pair()
        try pair.settle()
        #expect(pair.client.isHandshakeComplete && pair.server.isHandshakeComplete)
        #expect(pair.client.applicationProtocol == "h2")
        #expect(pair.server.applicationProtocol == "h2")
        #expect(pair.client.version == "TLSv1.3")
        #expect(pair.client.peerCertificate != nil && pair.server.peerCertificate == nil)
        try pair.client.write(bytes(100_000))
        try pair.server.write(Array("pong".utf8))
        try pair.settle()
        #expect(pair.atServer == bytes(100_000))
        #expect(pair.atClient == Array("pong".utf8))
        pair.client.closeNotify()
        try pair.settle()
        #expect(pair.serverIsClosed)
        #expect(!pair.clientIsClosed)
    }

    @Test(arguments: [1, 2, 3, 5, 7, 16, 333])
    func `Records, handshake messages and close_notify can arrive in pieces`(count: Int) throws {
        let pair = try Pair()
        pair.piece = count
        try pair.settle()
        try pair.client.write(bytes(40_000))
        try pair.server.write(bytes(17_000, from: 5))
        try pair.settle()
        #expect(pair.atServer == bytes(40_000))
        #expect(pair.atClient == bytes(17_000, from: 5))
        pair.server.closeNotify()
        try pair.settle()
        #expect(pair.clientIsClosed)
    }

    @Test func `Reading into a buffer smaller than a record loses no bytes`() throws {
        let pair = try Pair()
        try pair.settle()
        try pair.client.write(bytes(5_000))
        let record = pair.take(pair.client)
        var seen: [UInt8] = []
        try record.withUnsafeBytes { record in
            pair.server.receive(record)
            while true {
                var small = [UInt8](repeating: 0, count: 999)
                guard case .bytes(let count) = try small.withUnsafeMutableBytes({ try pair.server.read(into: $0) })
                else {
                    break
                }
                seen += small[..<count]
            }
        }
        #expect(seen == bytes(5_000))
    }

    @Test func `A session fails if a bit of a record is changed`() throws {
        let pair = try Pair()
        try pair.settle()
        try pair.client.write(bytes(100))
        var record = pair.take(pair.client)
        record[50] ^= 1
        #expect(throws: TLSError.self) { _ = try pair.give(record, pair.server, &pair.atServer) }
        #expect(pair.atServer.isEmpty)
        #expect(!pair.server.pendingOutput.isEmpty, "The server must send an alert to its peer")
    }

    @Test func `Pending output can be consumed in steps of any size`() throws {
        let pair = try Pair()
        try pair.settle()
        var taken: [UInt8] = []
        for round in 0..<50 {
            try pair.client.write(bytes(3_000, from: round))
            let count = min(pair.client.pendingOutput.count, 1 + round * 157 % 4_001)
            taken += pair.client.pendingOutput.prefix(count)
            pair.client.consumeOutput(count)
        }
        taken += pair.take(pair.client)
        _ = try pair.give(taken, pair.server, &pair.atServer)
        #expect(pair.atServer == (0..<50).flatMap { bytes(3_000, from: $0) })
    }
}

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
        let failure = #expect(throws: TLSError.self) { try KeyLog.start("/nowhere/keys.log") }
        #expect(failure?.text == "key log /nowhere/keys.log: cannot be opened: No such file or directory")
    }
}
