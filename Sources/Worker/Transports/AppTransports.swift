internal import APNs
internal import CLinux
internal import Configuration
internal import Delivery
internal import EventLoop
internal import HTTP2
internal import Network

/// The core thread's interface to the transports of all apps, with the last reports of each transport. Core thread.
///
/// The transports run on the net thread, with a mailbox in each direction.
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
        /// The last failed connection attempt, or the last connection that ended with unanswered requests, and its time
        /// (wall clock).
        var lastError: (text: String, atMs: Int64)?
        var window = WindowFaults()
        var doubtfulEnds = DoubtfulEnds()
        /// The error codes that the app's hosts have sent over HTTP/2.
        var peerErrors = PeerErrors()
        var isClosed = false
        fileprivate var isRemoved = false

        /// The app's host if all its connections allow no streams, otherwise `nil`.
        var streamlessHost: String? { if case .noStreams(let host)? = unreachable { host } else { nil } }
    }

    /// Counts of events of the binary protocol after which presumed acceptances may be wrong: an error arrived after
    /// its resend window had closed, or a gateway had not read the frames.
    struct WindowFaults: Equatable, Sendable {
        var tooShort = 0
        /// The maximum number of notifications whose result is `accepted` but that were not delivered.
        var lostAtMost = 0
        var lastNs: Int64 = 0
    }

    /// The connections that ended while some of their notifications were unanswered. Both counts start again if no such
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

    private enum Order: Sendable {
        case command(AppIndex, TransportCommand)
        /// Connects an app with its loaded settings and credential. The first order for an app creates its transport.
        case connect(AppIndex, LoadedApp)
    }

    private let thread: LoopThread
    private let orders: Mailbox<Order>
    private var standings: [Standing]
    let inbox = Inbox()
    /// The indexes of apps with a failed connection attempt since the last turn.
    private var failed: [Int] = []
    private let onNote: (TransportNote, AppIndex) -> Void

    /// Starts the net thread with one transport for each app.
    init(
        _ apps: [LoadedApp], _ settings: TransportSettings, loop: Loop,
        onNote: @escaping (TransportNote, AppIndex) -> Void
    ) throws {
        standings = apps.map { _ in Standing() }
        self.onNote = onNote
        let events = Mailbox<TransportEvent>(loop: loop) { [inbox] batch in
            inbox.events.append(contentsOf: batch)
        }
        let thread = try LoopThread(name: "net") { _ in crash_enter_thread(1) }
        let shared = AppTransport.Shared(
            settings: settings, loop: thread.loop, dialer: Dialer(loop: thread.loop), events: events)
        // Only the net thread uses `transports`, because the mailbox's handler runs there.
        var transports: [AppTransport] = []
        self.thread = thread
        orders = Mailbox(loop: thread.loop) { batch in
            for order in batch {
                switch order {
                case .command(let app, let command): transports[app.value].handle(command)
                case .connect(let app, let loaded):
                    if app.value == transports.count { transports.append(AppTransport(app, shared)) }
                    transports[app.value].connect(as: loaded)
                }
            }
        }
        orders.post(contentsOf: apps.enumerated().map { .connect(AppIndex($0), $1) })
    }

    final class Inbox {
        var events: [TransportEvent] = []
    }

    subscript(_ app: Int) -> Standing { standings[app] }

    /// Sends a command to an app's transport.
    ///
    /// The number of queued commands is bounded. The transport's capacity, plus a few notifications for its quarantine
    /// connection, limits requests. The number of sent requests limits recalls, and a transport is closed once.
    func post(_ app: AppIndex, _ command: TransportCommand) {
        orders.post(.command(app, command))
    }

    /// Starts a transport for an additional app, which gets the next index.
    func add(_ app: LoadedApp) -> AppIndex {
        standings.append(Standing())
        let index = AppIndex(standings.count - 1)
        orders.post(.connect(index, app))
        return index
    }

    /// Opens an app's next connections with another credential, host, CA or protocol. Existing connections finish their
    /// requests. Emits `TransportNote.certificate` for each problem of the app's certificate or of the trusted CAs.
    func replace(_ index: AppIndex, with app: LoadedApp) {
        if app.certificate != nil { standings[index.value].tokenIssuedMs = nil }
        orders.post(.connect(index, app))
    }

    /// Begins to close a removed app's transport, which first finishes its requests. Clears the app's connection
    /// problems.
    func remove(_ app: AppIndex) {
        standings[app.value].unreachable = nil
        standings[app.value].unanswered = nil
        standings[app.value].isRemoved = true
        post(app, .close)
    }

    func close() {
        for (app, standing) in standings.enumerated() where !standing.isRemoved { post(AppIndex(app), .close) }
    }

    /// Ends the net thread, and drops all remaining requests. Any thread may call `stop`, as the last method.
    func stop() {
        thread.stop()
        thread.join()
    }

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
        machine.sends(now: now) { app, requests in post(app, .send(requests)) }
    }

    func recall(from machine: inout DeliveryMachine) {
        machine.recalls { app, ids in post(app, .recall(ids)) }
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
            if let text = note.errorText { standings[app.value].lastError = (text, now.wallMs) }
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
            case .peerErrors(let goAways, let resets):
                for (code, count) in goAways.enumerated() { standings[app.value].peerErrors.goAways[code] += count }
                for (code, count) in resets.enumerated() { standings[app.value].peerErrors.resets[code] += count }
            case .connected, .peerCloses, .answered, .silent, .windowLengthened, .credentialFault, .replacing,
                .certificate, .frame:
                break
            }
            onNote(note, app)
        case .closed(let app): standings[app.value].isClosed = true
        }
    }
}

