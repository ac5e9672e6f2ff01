import Bytes
import Delivery
import EventLoop
import Network
import PushRecords
import TLS

@testable import APNs

/// A complete transport, of HTTP/2 or the binary protocol, with a host whose behavior depends on the seed. Time is
/// simulated, and channels are in memory.
final class TransportWorld {
    let chronicle: WorldChronicle
    let isBinary: Bool
    let host: WorldHost
    let core: WorldCore
    let time: TestTime
    var http: APNsConfiguration
    var binary: BinaryConfiguration
    private var transport: (any Transport)?
    private weak var weakTransport: (any Transport)?
    /// The latest reports of the transport.
    var told = Told()
    var isClosing = false
    var turns = 0
    /// The replacements, lost connections that had answered, and dials of the last second.
    var recent = Recent()
    private var nextDisturbanceNs: Int64
    private var stoodStillTurn = Int.min
    var hasJustStoodStill: Bool { turns - 2 < stoodStillTurn }
    private var provider: ProviderToken?

    struct Told {
        var connections = ConnectionCounts()
        var reachable: Bool?
        var isClosed = false
        /// The maximum number of notifications that silence accepted wrongly, as reported.
        var lostAtMost = 0
        /// The minimum number of consecutive connections that received requests and did not answer.
        var endsInRow = 0
        /// The time since which there is neither a connection nor a dial, or `nil`.
        var noneSinceNs: Int64?
    }

    /// The kinds of events that must occur in some worlds. The event "erring connection replaced" is not one of them,
    /// because it occurs in only two of a thousand worlds.
    static let kinds = [
        "dial refused", "slow dial", "no SETTINGS", "nonsense", "closed after SETTINGS", "poison", "stream refused",
        "stream reset", "no answer", "half an answer", "SETTINGS change", "windows closed", "deaf", "full kernel",
        "GOAWAY",
        "connection ended", "closed at once", "error", "late error", "answer in pieces", "shutdown", "reads nothing",
        "another pace", "error for any identifier", "suspect", "recall", "replacement", "stood still",
        "closed in the storm",
        "window too short", "credential refused", "unanswered", "renewed for a topic",
        "asked for proof", "out of reach", "no streams", "let go of while it closes",
    ]

    init(seed: UInt64, isTraced: Bool = false) throws {
        let chronicle = WorldChronicle(seed: seed, isTraced: isTraced)
        self.chronicle = chronicle
        time = try TestTime()
        isBinary = chronicle.chance(45)
        let context = try Self.context.get()
        http = Self.http(chronicle, context)
        binary = Self.binary(chronicle, context)
        let isBinary = isBinary
        let format = binary.format
        let answersFence = binary.answersFence
        host = WorldHost(chronicle, loop: time.loop) { host, connection in
            if isBinary {
                return WorldGatewayPeer(host, connection, format: format, answersFence: answersFence)
            }
            return WorldServerPeer(host, connection)
        }
        host.retirementStreamID = http.retirementStreamID
        core = WorldCore(chronicle, host, payloadLimit: isBinary ? binary.payloadLimit : 4_096)
        nextDisturbanceNs = time.nowNs
        core.add(chronicle.number(1...chronicle.pick([5, 50, 300])), at: time.nowNs)
        for number in 0..<UInt32(core.count) where chronicle.chance(1) { host.poisons.insert(number) }
        host.onDial = { [unowned self] in dialled($0) }
    }

    private static let context = Result { try ClientContext(trust: .anyone) }

    // MARK: Settings

    private static func http(_ chronicle: WorldChronicle, _ context: ClientContext) -> APNsConfiguration {
        var it = APNsConfiguration(ConnectionSettings(DialTarget(host: "server", port: 443), tls: context))
        it.connections.minimum = chronicle.pick([0, 0, 1, 1, 2, 3])
        it.connections.maximum = max(1, it.connections.minimum) + chronicle.number(0...4)
        it.responseTimeoutNs = chronicle.ms(3_000...8_000)
        it.unansweredNs = chronicle.ms(1_000...4_000)
        it.keepalive.idleNs = chronicle.ms(3_000...20_000)
        it.keepalive.silentNs = chronicle.ms(500...2_000)
        it.keepalive.deadNs = chronicle.ms(500...3_000)
        it.connections.backOff = backOff(chronicle)
        it.connections.idleNs = chronicle.ms(2_000...20_000)
        it.quarantineIdleNs = chronicle.ms(1_000...10_000)
        it.errorSpanNs = chronicle.ms(500...3_000)
        it.topicAgeNs = chronicle.ms(100...5_000)
        it.topicPauseNs = chronicle.ms(1_000...20_000)
        if chronicle.chance(20) { it.retirementStreamID = UInt32(chronicle.number(5...100)) }
        return it
    }

