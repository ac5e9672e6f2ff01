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

/// Traces of a host with a limit of nine seconds: `SECOND EVENT asked > STATE`. `asked` means that a request is in
/// flight, `idle` that none is.
@Suite struct AnswerWatchTests {
    static let traces = PlanTrace.table(
        """
        a host is unanswering after nine seconds of silence, until its first answer
            99 idle; 100 asked > until 109; 108 asked > until 109; 109 asked > unanswering
            110 answered asked > until 119
        neither idle time nor single lost requests that are not retried count as silence
            0 idle; 7 idle; 3000 idle; 4000 asked > until 4009; 4001 idle; 4007 asked > until 4016; 4008 idle
            4014 asked > until 4023; 4015 idle
        answers that are eight seconds late restart the limit, with one request at a time
            0 asked > until 9; 8 asked > until 9; 8 answered idle; 9 asked > until 18; 17 answered idle
        answers that are eight seconds late restart the limit, with requests always in flight
            0 asked > until 9; 8 asked > until 9; 8 answered asked > until 17; 16 answered asked > until 25
        retries without an answer count as one wait, which is forgotten when no request follows
            0 asked > until 9; 2 idle; 3 asked > until 9; 5 idle; 6 asked > until 9; 8 idle; 9 asked > unanswering
            10 idle > unanswering, until 15; 15 idle
        three ended streams count as silence while their notifications wait for a retry
            100 asked > until 109; 100 cancel cancel asked > until 109; 101 idle
            103 internalError idle > until 109, internalError; 104 cancel idle > until 109, internalError
            109 idle > unanswering, until 1301, internalError; 1000 idle > unanswering, until 1301, internalError
            1001 asked > unanswering, internalError; 1001 answered idle
        ended streams are forgotten after twenty minutes without a request
            0 asked > until 9; 0 cancel cancel cancel asked > until 9, cancel; 1 idle > until 9, cancel
            9 idle > unanswering, until 1201, cancel; 1201 idle
        ended streams between answers do not count as silence
            0 refusedStream refusedStream refusedStream asked > until 9, refusedStream; 7 answered asked > until 16
            8 refusedStream refusedStream refusedStream asked > until 16, refusedStream; 15 answered asked > until 24
        """)

    private static let codes: [Substring: ErrorCode] = [
        "cancel": .cancel, "internalError": .internalError, "refusedStream": .refusedStream,
    ]
    private static let secondNs: Int64 = 1_000_000_000

    @Test(arguments: traces)
    func `Every trace of events leads to its expected states`(trace: PlanTrace) throws {
        var watch = AnswerWatch(limitNs: 9 * Self.secondNs)
        try trace.check { words in
            let nowNs = try #require(Int64(words[0])) * Self.secondNs
            for word in words[1...].dropLast() {
                if let code = Self.codes[word] { watch.ended(code, nowNs: nowNs) } else { watch.answered() }
            }
            watch.update(isAsked: words.last == "asked", nowNs: nowNs)
            var known = watch.isUnanswering ? ["unanswering"] : []
            if watch.deadlineNs != .max { known.append("until \(watch.deadlineNs / Self.secondNs)") }
            return known + Self.codes.filter { $0.value == watch.endCode }.map { String($0.key) }
        }
    }
}
