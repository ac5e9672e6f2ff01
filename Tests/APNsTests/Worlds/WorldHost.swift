import Delivery
import EventLoop
import Network
import TLS

@testable import APNs

/// The host's side of one connection in a world.
protocol WorldPeer: MemoryPeer {
    var host: WorldHost { get }
    var connection: WorldConnection { get }
    var channel: MemoryChannel! { get }
    var isClosed: Bool { get }
    /// The number of notifications that silence accepted although a delivered answer says that they were not processed.
    var falselyAccepted: Int { get }
    /// Performs a random fault of the current mood.
    func misbehave()
    /// Makes the peer behave correctly from now on.
    func becomeWell()
    /// Called in each turn of the world.
    func turn()
    /// Checks the peer's rules between turns.
    func check(turn: Int)
}

extension WorldPeer {
    var chronicle: WorldChronicle { host.chronicle }
    func does(_ fault: WorldMood.Fault) -> Bool { host.does(fault) }

    /// Ends the connection in a random way.
    func endAnyhow() {
        chronicle.note("connection ended")
        switch chronicle.number(0...2) {
        case 0: channel.close()
        case 1: channel.cut()
        default: channel.reset()
        }
    }

    /// Limits the bytes that the client's kernel accepts for a while. Afterwards the connection may be lost.
    func fillKernel() {
        guard does(.fullKernel), let client = connection.channel else { return }
        chronicle.note("full kernel")
        client.kernelRoom = chronicle.number(0...2_000)
        host.after(chronicle.ms(100...5_000)) { [self] in
            if chronicle.chance(70) { client.kernelRoom = .max } else if !isClosed { channel.cut() }
        }
    }
}

/// The host of a world's transport. It has peers and moods, and its time advances even while the worker is stopped.
final class WorldHost: ChannelDialer {
    let chronicle: WorldChronicle
    let loop: Loop
    private let makePeer: (WorldHost, WorldConnection) -> any WorldPeer
    /// The tries by serial number.
    var tries: [WorldTry] = []
    /// The stream id from which connections take no requests.
    var retirementStreamID: UInt32 = .max
    /// The notifications that make connections fail.
    var poisons: Set<UInt32> = []
    private(set) var mood = WorldMood.well
    private(set) var isWell = false
    private(set) var connections: [WorldConnection] = []
    /// The connections that are not known to be closed.
    private(set) var standing: [WorldConnection] = []
    private(set) var peers: [any WorldPeer] = []
    private var gone: [WorldConnection] = []
    /// The number of wrongly accepted notifications (`WorldPeer.falselyAccepted`) on closed connections.
    private(set) var falselyAccepted = 0
    /// Called for each dial before there is a channel.
    var onDial: (WorldConnection) -> Void = { _ in }
    private var agenda: [(ns: Int64, body: () -> Void)] = []
    /// The time of the current event.
    private(set) var nowNs: Int64 = TestClock.start.monotonicNs

    init(_ chronicle: WorldChronicle, loop: Loop, makePeer: @escaping (WorldHost, WorldConnection) -> any WorldPeer) {
        self.chronicle = chronicle
        self.loop = loop
        self.makePeer = makePeer
    }

    // MARK: Time

    func at(_ ns: Int64, _ body: @escaping () -> Void) {
        var place = agenda.count
        while place > 0, agenda[place - 1].ns > ns { place -= 1 }
        agenda.insert((ns, body), at: place)
    }

    func after(_ ns: Int64, _ body: @escaping () -> Void) { at(nowNs + ns, body) }

    var nextNs: Int64 { agenda.first?.ns ?? .max }

    /// Runs all events up to this time, each at its own time.
    func advance(to ns: Int64) {
        while let first = agenda.first, first.ns <= ns {
            agenda.removeFirst()
            nowNs = max(nowNs, first.ns)
            first.body()
        }
        nowNs = ns
        for peer in peers { peer.turn() }
    }

    // MARK: Moods

    func does(_ fault: WorldMood.Fault) -> Bool { chronicle.chance(mood[fault]) }

    func changeMood() {
        guard !isWell else { return }
        mood = WorldMood.drawn(chronicle)
        chronicle.trace("mood \(mood)")
    }

    func becomeWell() {
        chronicle.trace("all is well")
        isWell = true
        mood = .well
        for peer in peers where !peer.isClosed { peer.becomeWell() }
    }

    // MARK: Dials

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        let connection = WorldConnection(number: connections.count, dialledNs: loop.now.monotonicNs, delegate: delegate)
        onDial(connection)
        connections.append(connection)
        standing.append(connection)
        let isRefused = does(.refusesDial)
        let afterNs = does(.slowDial) ? chronicle.ms(1...3_000) : 0
        chronicle.trace(
            "#\(connection.number) dialled\(connection.isQuarantine ? " for suspects" : "")\(isRefused ? ", refused" : "")"
        )
        if isRefused { chronicle.note("dial refused") }
        if afterNs > 0 { chronicle.note("slow dial") }
        let channel = MemoryChannel.dial(loop, delegate, afterNs: afterNs) { [unowned self] () throws(ChannelEnd) in
            if isRefused { throw ChannelEnd("world: Connection refused") }
            let peer = makePeer(self, connection)
            peers.append(peer)
            befall(peer)
            return peer
        }
        connection.channel = channel
        return channel
    }

    private func befall(_ peer: any WorldPeer) {
        after(chronicle.ms(20...2_000)) { [self] in
            guard !peer.isClosed, !isWell else { return }
            peer.misbehave()
            befall(peer)
        }
    }

    /// Finds connections that have closed.
    func look() {
        for connection in standing {
            switch connection.stage {
            case .ready:
                connection.wasReady = true
                connection.wasSeenReady = true
            case .gone:
                connection.goneNs = loop.now.monotonicNs
                chronicle.trace("#\(connection.number) gone")
            case .dialing, .draining: break
            }
        }
        guard standing.contains(where: { $0.goneNs != nil }) else { return }
        for gone in standing where gone.goneNs != nil {
            gone.wasAnotherReady = standing.contains { $0 !== gone && !$0.isQuarantine && $0.wasReady }
        }
        gone += standing.filter { $0.goneNs != nil }
        standing.removeAll { $0.goneNs != nil }
        for peer in peers where peer.isClosed && peer.connection.goneNs != nil {
            falselyAccepted += peer.falselyAccepted
        }
        peers.removeAll { $0.isClosed && $0.connection.goneNs != nil }
    }

    /// Returns the connections that were found closed since the last call.
    func takeGone() -> [WorldConnection] {
        defer { gone = [] }
        return gone
    }

    /// Records that a request arrived over the connection.
    func came(_ arrived: WorldTry, over connection: WorldConnection) {
        connection.wasAsked = true
        chronicle.check(arrived.handedNs != nil, "try \(arrived.serial) arrived before the transport received it")
        chronicle.check(arrived.connection == nil, "try \(arrived.serial) arrived twice")
        chronicle.check(
            arrived.isSuspect == connection.isQuarantine,
            "try \(arrived.serial) is \(arrived.isSuspect ? "a" : "no") suspect, but arrived over "
                + "\(connection.isQuarantine ? "the quarantine" : "an ordinary") connection")
        if let recalledNs = arrived.recalledNs, let handedNs = arrived.handedNs, recalledNs >= handedNs {
            chronicle.check(
                connection.dialledNs <= recalledNs,
                "try \(arrived.serial) was recalled, but arrived over #\(connection.number), which was dialled later")
        }
        arrived.connection = connection
    }
}
