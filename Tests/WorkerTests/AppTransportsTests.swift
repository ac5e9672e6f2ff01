import Configuration
import Delivery
import EventLoop
import HTTP2
import PushRecords
import TLS
import Testing

@testable import Worker

/// How the core handles reports of the transports. The test reports in place of the transports.
@Suite struct AppTransportsTests {
    private let failure = TransportNote.connectFailed(host: "apns", reason: "refused", retryInMs: 1)

    @Test func `A host is unreachable until its transport reports that it is reached`() throws {
        let scene = try Scene()
        scene.say([.note(app: AppIndex(0), failure), .reachable(app: AppIndex(0), false)])
        scene.run("unreachable") { scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == failure)
        #expect(scene.notes == [failure])
        // The host accepts a connection now and then but answers no request.
        scene.say([.capacity(app: AppIndex(0), requests: 1)])
        scene.say([.unanswered(app: AppIndex(0), Unanswered(host: "apns", endedBy: nil))])
        scene.run("unanswered") { scene.transports[0].unanswered != nil }
        #expect(scene.transports[0].unreachable == failure)
        scene.say([.reachable(app: AppIndex(0), true)])
        scene.run("reachable") { !scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == nil)
    }

    @Test func `Connections that end with notifications in doubt count as many from the third on, for ten minutes`() {
        var ends = AppTransports.DoubtfulEnds()
        for number in 1...3 as ClosedRange<Int64> {
            #expect(!ends.areMany(number * 1_000_000_000))
            ends.note(100, nowNs: number * 1_000_000_000)
            ends.note(0, nowNs: number * 1_000_000_000)
        }
        #expect(ends.areMany(4_000_000_000) && ends.connections == 3 && ends.notifications == 300)
        #expect(ends.areMany(602_000_000_000) && !ends.areMany(604_000_000_000))
        ends.note(1, nowNs: 604_000_000_000)
        #expect(ends.connections == 1 && ends.notifications == 1)
    }

    @Test func `A failed connection attempt does not make a host unreachable while other connections take requests`()
        throws
    {
        let scene = try Scene()
        func counts(open: Int) -> TransportEvent {
            var counts = ConnectionCounts()
            counts.open = open
            return .connections(app: AppIndex(0), counts)
        }
        func failures() -> Int { scene.notes.count { $0 == failure } }
        // The order of the reports of a turn does not matter: the state at the end of the turn counts.
        scene.say([.note(app: AppIndex(0), failure), counts(open: 1)])
        scene.run("the first failure") { failures() == 1 }
        #expect(scene.transports[0].unreachable == nil)
        scene.say([counts(open: 2), .note(app: AppIndex(0), failure)])
        scene.run("the second failure") { failures() == 2 }
        #expect(scene.transports[0].unreachable == nil)
        // The open connections answer nothing.
        scene.say([.reachable(app: AppIndex(0), false), .note(app: AppIndex(0), failure)])
        scene.run("the third failure") { failures() == 3 }
        #expect(scene.transports[0].unreachable == failure)
        scene.say([.reachable(app: AppIndex(0), true), counts(open: 0), .note(app: AppIndex(0), failure)])
        scene.run("the last failure") { failures() == 4 }
        #expect(scene.transports[0].unreachable == failure)
    }

    @Test func `The age of a provider token counts from its iat, and the host's error codes are added up`() throws {
        let scene = try Scene()
        let errors = TransportEvent.note(app: AppIndex(0), .peerErrors(goAways: [1, 2], resets: [0, 3]))
        scene.say([errors, errors])
        scene.say([.note(app: AppIndex(0), .providerTokenRenewed(keyID: "KEYKEYKEY1", issuedMs: 77_000))])
        scene.run("the token") { scene.transports[0].tokenIssuedMs != nil }
        #expect(scene.transports[0].tokenIssuedMs == 77_000)
        #expect(scene.transports[0].peerErrors.goAways.prefix(3) == [2, 4, 0])
        #expect(scene.transports[0].peerErrors.resets.prefix(3) == [0, 6, 0])
    }

    @Test func `An app can be added, changed and removed, and each transport closes once`() throws {
        let scene = try Scene()
        #expect(scene.transports.add(scene.app) == AppIndex(1))
        // The change dials at once, and no server listens.
        scene.transports.replace(AppIndex(1), with: try Scene.app(minimumConnections: 1))
        scene.run("unreachable") { scene.transports[1].unreachable != nil }
        scene.transports.remove(AppIndex(1))
        #expect(scene.transports[1].unreachable == nil && !scene.transports.isClosed)
        scene.run("the removed app's transport is closed") { scene.transports[1].isClosed }
        // A later change of the removed app has no effect.
        scene.transports.replace(AppIndex(1), with: scene.app)
        scene.transports.close()
        scene.run("closed") { scene.transports.isClosed }
        #expect(scene.closed == [AppIndex(1), AppIndex(0)], "each transport closes once")
    }
}

/// A machine and transports without connections. The test reports in place of the transports.
private final class Scene {
    let app: LoadedApp
    private let loop: Loop
    private let inbox = Inbox()
    let transports: AppTransports
    private(set) var closed: [AppIndex] = []
    private var machine = DeliveryMachine(settings: MachineSettings(), apps: [])

    /// The notes that `AppTransports` passed to its closure.
    private final class Inbox {
        var notes: [TransportNote] = []
    }

    var notes: [TransportNote] { inbox.notes }

    init() throws {
        app = try Self.app(minimumConnections: 0)
        loop = try Loop()
        // The second route is for the app that a test adds.
        let routes = (0...1).map {
            AppRoute(name: "shop\($0)", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
        }
        _ = machine.replaceApps(routes, now: DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs))
        transports = try AppTransports(
            [app], TransportSettings(responseTimeoutNs: 1, longestWindowNs: 1, tracesFrames: { false }), loop: loop,
            onNote: { [inbox] note, _ in inbox.notes.append(note) })
        // The transport reports nothing more until it has something to send.
        run("capacity") { transports[0].takesRequests }
    }

    deinit { transports.stop() }

    /// An app with a host at which no server listens.
    static func app(minimumConnections: Int) throws -> LoadedApp {
        var settings = AppSettings.withToken("shop", key: .text(try SelfSigned.privateKey()))
        settings.host = "127.0.0.1"
        settings.port = 1
        settings.connections.min = minimumConnections
        return try LoadedApp(settings)
    }

    /// Reports `events` as the first app's transport.
    func say(_ events: [TransportEvent]) { transports.inbox.events += events }

    /// Runs turns until `condition` holds. Records a failure after 180 s.
    func run(_ what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () -> Bool) {
        let deadlineNs = LoopTime.read().monotonicNs + 180_000_000_000
        while true {
            for case .closed(let app) in transports.inbox.events { closed.append(app) }
            transports.deliver(to: &machine, now: DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs))
            if condition() { return }
            guard LoopTime.read().monotonicNs < deadlineNs else {
                Issue.record("not within 180 s: \(what)", sourceLocation: sourceLocation)
                return
            }
            loop.runOnce(timeoutNs: 10_000_000)
        }
    }
}
