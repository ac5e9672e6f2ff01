import Delivery
import HTTP2
import Network
import Testing

@testable import APNs

/// Hosts that keep their connections and answer no request.
@Suite(.serialized, .timeLimit(.minutes(5))) struct UnansweredTests {
    enum Manner: CaseIterable {
        case cancels, fails, refuses, hasNoStatus, isSilent, isDeaf

        var endedBy: String? {
            switch self {
            case .cancels: "CANCEL"
            case .fails: "INTERNAL_ERROR"
            case .refuses: "REFUSED_STREAM"
            case .hasNoStatus: "PROTOCOL_ERROR"
            case .isSilent, .isDeaf: nil
            }
        }

        fileprivate func treat(_ peer: ServerPeer, _ request: Arrived) {
            switch self {
            case .cancels: try? peer.session.reset(stream: request.stream, .cancel)
            case .fails: try? peer.session.reset(stream: request.stream, .internalError)
            case .refuses: try? peer.session.reset(stream: request.stream, .refusedStream)
            case .hasNoStatus:
                // HEADERS with END_STREAM and END_HEADERS: a field `x: y`.
                let stream = (0..<4).map { UInt8(truncatingIfNeeded: request.stream >> (24 - 8 * $0)) }
                peer.session.appendRaw([0, 0, 5, 1, 5] + stream + [0, 1, UInt8(ascii: "x"), 1, UInt8(ascii: "y")])
            case .isSilent: break
            case .isDeaf: peer.isDeaf = true
            }
        }
    }

    /// After it answered well, and with others on the same connection meanwhile; the first answer ends it.
    @Test(arguments: Manner.allCases)
    func `A host that answers nothing is told of`(manner: Manner) throws {
        let world = try World.connected { $0.configuration.unansweredNs = 300_000_000 }
        world.complete(0..<3)
        world.runFor(seconds: 0.5)
        #expect(world.unanswered.isEmpty, "idle")

        world.server.onRequest = { manner.treat($0, $1) }
        world.send(3..<8)
        world.run("told") { !world.unanswered.isEmpty }
        #expect(world.unanswered == [Unanswered(host: "127.0.0.1", endedBy: manner.endedBy)])
        #expect(world.reachable == [true], "its connection stays")

        world.server.onRequest = { $0.respond($1.stream) }
        if manner == .isDeaf {
            world.server.peers[0].channel.cut()
            world.run("connected again") { world.server.peers.count == 2 && world.capacity > 0 }
        }
        world.complete(8..<9, status: 200)
        world.run("over") { world.unanswered.count == 2 }
        #expect(world.unanswered.last == .some(nil))
        world.server.peers[0].channel.cut()
        world.run("all have a completion") { world.completions.count == 9 }
    }

    @Test func `Late answers are answers`() throws {
        let world = try World()
        world.configuration.unansweredNs = 1_000_000_000
        var waiting: [(ServerPeer, Int32)] = []
        world.server.onRequest = { waiting.append(($0, $1.stream)) }
        try world.connect()
        for number in 0..<8 as Range<UInt32> {
            world.send(number..<number + 1)
            world.run("asked") { !waiting.isEmpty }
            world.runFor(seconds: 0.3)
            while let (peer, stream) = waiting.popLast() { peer.respond(stream, 500) }
            world.run("answered") { world.completionOf[number] != nil }
        }
        #expect(world.unanswered.isEmpty)
    }

    /// What was found of the old host says nothing about the new one.
    @Test func `Another configuration begins anew`() throws {
        let world = try World()
        world.configuration.unansweredNs = 200_000_000
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<1)
        world.run("told") { world.unanswered.count == 1 }
        world.transport.replace(configuration: world.configuration, token: try World.providerToken())
        world.run("not any more") { world.unanswered == [Unanswered(host: "127.0.0.1", endedBy: nil), nil] }
        world.runFor(seconds: 0.4)
        #expect(world.unanswered.count == 2, "what drains is the old one's")
        world.server.peers[0].respond(1)
        world.run("answered") { world.completions.count == 1 }
    }

    /// A host that ends every stream is not asked without end: six sends in doubt or ten refused, and then a tier.
    @Test(arguments: [(code: ErrorCode.cancel, sends: 6, tier: 1), (code: .refusedStream, sends: 10, tier: 0)])
    func `What is never answered ends in a tier`(code: ErrorCode, sends: Int, tier: Int) throws {
        let server = ScriptedServer()
        server.onRequest = { try? $0.session.reset(stream: $1.stream, code) }
        let courier = try Courier(server, MachineSettings())
        defer { courier.stop() }
        let count = 50
        for number in 0..<count { courier.receive(World.token(UInt32(number))) }
        courier.run("all in a tier") { courier.endings.count == count }
        courier.run("all committed") { courier.committed == Int64(count) }
        #expect(courier.endings.values.allSatisfy { $0.outcome == nil && $0.tier == tier })
        #expect(server.arrived <= count * sends)
    }
}
