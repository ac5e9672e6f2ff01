import Configuration
import Delivery
import EventLoop
import Foundation
import PushRecords
import TLS
import Testing

@testable import Worker

/// Transports of another kind than HTTP/2: as Apple's retired binary protocol had it, frames go out, an error comes
/// back and ends the connection, and what it is silent about was taken. No socket, no server.
@Suite struct AppTransportsTests {
    @Test func `Silence is acceptance: each is sent once and settled`() throws {
        let scene = try Scene(apps: 2)
        scene.receive(["a", "b", "c"])
        scene.run("three results") { scene.outcomes.count == 3 }
        #expect(Set(scene.outcomes.values) == [.accepted])
        #expect(scene.frames.written == ["a", "b", "c"])
        #expect(scene.transports[0].connections.open == 1)
        #expect(scene.wakeUps > 0)
    }

    @Test func `An error takes what came before it, and all behind it is sent again on the next connection`() throws {
        let scene = try Scene(apps: 1)
        scene.receive(["a", "bad", "b", "c"])
        scene.run("four results") { scene.outcomes.count == 4 }
        #expect(scene.outcomes == ["a": .accepted, "bad": .rejected, "b": .accepted, "c": .accepted])
        #expect(scene.frames.written == ["a", "bad", "b", "c", "b", "c"])
        #expect(scene.notes == [.connected(address: "0", streams: 8), .connected(address: "1", streams: 8)])
    }

