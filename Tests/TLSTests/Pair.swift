import Foundation
import TLS

/// A client and a server session that exchange ciphertext in memory.
final class Pair {
    let client: Session
    let server: Session
    /// The maximum number of bytes passed to a session at once.
    var piece = Int.max
    /// The plaintext that each side has read.
    var atClient: [UInt8] = []
    var atServer: [UInt8] = []
    var clientIsClosed = false
    var serverIsClosed = false
    /// All ciphertext that the client has sent.
    var fromClient: [UInt8] = []

    static let authority = try! CertificateAuthority()
    static let identity = try! authority.issueServer(names: ["api.push.example"]).identity()

    init(hostName: String = "localhost", client: ClientContext? = nil, server: ServerContext? = nil) throws {
        let trusting = try ClientContext(trust: .pem(Self.authority.certificatePEM))
        self.client = try .client(client ?? trusting, hostName: hostName)
        self.server = try .server(server ?? ServerContext(identity: Self.identity))
    }

    /// Moves ciphertext in both directions until neither session has output. An error of the client takes precedence
    /// over one of the server.
    func settle() throws {
        var serverFailure: (any Error)?
        _ = try client.handshake()
        while true {
            let toServer = take(client)
            fromClient += toServer
            do {
                if serverFailure == nil, try give(toServer, server, &atServer) { serverIsClosed = true }
            } catch {
                serverFailure = error
            }
            let toClient = take(server)
            if try give(toClient, client, &atClient) { clientIsClosed = true }
            if toServer.isEmpty && toClient.isEmpty && client.pendingOutput.isEmpty { break }
        }
        if let serverFailure { throw serverFailure }
    }

    func take(_ session: Session) -> [UInt8] {
        let bytes = Array(session.pendingOutput)
        session.consumeOutput(bytes.count)
        return bytes
    }

    /// Passes ciphertext to a session and reads the plaintext. Returns whether the session received close_notify.
    func give(_ ciphertext: [UInt8], _ session: Session, _ plaintext: inout [UInt8]) throws -> Bool {
        var rest = ciphertext[...]
        var isClosed = false
        while !rest.isEmpty {
            let part = Array(rest.prefix(piece))
            rest = rest.dropFirst(part.count)
            try part.withUnsafeBytes { part in
                session.receive(part)
                guard try session.handshake() else { return }
                while true {
                    var buffer = [UInt8](repeating: 0, count: 20_000)
                    switch try buffer.withUnsafeMutableBytes({ try session.read(into: $0) }) {
                    case .bytes(let count): plaintext += buffer[..<count]
                    case .wantsMore: return
                    case .closed:
                        isClosed = true
                        return
                    }
                }
            }
        }
        return isClosed
    }
}

func bytes(_ count: Int, from start: Int = 0) -> [UInt8] {
    (start..<start + count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
}

extension Session {
    func write(_ bytes: [UInt8]) throws { try bytes.withUnsafeBytes { try write($0) } }
}

extension CredentialSource {
    static func file(_ path: String) throws -> CredentialSource {
        .bytes([UInt8](try Data(contentsOf: URL(filePath: path))), name: path)
    }
}
