import Network
import PushRecords
import Testing

@testable import APNsSimulator

/// The gateway and the feedback service over real connections.
@Suite(.timeLimit(.minutes(5)))
struct GatewayTests {
    /// Faults of the gateway, the tokens of three notifications, the bytes of the answer, and how the connection ends.
    /// Then the numbers of notifications that were accepted, and that were not processed.
    static let endings: [([String], [String], [UInt8], ChannelEnd.Kind, Int, Int)] = [
        ([], ["01", "fa170008", "02"], Wire.error(8, 2), .closedByPeer, 1, 1),
        (["shutdown@2"], ["01", "02", "03"], Wire.error(10, 2), .closedByPeer, 2, 1),
        ([], ["fa17f023", "01", "02"], [], .failed, 0, 2),
        (["split", "error-delay=20ms"], ["fa170001", "01", "02"], Wire.error(1, 1), .closedByPeer, 0, 2),
    ]

    @Test(arguments: endings.indices)
    func `The gateway ends the connection after its error response`(place: Int) throws {
        let (faults, tokens, answer, end, accepted, notProcessed) = Self.endings[place]
        let (simulator, client) = try Simulator.gatewayAndClient(faults)
        client.send(tokens.enumerated().flatMap { Wire.frame($0 + 1, tokenBytes($1)) })
        #expect(client.receivedAtEnd() == answer && client.end == end)
        #expect((client.receipts > 1) == faults.contains("split"), "Only a split answer arrives in several parts")
        let totals = simulator.books.totals
        #expect(totals.accepted == accepted && totals.notProcessed == notProcessed)
    }

    @Test func `The gateway closes a connection without a client certificate`() throws {
        let simulator = try Simulator.withGateway()
        simulator.feedback.add(try .init(token: token("01"), seconds: 5))
        for port in [simulator.gatewayPort, simulator.feedbackPort] {
            let client = try RawClient(simulator, port: port, hasCertificate: false)
            client.send(Wire.frame(1, tokenBytes("01")))
            #expect(client.receivedAtEnd() == [] && client.isOpen)
        }
        #expect(simulator.books.totals.requests == 0)
    }

    @Test func `New faults apply only to new connections`() throws {
        let simulator = try Simulator.withGateway { try $0.gatewayFaults.add("close@2") }
        let first = try simulator.gatewayClient()
        #expect(first.open())
        first.send(Wire.frame(1, tokenBytes("01", 1)))
        let faults = try GatewayFaults(["shutdown@1"])
        simulator.switches.with { $0.gatewayFaults = faults }
        let second = try simulator.gatewayClient()
        #expect(second.open())
        second.send(Wire.frame(7, tokenBytes("01", 7)))
        #expect(second.receivedAtEnd() == Wire.error(10, 7))
        first.send(Wire.frame(2, tokenBytes("01", 2)))
        #expect(first.receivedAtEnd() == [])
    }

    @Test func `The gateway discards notifications that arrive before a delayed error is sent`() throws {
        let (simulator, client) = try Simulator.gatewayAndClient(["error-delay=5s"])
        #expect(client.open())
        for number in 1...50 { client.send(Wire.frame(number, tokenBytes("01", number))) }
        client.send(Wire.frame(51, tokenBytes("fa170008")))
        for number in 52...60 { client.send(Wire.frame(number, tokenBytes("01", number))) }
        #expect(client.run { simulator.books.totals.notProcessed == 9 })
        #expect(client.received.isEmpty)
        // A discarded notification that requests an error does not change the answer.
        client.send(Wire.frame(61, tokenBytes("fa170007")) + Wire.frame(62, tokenBytes("01", 62)))
        #expect(client.receivedAtEnd() == Wire.error(8, 51))
        let totals = simulator.books.totals
        #expect(totals.accepted == 50 && totals.refused == 1 && totals.notProcessed == 11)
        for number in 1...62 where number != 51 && number != 61 {
            #expect(simulator.books.counts(ofToken: token("01", number)) == (1, number < 51 ? 1 : 0))
        }
    }

    /// Unread bytes would make the kernel reset the connection, and the answer would be lost.
    @Test func `An error reaches a client that is still sending`() throws {
        let (simulator, client) = try Simulator.gatewayAndClient()
        let body = payload(2000)
        var frames = Wire.frame(1, tokenBytes("fa170008"))
        for number in 2...3000 { frames += Wire.frame(number, tokenBytes("01", number), body) }
        client.send(frames)
        #expect(client.receivedAtEnd() == Wire.error(8, 1))
        #expect(simulator.books.totals.accepted == 0)
    }

    @Test func `A slow gateway reads only at its configured rate`() throws {
        let (simulator, client) = try Simulator.gatewayAndClient(["slow"])
        #expect(client.open())
        let body = payload(1000)
        for number in 1...300 { client.send(Wire.frame(number, tokenBytes("01", number), body)) }
        #expect(client.run { simulator.books.totals.accepted > 0 })
        // All notifications would take nine seconds.
        #expect(simulator.books.totals.accepted < 300)
        client.abort()
    }

    @Test func `A silent gateway reads nothing`() throws {
        let (simulator, client) = try Simulator.gatewayAndClient(["silent"])
        let body = payload(2000)
        var frames: [UInt8] = []
        for number in 1...8000 { frames += Wire.frame(number, tokenBytes("fa170008", number), body) }
        client.send(frames)
        client.run(forMs: 500)
        #expect(client.isOpen && client.end == nil && !client.isSent)
        #expect(simulator.books.totals.requests == 0)
        simulator.stop()
    }

    @Test func `Valid notifications are not answered, and stop names the last one`() throws {
        let (simulator, client) = try Simulator.gatewayAndClient()
        let idle = try simulator.gatewayClient()
        #expect(idle.open())
        for number in 1...1000 { client.send(Wire.frame(number, tokenBytes("01", number))) }
        #expect(client.run { simulator.books.totals.accepted == 1000 })
        #expect(client.received.isEmpty && client.end == nil)
        #expect(simulator.books.totals.openConnections == 2)
        simulator.stop()
        #expect(client.receivedAtEnd() == Wire.error(10, 1000))
        #expect(idle.receivedAtEnd() == [])
    }
}
