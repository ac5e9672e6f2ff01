import Delivery
import EventLoop
import PushRecords
import Testing

@testable import APNs

/// Tests of the binary protocol's transport against a scripted gateway.
struct BinaryTransportTests {
    private func settled(_ world: GatewayWorld, _ status: UInt16) -> [UInt32] {
        world.completions.filter { $0.kind == .answered && $0.status == status }.map(\.id.slot.number)
    }

    @Test(arguments: BinaryConfiguration.Format.allCases)
    func `Silence for the whole window counts as acceptance`(format: BinaryConfiguration.Format) throws {
        let world = try GatewayWorld.connected { $0.configuration.format = format }
        world.send(0..<100)
        let sentNs = world.nowNs
        world.run("all completions") { world.completions.count == 100 }
        #expect(world.nowNs - sentNs >= 2_000_000_000)
        #expect(world.nowNs - sentNs < 2_300_000_000)
        #expect(world.completions.map(\.id.slot.number) == Array(0..<100))
        #expect(world.completions.allSatisfy { $0.status == 200 && $0.isPresumed && $0.sentAtMs != 0 })
        #expect(world.gateway.frames.map(\.number) == Array(0..<100))
    }

    @Test func `A frame's fields are taken from the notification's headers`() throws {
        let world = try GatewayWorld.connected()
        var stored = world.request(1)
        stored.headers.expiration = nil
        var never = world.request(2)
        never.headers.expiration = 0
        never.headers.priority = 5
        var lowest = world.request(3)
        lowest.headers.expiration = 1_900_000_000
        lowest.headers.priority = 1
        world.transport.handle(.send([stored, never, lowest]))
        world.run("frames arrived") { world.gateway.frames.count == 3 }
        let frames = world.gateway.frames
        let dayMs = Int64(frames[0].expiry) * 1_000 - TestClock.start.wallMs
        #expect(abs(dayMs - 30 * 86_400_000) < 60_000)
        #expect(frames.map(\.priority) == [10, 5, 5])
        #expect(frames[1].expiry == 0 && frames[2].expiry == 1_900_000_000)
        #expect(String(decoding: frames[0].payload, as: UTF8.self) == #"{"aps":{"alert":"Hi"}}"#)
    }

