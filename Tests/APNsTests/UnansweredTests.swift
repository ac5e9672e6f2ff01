import Delivery
import HTTP2
import Network
import Testing

@testable import APNs

/// Tests of hosts that keep their connections open and answer no request.
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
                // A HEADERS frame with END_STREAM and END_HEADERS and one field, `x: y`.
                let stream = (0..<4).map { UInt8(truncatingIfNeeded: request.stream >> (24 - 8 * $0)) }
                peer.session.appendRaw([0, 0, 5, 1, 5] + stream + [0, 1, UInt8(ascii: "x"), 1, UInt8(ascii: "y")])
            case .isSilent: break
            case .isDeaf: peer.isDeaf = true
            }
        }
    }

    /// The host has answered earlier requests on the same connection. The first new answer ends the report.
    @Test(arguments: Manner.allCases)
    func `A host that answers no request is reported`(manner: Manner) throws {
        let world = try World.connected { $0.configuration.unansweredNs = 300_000_000 }
        world.complete(0..<3)
        world.runFor(seconds: 0.5)
        #expect(world.unanswered.isEmpty, "An idle host must not be reported")

        world.server.onRequest = { manner.treat($0, $1) }
        world.send(3..<8)
        world.run("reported") { !world.unanswered.isEmpty }
        #expect(world.unanswered == [Unanswered(host: "127.0.0.1", endedBy: manner.endedBy)])
        #expect(world.reachable == [true], "The host must stay reachable while its connection is open")

        world.server.onRequest = { $0.respond($1.stream) }
        if manner == .isDeaf {
            world.server.peers[0].channel.cut()
            world.run("connected again") { world.server.peers.count == 2 && world.capacity > 0 }
        }
        world.complete(8..<9, status: 200)
        world.run("report ended") { world.unanswered.count == 2 }
        #expect(world.unanswered.last == .some(nil))
        world.server.peers[0].channel.cut()
        world.run("all have a completion") { world.completions.count == 9 }
    }

    @Test func `A new configuration ends the report of a host that answers no request`() throws {
        let world = try World()
        world.configuration.unansweredNs = 200_000_000
        world.server.onRequest = { _, _ in }
        try world.connect()
        world.send(0..<1)
        world.run("reported") { world.unanswered.count == 1 }
        try world.replace()
        world.run("report ended") { world.unanswered == [Unanswered(host: "127.0.0.1", endedBy: nil), nil] }
        world.runFor(seconds: 0.4)
        #expect(world.unanswered.count == 2, "Requests on draining connections must not count for the new host")
        world.server.peers[0].respond(1)
        world.run("answered") { world.completions.count == 1 }
    }
}
