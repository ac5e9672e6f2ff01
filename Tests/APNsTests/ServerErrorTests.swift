import Delivery
import EventLoop
import HTTP2
import Testing

@testable import APNs

/// Connections that answer nothing but 500 and 503.
@Suite(.serialized) struct ServerErrorTests {
    private static let second: Int64 = 1_000_000_000

    private static func streak(_ count: Int, atNs: Int64 = 1) -> ErrorStreak {
        var streak = ErrorStreak()
        for _ in 0..<count { streak.failed(nowNs: atNs) }
        return streak
    }

    @Test func `Five in a row for five seconds`() {
        for isAnotherGood in [true, false] {
            var retirement = ErrorRetirement()
            func retires(_ count: Int, afterNs: Int64) -> Bool {
                retirement.retires(Self.streak(count), isAnotherGood: isAnotherGood, nowNs: 1 + afterNs)
            }
            #expect(!retires(4, afterNs: 100 * Self.second))
            #expect(!retires(1_000, afterNs: 5 * Self.second - 1))
            #expect(retires(5, afterNs: 5 * Self.second))
        }
    }

    @Test func `Another answer begins anew`() {
        var streak = Self.streak(5)
        streak.answered()
        #expect(!streak.isLong)
        for _ in 0..<5 { streak.failed(nowNs: 60 * Self.second) }
        #expect(streak.isLong && streak.beganNs == 60 * Self.second)
    }

    @Test func `The next one waits`() {
        var retirement = ErrorRetirement()
        func retires(_ seconds: Int64, isAnotherGood: Bool) -> Bool {
            retirement.retires(Self.streak(5), isAnotherGood: isAnotherGood, nowNs: seconds * Self.second)
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

    private func isReplacement(_ note: TransportNote) -> Bool {
        if case .replacing(let text) = note { text.contains("server errors") } else { false }
    }

    @Test func `The one that errs is replaced and the other stays`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(4)] }
        world.configuration.minimumConnections = 2
        world.configuration.maximumConnections = 2
        world.configuration.errorSpanNs = 200_000_000
        world.server.onRequest = { if $0.number == 0 { self.errs($0, $1.stream) } else { $0.respond($1.stream) } }
        try world.connect()
        world.run("both") { world.capacity >= 8 }
        // One at a time goes to the first connection, until it erred five times.
        for number in 0..<5 as Range<UInt32> {
            world.complete(number..<(number + 1))
        }
        #expect(world.completions.map(\.status) == [503, 503, 503, 503, 503])
        var next: UInt32 = 5
        world.run("replaced") {
            if Int(next) == world.completions.count {
                world.send(next..<(next + 1))
                next += 1
            }
            return world.server.peers.count == 3 && world.server.peers[0].isClosed
        }
        world.run("the last answer") { Int(next) == world.completions.count }
        #expect(world.completions.dropFirst(5).allSatisfy { $0.status == 200 })
        #expect(!world.server.peers[1].isClosed)
        let said = world.notes.compactMap { if case .replacing(let text) = $0 { text } else { nil } }
        #expect(said.count == 1)
        #expect(
            said.first?.hasSuffix(
                ": the last 5 answers were server errors (5xx, or without a reason), while other connections answer well; the connection is "
                    + "replaced") == true, "\(said)")
    }

    /// Its last place keeps traffic off it even before it is replaced.
    @Test func `Others get what they can take`() throws {
        let world = try World { $0.options.settings = [.maxConcurrentStreams(4)] }
        world.configuration.minimumConnections = 2
        world.configuration.maximumConnections = 2
        world.server.onRequest = { if $0.number == 0 { self.errs($0, $1.stream) } else { $0.respond($1.stream) } }
        try world.connect()
        world.run("both") { world.capacity >= 8 }
        for number in 0..<12 as Range<UInt32> {
            world.complete(number..<(number + 1))
        }
        #expect(world.server.peers.map(\.arrived.count) == [5, 7])
        #expect(!world.notes.contains(where: isReplacement), "5 s have not passed")
    }

    @Test func `One that is alone is replaced once`() throws {
        let world = try World()
        world.configuration.maximumConnections = 1
        world.configuration.errorSpanNs = 0
        world.server.onRequest = { self.errs($0, $1.stream) }
        try world.connect()
        for number in 0..<20 as Range<UInt32> {
            world.run("room") { world.capacity > 0 }
            world.complete(number..<(number + 1))
            if number == 4 { world.run("replaced") { world.server.peers.count == 2 } }
        }
        #expect(world.server.peers.count == 2)
        #expect(world.server.peers[0].arrived.count == 5)
        #expect(world.completions.allSatisfy { $0.status == 503 })
        #expect(world.notes.count(where: isReplacement) == 1)
    }

    @Test func `One good answer in five is enough`() throws {
        let world = try World()
        world.configuration.errorSpanNs = 0
        world.server.onRequest = { peer, request in
            if peer.arrived.count.isMultiple(of: 5) {
                peer.respond(request.stream, 400, #"{"reason":"BadDeviceToken"}"#)
            } else {
                self.errs(peer, request.stream)
            }
        }
        try world.connect()
        for number in 0..<30 as Range<UInt32> {
            world.complete(number..<(number + 1))
        }
        #expect(world.server.peers.count == 1)
    }
}