    private static func binary(_ chronicle: WorldChronicle, _ context: ClientContext) -> BinaryConfiguration {
        var it = BinaryConfiguration(ConnectionSettings(DialTarget(host: "gateway", port: 2_195), tls: context))
        it.format = chronicle.pick([.framed, .framed, .enhanced, .simple])
        it.connections.minimum = chronicle.pick([0, 0, 1, 1, 2, 3])
        it.connections.maximum = max(1, it.connections.minimum) + chronicle.number(0...4)
        it.window = window(chronicle)
        it.resendsDiscarded = chronicle.chance(85)
        it.answersFence = chronicle.chance(80)
        it.payloadLimit = chronicle.pick([256, 2_048, 2_048])
        it.connections.idleNs = chronicle.ms(2_000...20_000)
        it.silenceNs = chronicle.ms(2_000...10_000)
        it.connections.backOff = backOff(chronicle)
        return it
    }

    private static func window(_ chronicle: WorldChronicle) -> BinaryConfiguration.WindowLimits {
        var window = BinaryConfiguration.WindowLimits()
        window.durationNs = chronicle.ms(100...2_500)
        window.longestNs = window.durationNs * Int64(chronicle.number(1...4))
        window.notifications = chronicle.pick([1, 20, 500, 100_000])
        window.bytes = chronicle.pick([2_000, 100_000, 32 << 20])
        return window
    }

    private static func backOff(_ chronicle: WorldChronicle) -> BackOff.Limits {
        var limits = BackOff.Limits()
        limits.firstNs = chronicle.ms(50...1_000)
        limits.lastNs = limits.firstNs * Int64(chronicle.number(1...8))
        return limits
    }

    private var connections: ConnectionSettings { isBinary ? binary.connections : http.connections }
    var maximum: Int { connections.maximum }
    var minimum: Int { connections.minimum }
    private var idleNs: Int64 { connections.idleNs }
    var backOff: BackOff.Limits { connections.backOff }

    // MARK: The run

    /// Runs a storm of faults, then a calm in which everything must recover, then the end. In some worlds the end comes
    /// in the storm.
    ///
    /// - Throws: the violated rule.
    func run() throws {
        if chronicle.chance(80) { host.changeMood() }
        start()
        let stormNs = time.nowNs + chronicle.ms(2_000...40_000)
        try go(until: stormNs, turns: 2_000) { false }
        if chronicle.chance(25) {
            chronicle.note("closed in the storm")
        } else {
            try calm()
        }
        try close()
    }

    private func calm() throws {
        host.becomeWell()
        core.isWell = true
        try completeAll()
        try expect("the transport has capacity again", withinMs: 120_000) { core.capacity > 0 }
        let (accepted, fresh) = (core.accepted, 20)
        let ended = core.ended
        core.add(fresh, at: time.nowNs)
        try completeAll()
        // Gateways of the binary protocol refuse some of them in this world.
        chronicle.check(
            core.accepted + (isBinary ? core.ended - ended : 0) == accepted + fresh,
            "a healthy host accepted only \(core.accepted - accepted) of \(fresh) notifications")
        try expect("the transport has capacity and its minimum of connections", withinMs: 120_000) {
            core.capacity > 0 && liveCount >= minimum
        }
        chronicle.check(told.reachable != false, "a host that answers everything is reported as unreachable")
        chronicle.check(
            isBinary || core.capacity >= told.connections.streams,
            "the capacity \(core.capacity) is below the \(told.connections.streams) streams of a healthy host")
        // All actions that had begun are complete, and connections beyond the minimum are closed. With a minimum of 0
        // the pool sleeps.
        try restLong()
        if minimum == 0, liveCount > 0 {
            // A connection opened after a failure stays until one request shows that the host works.
            core.add(5, at: time.nowNs)
            try completeAll()
            try restLong()
        }
        let dials = host.connections.count
        try rest(ms: 30_000)
        chronicle.check(
            liveCount == minimum && core.capacity > 0,
            "an idle pool has \(liveCount) connections, a minimum of \(minimum) and the capacity \(core.capacity)")
        chronicle.check(host.connections.count == dials, "an idle pool dialled \(host.connections.count - dials) times")
        try look()
    }

    private func completeAll() throws {
        // The time limit applies to each completion, so that it does not depend on the number of notifications.
        while core.open > 0 || !core.isNothingHanded {
            let open = core.open
            try expect("another notification is completed", withinMs: 120_000) {
                core.open < open || core.open == 0 && core.isNothingHanded
            }
        }
    }

    /// Waits in the calm until all actions that had begun are complete.
    private func restLong() throws {
        try rest(ms: 20_000 + (backOff.lastNs + idleNs * Int64(2 * maximum)) / 1_000_000)
    }

    /// Runs a while in the calm.
    private func rest(ms: Int64) throws {
        try go(until: time.nowNs + ms * 1_000_000, turns: 200_000) { false }
    }