extension TransportNote {
    fileprivate var errorText: String? {
        switch self {
        case .connectFailed(_, let reason, _), .credentialFault(let reason): reason
        case .disconnected(_, let reason, let unanswered): unanswered > 0 ? reason : nil
        default: nil
        }
    }
}

extension AppTransports {
    /// An app's transport. If a reload changes the app's protocol, another transport replaces the current one. The
    /// former transport finishes its requests. Of its events, only completions and notes are forwarded to the core
    /// thread. Net thread.
    private final class AppTransport {
        /// The objects that the transports of all apps share. Apps with the same key share a provider token.
        struct Shared {
            let settings: TransportSettings
            let loop: Loop
            let dialer: Dialer
            let tokens = ProviderTokens()
            let events: Mailbox<TransportEvent>
        }

        private enum Transport {
            case http2(APNsTransport)
            case binary(BinaryTransport)

            func handle(_ command: TransportCommand) {
                switch self {
                case .http2(let transport): transport.handle(command)
                case .binary(let transport): transport.handle(command)
                }
            }
        }

        private let index: AppIndex
        private let shared: Shared
        /// The number of the current transport.
        private var number = 0
        /// The current and former transports by their numbers, until they are closed.
        private var transports: [Int: Transport] = [:]
        /// Whether the app's credential failed to load.
        private var lacksCredential = false

        init(_ index: AppIndex, _ shared: Shared) {
            self.index = index
            self.shared = shared
        }

        func handle(_ command: TransportCommand) {
            switch command {
            // A former transport may have the recalled requests. Each transport ignores requests that it does not have.
            case .recall: for transport in transports.values { transport.handle(command) }
            case .close where transports.isEmpty: shared.events.post(.closed(app: index))
            case .send, .close: transports[number]?.handle(command)
            }
        }

        func connect(as app: LoadedApp) {
            apply(app)
            let nowMs = shared.loop.now.wallMs
            let lines = app.certificateFaults(nowMs: nowMs) + [app.certificateWarning(nowMs: nowMs)].compactMap(\.self)
            shared.events.post(contentsOf: lines.map { .note(app: index, .certificate($0)) })
        }

        private func apply(_ app: LoadedApp) {
            guard app.faults.isEmpty else {
                lacksCredential = true
                shared.events.post(.reachable(app: index, false))
                return
            }
            if lacksCredential {
                lacksCredential = false
                shared.events.post(.reachable(app: index, true))
            }
            let former = transports[number]
            switch former {
            case .http2(let transport) where app.settings.binary == nil:
                return transport.replace(configuration: http2(app), token: shared.tokens.token(of: app))
            case .binary(let transport) where app.settings.binary != nil:
                return transport.replace(configuration: app.binaryConfiguration(shared.settings.longestWindowNs))
            case .http2, .binary:
                number += 1
                // These events replace the former transport's reports. As for a new app, the host counts as reachable
                // until the first dial fails.
                shared.events.post(contentsOf: [
                    .capacity(app: index, requests: 0), .connections(app: index, ConnectionCounts()),
                    .unanswered(app: index, nil), .reachable(app: index, true),
                ])
            case nil: break
            }
            transports[number] = make(app)
            former?.handle(.close)
        }

        private func make(_ app: LoadedApp) -> Transport {
            let emit: ([TransportEvent]) -> Void = { [weak self, number] in self?.take($0, from: number) }
            guard app.settings.binary == nil else {
                return .binary(
                    BinaryTransport(
                        app: index, configuration: app.binaryConfiguration(shared.settings.longestWindowNs),
                        loop: shared.loop, dialer: shared.dialer, emit: emit))
            }
            return .http2(
                APNsTransport(
                    app: index, configuration: http2(app), token: shared.tokens.token(of: app), loop: shared.loop,
                    dialer: shared.dialer, emit: emit))
        }

        private func http2(_ app: LoadedApp) -> APNsConfiguration {
            var configuration = app.transportConfiguration(shared.settings.responseTimeoutNs)
            configuration.tracesFrames = shared.settings.tracesFrames
            return configuration
        }

        private func take(_ events: [TransportEvent], from source: Int) {
            var forwarded: [TransportEvent] = []
            for event in events {
                switch event {
                case .completions, .note: forwarded.append(event)
                case .capacity, .reachable, .credentialRefused, .unanswered, .connections:
                    if source == number { forwarded.append(event) }
                case .closed:
                    transports[source] = nil
                    if transports.isEmpty { forwarded.append(event) }
                }
            }
            shared.events.post(contentsOf: forwarded)
        }
    }
}