    /// Like node-apn, the worker sends discarded notifications again, but without a limit on stored notifications.
    @Test func `After an error, earlier notifications are settled and later ones are sent again`() throws {
        let world = try GatewayWorld.connected {
            $0.configuration.connections.maximum = 1
            $0.sendsAgain = true
        }
        var isToAnswer = true
        world.gateway.onFrame = { peer, frame in
            // The answer is sent after all frames have arrived, as it would be over a slow network.
            guard frame.number == 999, isToAnswer else { return }
            isToAnswer = false
            peer.answer(8, peer.frames[400].identifier)
        }
        world.send(0..<1_000)
        world.run("all completions") { world.completionOf.count == 1_000 }
        #expect(world.completionOf[400]?.reason == .badDeviceToken && world.completionOf[400]?.status == 8)
        #expect(settled(world, 200).sorted() == (0..<1_000).filter { $0 != 400 })
        for number in UInt32(0)..<400 { #expect(world.completionOf[number]?.isPresumed == false) }
        let again = world.completions.filter { $0.kind == .notProcessed }
        #expect(again.map(\.id.slot.number) == Array(401..<1_000))
        #expect(again.allSatisfy { $0.unprocessed == .discarded && !$0.connectionDied })
        #expect(world.gateway.peers.count == 2)
        #expect(world.gateway.peers[1].frames.map(\.number) == Array(401..<1_000))
        // The app always had capacity, even between connections.
        #expect(world.reachable == [true])
    }

    @Test func `With resend false, discarded notifications are returned as final`() throws {
        let world = try GatewayWorld.connected { $0.configuration.resendsDiscarded = false }
        world.gateway.onFrame = { peer, frame in if frame.number == 9 { peer.answer(7, peer.frames[4].identifier) } }
        world.complete(0..<10)
        #expect(world.completionOf[4]?.reason == .payloadTooLarge)
        #expect(world.completions.filter { $0.unprocessed == .discardedForGood }.map(\.id.slot.number) == Array(5..<10))
    }

    @Test(arguments: [UInt8(0), 10])
    func `A shutdown names the last delivered notification`(status: UInt8) throws {
        let world = try GatewayWorld.connected { $0.sendsAgain = true }
        world.gateway.onFrame = { peer, frame in
            if frame.number == 9, world.gateway.peers.count == 1 { peer.answer(status, peer.frames[4].identifier) }
        }
        world.send(0..<10)
        world.run("all completions") { world.completionOf.count == 10 }
        #expect(settled(world, 200).sorted() == Array(0..<10))
        #expect((0...4).allSatisfy { world.completionOf[$0]?.isPresumed == false })
        #expect(world.gateway.peers[1].frames.map(\.number) == Array(5..<10))
        #expect(world.noted("peerCloses", "\"status \(status)\"", "unprocessed: 5"))
    }

    /// Without the pause, the transport would send to such a gateway at full rate.
    @Test func `After a shutdown without a delivery the next attempt waits`() throws {
        let world = try GatewayWorld.connected { $0.sendsAgain = true }
        world.gateway.onFrame = { peer, frame in
            if world.gateway.peers.count < 4 || frame.isFence { peer.answer(10, 0) }
            world.gateway.answersFences = world.gateway.peers.count >= 4
        }
        world.send(0..<1)
        world.run("settled") { world.completionOf.count == 1 }
        let returned = world.completions.filter { $0.kind == .notProcessed }
        #expect(returned.count == 3)
        #expect(returned.allSatisfy { $0.unprocessed == .neverSent })
        // The next connection must prove that it answers first.
        #expect(world.notes(of: "disconnected") == 5)
    }

    /// A notification that ends each of its connections is finally sent alone, and only then blamed.
    @Test func `A notification that ends its connections is found by halving the limit`() throws {
        let world = try GatewayWorld.connected {
            $0.configuration.window.durationNs = 100_000_000
            $0.configuration.window.longestNs = 100_000_000
            $0.gateway.answersFences = true
            $0.gateway.onFrame = { peer, frame in if frame.number == 77 { peer.channel.cut() } }
            $0.sendsAgain = true
        }
        world.send(0..<200)
        func blamed() -> [UInt32] { world.completions.filter(\.connectionDied).map(\.id.slot.number) }
        world.run("culprit found", seconds: 300) { blamed().count == 3 }
        #expect(blamed() == [77, 77, 77])
    }

    @Test func `An error after the window lengthens the window`() throws {
        let world = try GatewayWorld.connected {
            $0.configuration.window.durationNs = 100_000_000
            $0.configuration.window.longestNs = 1_000_000_000
            $0.sendsAgain = true
        }
        world.complete(0..<10)
        world.runFor(seconds: 0.3)
        world.send(10..<20)
        world.run("frames arrived") { world.gateway.peers[0].frames.count == 20 }
        let first = world.gateway.peers[0]
        first.answer(8, first.frames[3].identifier)
        world.run("all completions") { world.completionOf.count == 20 }
        #expect(world.noted("windowTooShort", "status: 8, lostAtMost: 7, windowMs: 100"))
        // The new window is a quarter more than the 400 ms after which the error arrived.
        #expect(world.notes.count { if case .windowLengthened(450...600) = $0 { true } else { false } } == 1)
        #expect(world.completions.filter { $0.kind == .notProcessed }.map(\.id.slot.number) == Array(10..<20))
    }

    @Test func `The kernel's buffer space limits the rate`() throws {
        let world = try GatewayWorld.connected {
            $0.configuration.window.bytes = 200_000
            $0.gateway.answersFences = true
        }
        world.gateway.channels[0].kernelRoom = 0
        world.send(0..<3_000)
        world.runFor(seconds: 1)
        #expect(world.gateway.frames.isEmpty)
        // The waiting requests are recalled.
        world.recall((0..<3_000))
        world.runFor(seconds: 0.1)
        let returned = world.completions.count
        #expect(returned > 500)
        #expect(world.completions.allSatisfy { $0.kind == .notProcessed && $0.unprocessed == .neverSent })
        world.gateway.channels[0].kernelRoom = .max
        world.run("other requests") { world.completions.count == 3_000 }
        #expect(world.completions.count { $0.status == 200 } == 3_000 - returned)
    }

    @Test func `At a rebalance a fence decides the open notifications`() throws {
        let world = try GatewayWorld.connected { $0.gateway.answersFences = true }
        world.send(0..<50)
        world.run("frames arrived") { world.gateway.frames.count == 50 }
        let sinceNs = world.nowNs
        world.recall([7])
        world.run("all completions") { world.completions.count == 50 }
        #expect(world.nowNs - sinceNs < 100_000_000)
        #expect(world.completions.allSatisfy { $0.status == 200 && !$0.isPresumed })
        // The app continues over the next connection.
        world.complete(50..<60)
        #expect(world.gateway.peers.count == 2)
    }

    /// A gateway that does not answer may have read nothing. Its open notifications are in doubt, not accepted.
    @Test(arguments: [true, false])
    func `At a stop, a fence decides the open notifications, or they are in doubt`(answers: Bool) throws {
        let world = try GatewayWorld.connected { $0.gateway.answersFences = answers }
        world.send(0..<50)
        world.run("frames arrived") { world.gateway.frames.count == 50 }
        world.close()
        #expect(world.completions.count == 50)
        #expect(world.completions.allSatisfy { answers ? $0.status == 200 : $0.kind == .inDoubt })
        #expect(world.completions.allSatisfy { !$0.isPresumed && !$0.connectionDied })
        #expect(world.completions.allSatisfy { $0.connectionWasSilent == !answers })
    }

    /// Notifications that silence accepted wrongly are reported at the stop at the latest.
    @Test func `A stop makes the gateway confirm the notifications that silence accepted`() throws {
        let world = try GatewayWorld.connected { $0.configuration.window.durationNs = 100_000_000 }
        let loop = world.loop
        world.gateway.onFrame = { peer, frame in
            guard frame.number == 3 else { return }
            loop.schedule(afterNs: 1_000_000_000) { peer.answer(8, frame.identifier) }
        }
        world.send(0..<10)
        world.run("accepted by silence", seconds: 0.5) { world.completions.count == 10 }
        world.close()
        #expect(world.noted("windowTooShort", "status: 8, lostAtMost: 7, windowMs: 100"))
    }

    /// The gateway answers a notification before the fence, and never reads the fence.
    @Test func `After an error before the fence the later notifications are returned`() throws {
        let world = try GatewayWorld.connected()
        world.gateway.onFrame = { peer, frame in
            if frame.isFence { peer.answer(8, peer.frames[20].identifier) }
        }
        world.send(0..<50)
        world.run("frames arrived") { world.gateway.frames.count == 50 }
        world.close()
        #expect(settled(world, 200).count == 20 && world.completionOf[20]?.status == 8)
        #expect(world.completions.count { $0.unprocessed == .discarded } == 29)
    }

    @Test func `A request that a gateway would refuse or cannot express is not sent`() throws {
        let world = try GatewayWorld.connected { $0.configuration.payloadLimit = 256 }
        let fits = #"{"aps":""# + String(repeating: "x", count: 246) + #""}"#
        var broadcast = world.request(3)
        broadcast.isBroadcast = true
        world.transport.handle(
            .send([world.request(1, payload: fits), world.request(2, payload: fits + " "), broadcast]))
        world.run("all completions") { world.completions.count == 3 }
        #expect(world.completionOf[1]?.status == 200)
        #expect(world.completionOf[2]?.status == 7 && world.completionOf[2]?.reason == .payloadTooLarge)
        #expect(world.completionOf[3]?.reason == .missingDeviceToken)
        #expect(world.gateway.frames.count == 1)
    }

    /// The answer names none of the three notifications, has no identifier, is invalid, or is missing. None of the
    /// three is blamed.
    @Test(
        arguments: [
            (.simple, [8, 0, 0, 0, 0, 0]), (.simple, [8, 8, 0, 0, 0, 1]), (.simple, [8, 10, 0, 0, 0, 0]),
            (.framed, [8, 1, 0, 0x0F, 0x42, 0x3F]), (.framed, Array("HTTP/1.1 400".utf8)), (.framed, []),
        ] as [(BinaryConfiguration.Format, [UInt8])])
    func `A close that names no notification leaves all notifications in doubt`(
        format: BinaryConfiguration.Format, answer: [UInt8]
    ) throws {
        let world = try GatewayWorld.connected { $0.configuration.format = format }
        world.gateway.onFrame = { peer, frame in
            guard frame.number == 2 else { return }
            peer.say(answer)
            if answer.isEmpty { peer.channel.cut() } else { peer.channel.close() }
        }
        world.complete(0..<3)
        #expect(world.completions.allSatisfy { $0.kind == .inDoubt && !$0.connectionDied && !$0.connectionWasSilent })
        if answer.first == 72 { #expect(world.noted("disconnected", "a byte 72", "unanswered: 3")) }
    }

    @Test func `An unreachable host has no capacity`() throws {
        let world = try GatewayWorld()
        world.gateway.isListening = false
        world.start()
        world.run("unreachable") { world.reachable == [false] }
        #expect(world.capacity == 0 && world.connections.streams == 0)
        world.gateway.isListening = true
        world.run("reachable again") { world.reachable == [false, true] && world.capacity > 0 }
        #expect(world.connections.streams == world.capacity)
        // The protocol has no streams, so none are reported.
        #expect(world.notes.contains { if case .connected(_, streams: nil) = $0 { true } else { false } })
    }

    /// An unused connection does not show whether the gateway works, however soon it closes.
    @Test func `Closed unused connections do not count against the host`() throws {
        let world = try GatewayWorld.connected {
            $0.configuration.connections.minimum = 3
            $0.configuration.connections.idleNs = 5_000_000_000
        }
        world.run("connections") { world.connections.open == 3 }
        world.configuration.connections.minimum = 0
        world.transport.replace(configuration: world.configuration)
        world.run("all closed") { world.gateway.peers.count == 6 && world.gateway.peers.allSatisfy(\.isClosed) }
        world.runFor(seconds: 1)
        #expect(world.reachable == [true] && world.capacity > 0)
        world.gateway.answersFences = true
        world.complete(0..<1)
    }

    @Test func `A new credential is used on new connections`() throws {
        let world = try GatewayWorld.connected()
        world.send(0..<10)
        world.run("frames arrived") { world.gateway.frames.count == 10 }
        var configuration = world.configuration
        configuration.window.durationNs = 500_000_000
        world.transport.replace(configuration: configuration)
        world.complete(10..<20)
        #expect(world.gateway.peers.map { $0.frames.count } == [10, 10])
        #expect(world.completions.allSatisfy { $0.status == 200 })
    }
}