    private func close() throws {
        isClosing = true
        core.post(.close)
        var isLetGo = false
        try expect("the transport reports that it is closed", withinMs: 90_000) {
            if !isLetGo, core.isMailTaken, chronicle.chance(30), weakTransport != nil {
                chronicle.note("let go of while it closes")
                isLetGo = true
                transport = nil
            }
            return told.isClosed
        }
        chronicle.check(core.isNothingHanded, "a notification has no completion at the end")
        transport = nil
        for _ in 0..<20 {
            core.dropMail()
            turn(limitNs: time.nowNs + 1_000_000_000)
        }
        try look()
        chronicle.check(weakTransport == nil, "the transport is not deallocated after its end")
        chronicle.check(host.connections.allSatisfy(\.isFreed), "a connection is not deallocated after the end")
        chronicle.check(
            host.falselyAccepted <= told.lostAtMost,
            "silence wrongly accepted \(host.falselyAccepted) notifications, but \(told.lostAtMost) were reported")
        try look()
    }

    private func go(until endNs: Int64, turns most: Int, _ isOver: () -> Bool) throws {
        let turnsBefore = turns
        while time.nowNs < endNs, turns - turnsBefore < most, !isOver() {
            if !host.isWell, !isClosing, time.nowNs >= nextDisturbanceNs { disturb() }
            turn(limitNs: min(endNs, isClosing || host.isWell ? .max : nextDisturbanceNs))
            try look()
        }
    }

    private func expect(_ what: String, withinMs: Int64, _ isSo: () -> Bool) throws {
        let sinceNs = time.nowNs
        try go(until: sinceNs + withinMs * 1_000_000, turns: 200_000) { isSo() }
        chronicle.check(
            isSo(),
            "not within \(withinMs / 1_000) s: \(what) (capacity \(core.capacity), outstanding \(core.outstanding), "
                + "open \(core.open), \(told.connections))")
        try look()
    }

    private func look() throws {
        if let broken = chronicle.broken { throw WorldBroken(text: broken) }
    }

    private func turn(limitNs: Int64) {
        turns += 1
        chronicle.nowNs = time.nowNs
        host.advance(to: time.nowNs)
        if !isClosing { core.send(nowNs: time.nowNs) }
        if let transport { core.deliver(to: transport, nowNs: time.nowNs) }
        time.turn(limitNs: max(time.nowNs, min(limitNs, host.nextNs, core.nextNs(sends: !isClosing))))
        check()
    }

    // MARK: The transport

    private func start() {
        let emit: ([TransportEvent]) -> Void = { [unowned self] in take($0) }
        let random = SplitMix64(seed: chronicle.random.next())
        if isBinary {
            transport = BinaryTransport(
                app: AppIndex(7), configuration: binary, loop: time.loop, dialer: host, random: random, emit: emit)
        } else {
            provider = chronicle.chance(25) ? try? World.providerToken() : nil
            transport = APNsTransport(
                app: AppIndex(7), configuration: http, token: provider, loop: time.loop, dialer: host, random: random,
                emit: emit)
        }
        weakTransport = transport
    }

    private func disturb() {
        nextDisturbanceNs = time.nowNs + chronicle.ms(10...3_000)
        switch chronicle.number(0...99) {
        case 0..<30: host.changeMood()
        case 30..<45:
            chronicle.note("recall")
            core.recall()
        case 45..<55: replace()
        case 55..<65:
            chronicle.note("stood still")
            stoodStillTurn = turns
            time.standStill(forNs: chronicle.ms(1...chronicle.pick([100, 3_000, 40_000])))
        case 65..<85: core.add(chronicle.number(1...60), at: time.nowNs)
        default: break
        }
    }

    private func replace() {
        chronicle.note("replacement")
        let minimum = chronicle.pick([0, 1, 2])
        let most = max(1, minimum) + chronicle.number(0...3)
        recent.replacementsNs.append(time.nowNs)
        told.endsInRow = 0
        if let transport = transport as? APNsTransport {
            http.connections.minimum = minimum
            http.connections.maximum = most
            http.connections.target.host = "server\(chronicle.number(1...9))"
            if chronicle.chance(20) { provider = provider == nil ? try? World.providerToken() : nil }
            transport.replace(configuration: http, token: provider)
        } else if let transport = transport as? BinaryTransport {
            binary.connections.minimum = minimum
            binary.connections.maximum = most
            binary.connections.target.host = "gateway\(chronicle.number(1...9))"
            if chronicle.chance(30) { binary.window = Self.window(chronicle) }
            transport.replace(configuration: binary)
        }
    }
}

/// A transport of either protocol.
protocol Transport: AnyObject {
    func handle(_ command: TransportCommand)
}

extension APNsTransport: Transport {}
extension BinaryTransport: Transport {}

/// A violated rule.
struct WorldBroken: Error, CustomStringConvertible {
    let text: String
    var description: String { text }
}
