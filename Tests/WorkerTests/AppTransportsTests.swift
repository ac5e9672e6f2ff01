import Configuration
import Delivery
import EventLoop
import Foundation
import PushRecords
import TLS
import Testing

@testable import Worker

/// What the core makes of the reports of transports that are made by the test.
@Suite struct AppTransportsTests {
    @Test func `A host is out of reach until its transport reports that it is reached`() throws {
        let scene = try Scene(apps: 1)
        let failure = TransportNote.connectFailed(host: "apns", reason: "refused", retryInMs: 1)
        scene.frames.say([.note(app: AppIndex(0), failure), .reachable(app: AppIndex(0), false)])
        scene.run("unreachable") { scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == failure)
        #expect(scene.notes == [failure])
        // It takes connections now and then, and answers nothing.
        scene.frames.say([.capacity(app: AppIndex(0), requests: 1)])
        scene.frames.say([.unanswered(app: AppIndex(0), Unanswered(host: "apns", endedBy: nil))])
        scene.run("unanswered") { scene.transports[0].unanswered != nil }
        #expect(scene.transports[0].unreachable == failure)
        scene.frames.say([.reachable(app: AppIndex(0), true)])
        scene.run("reachable") { !scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == nil)
    }

    @Test func `Ends that leave something in doubt are many from the third on, for ten minutes`() {
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

    @Test func `One more connection that cannot be made is nothing while others take requests`() throws {
        let scene = try Scene(apps: 1)
        let failure = TransportNote.connectFailed(host: "apns", reason: "refused", retryInMs: 1)
        func counts(open: Int) -> TransportEvent {
            var counts = ConnectionCounts()
            counts.open = open
            return .connections(app: AppIndex(0), counts)
        }
        func failures() -> Int { scene.notes.count { $0 == failure } }
        // As told by a turn: in any order, what holds at its end counts.
        scene.frames.say([.note(app: AppIndex(0), failure), counts(open: 1)])
        scene.run("the first failure") { failures() == 1 }
        #expect(scene.transports[0].unreachable == nil)
        scene.frames.say([counts(open: 2), .note(app: AppIndex(0), failure)])
        scene.run("the second failure") { failures() == 2 }
        #expect(scene.transports[0].unreachable == nil)
        // The ones there are answer nothing.
        scene.frames.say([.reachable(app: AppIndex(0), false), .note(app: AppIndex(0), failure)])
        scene.run("the third failure") { failures() == 3 }
        #expect(scene.transports[0].unreachable == failure)
        scene.frames.say([.reachable(app: AppIndex(0), true), counts(open: 0), .note(app: AppIndex(0), failure)])
        scene.run("the last failure") { failures() == 4 }
        #expect(scene.transports[0].unreachable == failure)
    }

    @Test func `The age of a provider token counts from its iat`() throws {
        let scene = try Scene(apps: 1)
        scene.frames.say([.note(app: AppIndex(0), .providerTokenRenewed(keyID: "KEYKEYKEY1", issuedMs: 77_000))])
        scene.run("the token") { scene.transports[0].tokenIssuedMs != nil }
        #expect(scene.transports[0].tokenIssuedMs == 77_000)
    }

    @Test func `An app that is added, changed and taken out; all are closed in the end`() throws {
        let scene = try Scene(apps: 1)
        #expect(scene.transports.add(scene.app) == AppIndex(1))
        scene.transports.replace(AppIndex(1), with: scene.app)
        scene.run("the change") { scene.frames.replaced == 1 }
        scene.frames.say([
            .note(app: AppIndex(1), .connectFailed(host: "apns", reason: "refused", retryInMs: 1)),
            .reachable(app: AppIndex(1), false),
        ])
        scene.run("unreachable") { scene.transports[1].unreachable != nil }
        scene.transports.remove(AppIndex(1))
        #expect(scene.transports[1].unreachable == nil && !scene.transports.isClosed)
        scene.run("the end of the one that was taken out") { scene.frames.ended == [1] }
        // It is given nothing that comes late.
        scene.transports.replace(AppIndex(1), with: scene.app)
        scene.transports.close()
        scene.run("closed") { scene.transports.isClosed }
        #expect(scene.frames.closed == [1, 0], "one that was taken out is closed once")
        #expect(scene.frames.replaced == 1)
    }
}

/// A machine and transports that report what the test says.
private final class Scene {
    let frames = Reports()
    let app: LoadedApp
    private let loop: Loop
    private let inbox = Inbox()
    private(set) var transports: AppTransports
    private var machine = DeliveryMachine(settings: MachineSettings(), apps: [])

