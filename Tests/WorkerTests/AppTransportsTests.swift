import Configuration
import Delivery
import EventLoop
import Foundation
import PushRecords
import Synchronization
import TLS
import Testing

@testable import Worker

/// What the core makes of the reports of transports that are made by the test.
@Suite struct AppTransportsTests {
    private let failure = TransportNote.connectFailed(host: "apns", reason: "refused", retryInMs: 1)

    @Test func `A host is out of reach until its transport reports that it is reached`() throws {
        let scene = try Scene()
        scene.say([.note(app: AppIndex(0), failure), .reachable(app: AppIndex(0), false)])
        scene.run("unreachable") { scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == failure)
        #expect(scene.notes == [failure])
        // It takes connections now and then, and answers nothing.
        scene.say([.capacity(app: AppIndex(0), requests: 1)])
        scene.say([.unanswered(app: AppIndex(0), Unanswered(host: "apns", endedBy: nil))])
        scene.run("unanswered") { scene.transports[0].unanswered != nil }
        #expect(scene.transports[0].unreachable == failure)
        scene.say([.reachable(app: AppIndex(0), true)])
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
        let scene = try Scene()
        func counts(open: Int) -> TransportEvent {
            var counts = ConnectionCounts()
            counts.open = open
            return .connections(app: AppIndex(0), counts)
        }
        func failures() -> Int { scene.notes.count { $0 == failure } }
        // As told by a turn: in any order, what holds at its end counts.
        scene.say([.note(app: AppIndex(0), failure), counts(open: 1)])
        scene.run("the first failure") { failures() == 1 }
        #expect(scene.transports[0].unreachable == nil)
        scene.say([counts(open: 2), .note(app: AppIndex(0), failure)])
        scene.run("the second failure") { failures() == 2 }
        #expect(scene.transports[0].unreachable == nil)
        // The ones there are answer nothing.
        scene.say([.reachable(app: AppIndex(0), false), .note(app: AppIndex(0), failure)])
        scene.run("the third failure") { failures() == 3 }
        #expect(scene.transports[0].unreachable == failure)
        scene.say([.reachable(app: AppIndex(0), true), counts(open: 0), .note(app: AppIndex(0), failure)])
        scene.run("the last failure") { failures() == 4 }
        #expect(scene.transports[0].unreachable == failure)
    }

    @Test func `The age of a provider token counts from its iat`() throws {
        let scene = try Scene()
        scene.say([.note(app: AppIndex(0), .providerTokenRenewed(keyID: "KEYKEYKEY1", issuedMs: 77_000))])
        scene.run("the token") { scene.transports[0].tokenIssuedMs != nil }
        #expect(scene.transports[0].tokenIssuedMs == 77_000)
    }

    @Test func `An app that is added, changed and taken out; all are closed in the end`() throws {
        let scene = try Scene()
        #expect(scene.transports.add(scene.app) == AppIndex(1))
        scene.transports.replace(AppIndex(1), with: scene.app)
        scene.run("the change") { scene.frames.all == ["1 replaced"] }
        scene.say([.note(app: AppIndex(1), failure), .reachable(app: AppIndex(1), false)])
        scene.run("unreachable") { scene.transports[1].unreachable != nil }
        scene.transports.remove(AppIndex(1))
        #expect(scene.transports[1].unreachable == nil && !scene.transports.isClosed)
        scene.run("the end of the one that was taken out") { scene.frames.all.last == "1 ended" }
        // It is given nothing that comes late.
        scene.transports.replace(AppIndex(1), with: scene.app)
        scene.transports.close()
        scene.run("closed") { scene.transports.isClosed }
        #expect(scene.frames.all.prefix(4) == ["1 replaced", "1 closed", "1 ended", "0 closed"], "each once")
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
        var events: Mailbox<TransportEvent>?
    }

    var notes: [TransportNote] { inbox.notes }

    init() throws {
        app = try LoadedApp(.withToken("shop", key: .text(try SelfSigned.privateKey())))
        loop = try Loop()
        // One more, for one that is added.
        let routes = (0...1).map {
            AppRoute(name: "shop\($0)", environment: .production, bundleIDs: ["com.example.shop"], guardPolicy: .off)
        }
        _ = machine.replaceApps(routes, now: DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs))
        let (inbox, frames, apps) = (inbox, frames, [app])
        transports = try AppTransports(
            1, loop: loop, onNote: { note, _ in inbox.notes.append(note) },
            start: {
                inbox.events = $0
                return try TransportLink(apps, events: $0) { _ in frames.make }
            })
    }

    deinit { transports.stop() }

    /// Reports something as the first app's transport.
    func say(_ events: [TransportEvent]) { inbox.events?.post(contentsOf: events) }

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

/// Transports that do nothing on the net thread, and what happened to them, by the index of their app.
private final class Reports: Sendable {
    private let log = Mutex<[String]>([])

    var all: [String] { log.withLock { $0 } }

    private func note(_ what: String) { log.withLock { $0.append(what) } }

    /// A transport while it exists.
    private final class Life {
        let onEnd: () -> Void
        init(_ onEnd: @escaping () -> Void) { self.onEnd = onEnd }
        deinit { onEnd() }
    }

    func make(_ app: LoadedApp, _ index: AppIndex, _ emit: @escaping AppTransport.Emit) -> AppTransport {
        let life = Life { [self] in note("\(index.value) ended") }
        return AppTransport(
            isBinary: false,
            handle: { [self] command in
                guard case .close = command else { return }
                note("\(index.value) closed")
                withExtendedLifetime(life) { emit([.closed(app: index)]) }
            }, replace: { [self] _ in note("\(index.value) replaced") })
    }
}
