import Delivery
import EventLoop
import HTTP2
import Testing

@testable import APNs

/// Connections that answer nothing but 500 and 503.
@Suite(.serialized) struct ServerErrorTests {
    private static let second: Int64 = 1_000_000_000

    @Test func `The next connection with server errors waits before it is replaced`() {
        var retirement = ErrorRetirement()
        var streak = ErrorStreak()
        for _ in 0..<5 { streak.failed(nowNs: 1) }
        func retires(_ seconds: Int64, isAnotherGood: Bool) -> Bool {
            retirement.retires(streak, isAnotherGood: isAnotherGood, nowNs: seconds * Self.second)
        }
        #expect(retires(100, isAnotherGood: true))
        #expect(!retires(129, isAnotherGood: true))
        #expect(retires(130, isAnotherGood: true))
        // None answers well: the new connection did not help.
        #expect(!retires(130 + 899, isAnotherGood: false))
        #expect(retires(130 + 900, isAnotherGood: false))
        retirement.replaced()
        #expect(retires(130 + 901, isAnotherGood: false))
    }

    private func errs(_ peer: ServerPeer, _ stream: Int32) {
        peer.respond(stream, 503, #"{"reason":"ServiceUnavailable"}"#)
    }

    /// Its last place keeps traffic off it even before it is replaced.
    @Test func `The connection that errs is replaced, and the other stays`() throws {
        let world = try World.connected(streams: 4, connections: 2...2) { world in
            world.configuration.errorSpanNs = 1_000_000_000
            world.server.onRequest = { if $0.number == 0 { self.errs($0, $1.stream) } else { $0.respond($1.stream) } }
        }
        world.run("both") { world.capacity >= 8 }
        // One at a time goes to the first connection, until it erred five times.
        for number in 0..<12 as Range<UInt32> { world.complete(number..<(number + 1), status: number < 5 ? 503 : 200) }
        #expect(world.server.peers.map(\.arrived.count) == [5, 7])
        #expect(!world.noted("replacing"), "its time has not passed")
        world.runFor(seconds: 1)
        world.complete(12..<13, status: 200)
        world.run("replaced") { world.server.peers.count == 3 && world.server.peers[0].isClosed }
        #expect(!world.server.peers[1].isClosed)
        #expect(world.noted("replacing", "last 5 answers were server errors (5xx, or without a reason), while other "))
    }

    @Test func `One good answer in five is enough`() throws {
        let world = try World.connected { world in
            world.configuration.errorSpanNs = 0
            world.server.onRequest = { peer, request in
                if !peer.arrived.count.isMultiple(of: 5) { return self.errs(peer, request.stream) }
                peer.respond(request.stream, 400, #"{"reason":"BadDeviceToken"}"#)
            }
        }
        for number in 0..<30 as Range<UInt32> { world.complete(number..<(number + 1)) }
        #expect(world.server.peers.count == 1)
    }
}