    /// What the closures given to `AppTransports` leave here.
    private final class Inbox {
        var notes: [TransportNote] = []
    }

    var notes: [TransportNote] { inbox.notes }

    init(apps count: Int) throws {
        let settings = AppSettings(
            name: "shop", bundleIDs: ["com.example.shop"],
            credential: .token(
                TokenCredential(
                    key: .text(try SelfSigned.privateKey()), keyID: "KEYKEYKEY1", teamID: "TEAMTEAM12")),
            host: "apns")
        app = try LoadedApp(settings)
        loop = try Loop()
        // One more, for one that is added.
        let routes = (0...count).map {
            AppRoute(name: "shop\($0)", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
        }
        _ = machine.replaceApps(routes, now: DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs))
        let (inbox, frames, apps) = (inbox, frames, [LoadedApp](repeating: app, count: count))
        transports = try AppTransports(
            count, loop: loop, onWakeUp: {},
            onNote: { note, _ in inbox.notes.append(note) },
            start: { try TransportLink(apps, events: $0) { frames.started(on: $0) } })
    }

    deinit { transports.stop() }

    /// Turns until `condition` holds; the deadline is a failure.
    func run(_ what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () -> Bool) {
        let deadlineNs = LoopTime.read().monotonicNs + 60_000_000_000
        while true {
            transports.deliver(
                to: &machine, now: DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs))
            if condition() { return }
            guard LoopTime.read().monotonicNs < deadlineNs else {
                Issue.record("not within 60 s: \(what)", sourceLocation: sourceLocation)
                return
            }
            loop.runOnce(timeoutNs: 10_000_000)
        }
    }
}

/// Transports that do nothing on the net thread, and what the test's thread may know of them.
private final class Reports: @unchecked Sendable {
    private let lock = NSLock()
    private var state = State()
    private var loop: Loop?
    private var emits: [([TransportEvent]) -> Void] = []

    struct State {
        var closed: [Int] = []
        var replaced = 0
        var ended: [Int] = []
    }

    /// A transport while it exists.
    private final class Life {
        let onEnd: () -> Void
        init(_ onEnd: @escaping () -> Void) { self.onEnd = onEnd }
        deinit { onEnd() }
    }

    var closed: [Int] { lock.withLock { state.closed } }
    var replaced: Int { lock.withLock { state.replaced } }
    /// Those that are let go.
    var ended: [Int] { lock.withLock { state.ended } }

    private func note(_ body: (inout State) -> Void) { lock.withLock { body(&state) } }

    func started(on loop: Loop) -> AppTransport.Maker {
        self.loop = loop
        return { [self] _, index, emit in
            emits.append(emit)
            let life = Life { [self] in note { $0.ended.append(index.value) } }
            return AppTransport(
                isBinary: false,
                handle: { [self] command in
                    guard case .close = command else { return }
                    note { $0.closed.append(index.value) }
                    withExtendedLifetime(life) { emit([.closed(app: index)]) }
                }, replace: { [self] _ in note { $0.replaced += 1 } })
        }
    }

    /// Says something as the first app's transport.
    func say(_ events: [TransportEvent]) {
        loop?.perform { [self] in emits[0](events) }
    }
}
