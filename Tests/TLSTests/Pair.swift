import Foundation
import TLS

/// A client and a server session with nothing but memory between them.
final class Pair {
    let client: Session
    let server: Session
    /// The most bytes handed to a session at once.
    var piece = Int.max
    /// Plaintext read at each side.
    var atClient: [UInt8] = []
    var atServer: [UInt8] = []
    var clientIsClosed = false
    var serverIsClosed = false
    /// All ciphertext the client made, for looking at.
    var fromClient: [UInt8] = []

    static let authority = try! CertificateAuthority()
    static let identity = try! authority.issueServer(names: ["api.push.example"]).identity()

    init(
        hostName: String = "localhost", client: ClientOptions? = nil, server: ServerOptions? = nil
    ) throws {
        let trusting = ClientOptions(trust: .pem(Self.authority.certificatePEM))
        self.client = try .client(ClientContext(client ?? trusting), hostName: hostName)
        self.server = try .server(ServerContext(server ?? ServerOptions(identity: Self.identity)))
    }

    /// Carries ciphertext both ways until nothing moves. Throws the client's error first.
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

    /// True: close_notify came.
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

/// The kind of TLSError that a body throws; nil: none.
func failure(_ body: () throws -> Void) -> TLSError? {
    do {
        try body()
        return nil
    } catch {
        return error as? TLSError
    }
}

extension CredentialSource {
    static func file(_ path: String) throws -> CredentialSource {
        .bytes([UInt8](try Data(contentsOf: URL(filePath: path))), name: path)
    }
}