    @Test func `What cannot be reached is told, said again, and over once it can be`() throws {
        let scene = try Scene(apps: 1)
        let failure = TransportNote.connectFailed(host: "apns", reason: "refused", retryInMs: 1)
        scene.frames.say([.note(app: AppIndex(0), failure), .reachable(app: AppIndex(0), false)])
        scene.run("unreachable") { scene.transports[0].isOutOfReach }
        #expect(scene.transports[0].unreachable == failure)
        scene.transports.noteUnreachable()
        #expect(scene.notes.suffix(2) == [failure, failure] && scene.reminders == 1)
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

/// A machine, transports of frames, and a Kafka that takes everything.
private final class Scene {
    let frames = Frames()
    let app: LoadedApp
    private let loop: Loop
    private let inbox = Inbox()
    private(set) var transports: AppTransports
    private var machine: DeliveryMachine
    private let partition: PartitionID
    private var nextOffset: Int64 = 0
    /// By device.
    private(set) var outcomes: [String: Outcome] = [:]

    /// What the closures given to `AppTransports` leave here.
    private final class Inbox {
        var notes: [TransportNote] = []
        var wakeUps = 0
        var reminders = 0
    }

    var notes: [TransportNote] { inbox.notes }
    var wakeUps: Int { inbox.wakeUps }
    var reminders: Int { inbox.reminders }

    init(apps count: Int) throws {
        let settings = AppSettings(
            name: "shop", bundleIDs: ["com.example.shop"],
            credential: .token(
                TokenCredential(
                    key: .text(try SelfSigned.privateKey()), keyID: "KEYKEYKEY1", teamID: "TEAMTEAM12")),
            host: "apns")
        app = try LoadedApp(settings)
        loop = try Loop()
        machine = DeliveryMachine(
            settings: MachineSettings(),
            // One more, for one that is added.
            apps: (0...count).map {
                AppRoute(
                    name: "shop\($0)", environment: .production, bundleIDs: ["com.example.shop"],
                    guardPolicy: .off)
            })
        partition = machine.assign(
            topic: "requests", partition: 0, role: .requests(weight: 1), committedOffset: 0,
            metadata: UnsafeRawBufferPointer(start: nil, count: 0))
        let (inbox, frames, apps) = (inbox, frames, [LoadedApp](repeating: app, count: count))
        transports = try AppTransports(
            count, loop: loop, onWakeUp: { inbox.wakeUps += 1 },
            onNote: { note, _, isReminder in
                inbox.notes.append(note)
                inbox.reminders += isReminder ? 1 : 0
            },
            start: { try TransportLink(apps, events: $0) { frames.started(on: $0) } })
    }

    deinit { transports.stop() }

    /// Of the first app, one record each.
    func receive(_ devices: [String]) {
        for device in devices {
            let name = device.utf8.map { String($0, radix: 16) }.joined()
            let key = Array((name + String(repeating: "0", count: 64)).utf8.prefix(64))
            let value = Array(#"{"aps":{}}"#.utf8)
            key.withUnsafeBytes { key in
                value.withUnsafeBytes { value in
                    _ = machine.receive(
                        partition, offset: nextOffset, timestampMs: now.wallMs, key: key, value: value,
                        headers: UnsafeBufferPointer(start: nil, count: 0), now: now)
                }
            }
            nextOffset += 1
        }
    }

    private var now: DeliveryTime { DeliveryTime(ns: loop.now.monotonicNs, wallMs: loop.now.wallMs) }

    private func turn() {
        transports.deliver(to: &machine, now: now)
        machine.advance(now: now)
        let commits = machine.takeCommit(of: .requests, now: now)
        if !commits.isEmpty {
            machine.commitFinished(of: .requests, commits.map { _ in .acknowledged }, now: now)
        }
        transports.send(from: &machine, now: now)
        transports.recall(from: &machine)
        while let production = machine.nextProduction(for: .results) {
            let (device, outcome) = machine.withResult(production.id, now: now) { content, ending in
                (Frames.device(content.token), ending.outcome)
            }
            outcomes[device] = outcome
            machine.produced(production)
            machine.acknowledged(production.id, now: now)
        }
    }

    /// Turns until `condition` holds; the deadline is a failure.
    func run(_ what: String, sourceLocation: SourceLocation = #_sourceLocation, until condition: () -> Bool) {
        let deadlineNs = LoopTime.read().monotonicNs + 15_000_000_000
        turn()
        while !condition() {
            guard LoopTime.read().monotonicNs < deadlineNs else {
                Issue.record("not within 15 s: \(what)", sourceLocation: sourceLocation)
                return
            }
            loop.runOnce(timeoutNs: 10_000_000)
            turn()
        }
    }
}

/// What the net thread's transports do, and what the test's thread may know of it.
private final class Frames: @unchecked Sendable {
    private let lock = NSLock()
    private var state = State()
    private var loop: Loop?
    private var emits: [([TransportEvent]) -> Void] = []

    struct State {
        var written: [String] = []
        var closed: [Int] = []
        var replaced = 0
        var ended: [Int] = []
    }

    /// Devices, in the order of their frames.
    var written: [String] { lock.withLock { state.written } }
    var closed: [Int] { lock.withLock { state.closed } }
    var replaced: Int { lock.withLock { state.replaced } }
    /// Those that are let go.
    var ended: [Int] { lock.withLock { state.ended } }

    func note(_ body: (inout State) -> Void) { lock.withLock { body(&state) } }

    func started(on loop: Loop) -> AppTransport.Maker {
        self.loop = loop
        return { [self] app, index, emit in
            emits.append(emit)
            let transport = FrameTransport(index, loop, self, emit)
            return AppTransport(isBinary: false, handle: transport.handle) { [self] _ in note { $0.replaced += 1 } }
        }
    }

    /// Says something as the first app's transport.
    func say(_ events: [TransportEvent]) {
        loop?.perform { [self] in emits[0](events) }
    }

    static func device(_ token: UnsafeRawBufferPointer) -> String {
        let text = Array(String(decoding: token, as: UTF8.self))
        let bytes = stride(from: 0, to: text.count - 1, by: 2).compactMap { place in
            UInt8(String(text[place...place + 1]), radix: 16)
        }
        return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
}

private final class FrameTransport {
    private let app: AppIndex
    private let loop: Loop
    private let frames: Frames
    private let emit: ([TransportEvent]) -> Void
    private var connection = 0
    private var unanswered: [(id: NotificationID, isBad: Bool)] = []

    /// So long after the last frame nothing was wrong with any.
    private static let silenceNs: Int64 = 20_000_000

    init(_ app: AppIndex, _ loop: Loop, _ frames: Frames, _ emit: @escaping ([TransportEvent]) -> Void) {
        (self.app, self.loop, self.frames, self.emit) = (app, loop, frames, emit)
        connect()
    }

    deinit {
        let place = app.value
        frames.note { $0.ended.append(place) }
    }

    private func connect() {
        var counts = ConnectionCounts()
        counts.open = 1
        emit([
            .connections(app: app, counts), .capacity(app: app, requests: 8),
            .note(app: app, .connected(address: "\(connection)", streams: 8)),
        ])
        connection += 1
    }

    func handle(_ command: TransportCommand) {
        switch command {
        case .send(let requests):
            for request in requests {
                let device = Frames.device(request.token)
                frames.note { $0.written.append(device) }
                unanswered.append((request.id, device == "bad"))
            }
            loop.schedule(afterNs: Self.silenceNs) { [self] in look() }
        case .recall: break
        case .close:
            frames.note { $0.closed.append(app.value) }
            emit([.closed(app: app)])
        }
    }

    private func look() {
        guard !unanswered.isEmpty else { return }
        let nowMs = loop.now.wallMs
        let end = unanswered.firstIndex { $0.isBad }
        var batch = CompletionBatch(app: app)
        for (place, (id, _)) in unanswered.enumerated() {
            guard let end, place >= end else {
                batch.completions.append(Completion(id: id, kind: .answered, status: 200, sentAtMs: nowMs))
                continue
            }
            batch.completions.append(
                place == end
                    ? Completion(id: id, kind: .answered, status: 400, reason: .badDeviceToken, sentAtMs: nowMs)
                    : Completion(id: id, kind: .notProcessed, unprocessed: .refusedByPeer, sentAtMs: nowMs))
        }
        unanswered = []
        emit([.completions(batch)])
        if end != nil { connect() }
    }
}
