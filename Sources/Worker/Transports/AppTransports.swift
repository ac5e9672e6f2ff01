internal import Delivery
internal import EventLoop

/// The core thread's interface to the transports of all apps, with the last reports of each transport. Core thread.
final class AppTransports: Transports {
    struct Standing: Sendable {
        var connections = ConnectionCounts()
        /// Whether the app can send requests, over an open connection or one that the transport dials on demand.
        var takesRequests = false
        /// The `iat` of the provider token in use (wall clock), or `nil` if there is none.
        var tokenIssuedMs: Int64?
        var unreachable: TransportNote?
        /// Whether the transport last reported its host as unreachable. Capacity does not show this: a host that
        /// accepts connections but does not answer has capacity at times.
        var isOutOfReach = false
        var unanswered: Unanswered?
        var window = WindowFaults()
        var doubtfulEnds = DoubtfulEnds()
        var isClosed = false
        fileprivate var isRemoved = false

        /// The app's host if all its connections allow no streams, otherwise `nil`.
        var streamlessHost: String? { if case .noStreams(let host)? = unreachable { host } else { nil } }
    }

    /// The losses of the binary protocol since the start: errors that arrived after their resend window had closed, and
    /// gateways that read nothing.
    struct WindowFaults: Equatable, Sendable {
        var tooShort = 0
        /// The maximum number of notifications whose result is `accepted` but that were not delivered.
        var lostAtMost = 0
        var lastNs: Int64 = 0
    }

    /// The connections that ended while some of their notifications were unanswered. The count starts again if no such
    /// connection ended for `Problem.lossNs`.
    struct DoubtfulEnds: Equatable, Sendable {
        private(set) var connections = 0
        private(set) var notifications = 0
        private var lastNs: Int64 = 0

        private static let limit = 3

        mutating func note(_ unanswered: Int, nowNs: Int64) {
            guard unanswered > 0 else { return }
            if !isRecent(nowNs) { self = Self() }
            connections += 1
            notifications += unanswered
            lastNs = nowNs
        }

        private func isRecent(_ nowNs: Int64) -> Bool { nowNs - lastNs < Problem.lossNs }

        func areMany(_ nowNs: Int64) -> Bool { connections >= Self.limit && isRecent(nowNs) }
    }

    private let link: TransportLink
    private var standings: [Standing]
    private let inbox = Inbox()
    /// The indexes of apps with a failed connection attempt since the last turn.
    private var failed: [Int] = []
    private let onNote: (TransportNote, AppIndex) -> Void

    /// Starts the transports of `count` apps.
    init(
        _ count: Int, loop: Loop, onNote: @escaping (TransportNote, AppIndex) -> Void,
        start: (Mailbox<TransportEvent>) throws -> TransportLink
    ) throws {
        standings = (0..<count).map { _ in Standing() }
        self.onNote = onNote
        let events = Mailbox<TransportEvent>(loop: loop) { [inbox] batch in
            inbox.events.append(contentsOf: batch)
        }
        link = try start(events)
    }

    private final class Inbox {
        var events: [TransportEvent] = []
    }

    subscript(_ app: Int) -> Standing { standings[app] }

    /// Starts a transport for an additional app.
    func add(_ app: LoadedApp) -> AppIndex {
        standings.append(Standing())
        link.add(app)
        return AppIndex(standings.count - 1)
    }

    func replace(_ index: AppIndex, with app: LoadedApp) {
        if app.certificate != nil { standings[index.value].tokenIssuedMs = nil }
        link.replace(index, with: app)
    }

    /// Closes the transport of a removed app, which finishes its requests, and clears the app's connection problems.
    func remove(_ app: AppIndex) {
        standings[app.value].unreachable = nil
        standings[app.value].unanswered = nil
        standings[app.value].isRemoved = true
        link.post(app, .close)
    }

    func close() {
        for (app, standing) in standings.enumerated() where !standing.isRemoved { link.post(AppIndex(app), .close) }
    }

    /// Ends the net thread, and drops the transports' remaining requests. Any thread may call it, as the last call.
    func stop() { link.stop() }

    var isClosed: Bool { standings.allSatisfy(\.isClosed) }

    // MARK: The turn

    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime) {
        for event in inbox.events { take(event, &machine, now) }
        inbox.events.removeAll(keepingCapacity: true)
        // The transport reports its connections in the same turn. If some are open, only an additional connection
        // failed.
        for app in failed where standings[app].connections.open > 0 && !standings[app].isOutOfReach {
            standings[app].unreachable = nil
        }
        failed.removeAll()
    }

    func send(from machine: inout DeliveryMachine, now: DeliveryTime) {
        machine.sends(now: now) { app, requests in link.post(app, .send(requests)) }
    }

    func recall(from machine: inout DeliveryMachine) {
        machine.recalls { app, ids in link.post(app, .recall(ids)) }
    }

    private func take(_ event: TransportEvent, _ machine: inout DeliveryMachine, _ now: DeliveryTime) {
        switch event {
        case .completions(let batch): machine.handle(batch, now: now)
        case .capacity(let app, let requests):
            machine.setCapacity(app, requests: requests, now: now)
            standings[app.value].takesRequests = requests > 0
            if requests > 0, !standings[app.value].isOutOfReach { standings[app.value].unreachable = nil }
        case .connections(let app, let counts): standings[app.value].connections = counts
        case .reachable(let app, let isReachable):
            machine.setReachable(app, isReachable, now: now)
            standings[app.value].isOutOfReach = !isReachable
            if isReachable { standings[app.value].unreachable = nil }
        case .unanswered(let app, let how): standings[app.value].unanswered = how
        case .credentialRefused(let app, let reason): machine.credentialRefused(app, reason, now: now)
        case .note(let app, let note):
            switch note {
            case .connectFailed:
                standings[app.value].unreachable = note
                failed.append(app.value)
            case .noStreams: standings[app.value].unreachable = note
            // Each app reports the renewed token, even if several apps share it.
            case .providerTokenRenewed(_, let issuedMs): standings[app.value].tokenIssuedMs = issuedMs
            case .windowTooShort(_, _, let lostAtMost, _):
                standings[app.value].window.tooShort += 1
                standings[app.value].window.lostAtMost += lostAtMost
                standings[app.value].window.lastNs = now.ns
            case .presumedUnread(_, let lostAtMost):
                standings[app.value].window.lostAtMost += lostAtMost
                standings[app.value].window.lastNs = now.ns
            case .disconnected(_, _, let unanswered): standings[app.value].doubtfulEnds.note(unanswered, nowNs: now.ns)
            case .connected, .peerCloses, .answered, .silent, .windowLengthened, .credentialFault, .replacing,
                .certificate, .frame:
                break
            }
            onNote(note, app)
        case .closed(let app): standings[app.value].isClosed = true
        }
    }
}
