internal import CLinux
internal import Configuration
internal import Delivery
internal import EventLoop

/// The link between the core thread and the transports on the net thread, with a mailbox in each direction.
final class TransportLink: Sendable {
    private enum Order: Sendable {
        case command(AppIndex, TransportCommand)
        case replace(AppIndex, LoadedApp)
        case add(LoadedApp)
    }

    private let thread: LoopThread
    private let orders: Mailbox<Order>

    /// Starts the net thread with one transport for each app.
    init(
        _ apps: [LoadedApp], events: Mailbox<TransportEvent>, maker: (Loop) -> AppTransport.Maker
    ) throws {
        let thread = try LoopThread(name: "net") { _ in crash_enter_thread(1) }
        let make = maker(thread.loop)
        // Only the net thread uses `transports`, because the mailbox's handler runs there.
        var transports: [SwitchingTransport] = []
        self.thread = thread
        orders = Mailbox(loop: thread.loop) { batch in
            for order in batch {
                switch order {
                case .command(let app, let command): transports[app.value].handle(command)
                case .replace(let app, let loaded): transports[app.value].connect(as: loaded, thread.loop.now.wallMs)
                case .add(let loaded):
                    let transport = SwitchingTransport(AppIndex(transports.count), make, events)
                    transports.append(transport)
                    transport.connect(as: loaded, thread.loop.now.wallMs)
                }
            }
        }
        orders.post(contentsOf: apps.map { .add($0) })
    }

    /// Sends a command to an app's transport. Core thread.
    ///
    /// The number of queued commands is bounded. Requests do not exceed the capacity that the transport reports, plus a
    /// few suspects. Recalls do not exceed the requests, and a transport is closed once.
    func post(_ app: AppIndex, _ command: TransportCommand) {
        orders.post(.command(app, command))
    }

    /// Opens an app's next connections with another credential, host, CA or protocol. Existing connections finish their
    /// requests. Emits `TransportNote.certificate` for each line of `certificateFaults` and `certificateWarning`. Core
    /// thread.
    func replace(_ index: AppIndex, with app: LoadedApp) {
        orders.post(.replace(index, app))
    }

    /// Starts a transport for an additional app, which gets the next index. Core thread.
    func add(_ app: LoadedApp) { orders.post(.add(app)) }

    func stop() {
        thread.stop()
        thread.join()
    }
}

/// An app's transport. If a reload changes the app's protocol, another transport replaces the current one. The former
/// transport finishes its requests, and only its completions and notes are forwarded. Net thread.
private final class SwitchingTransport {
    private let index: AppIndex
    private let make: AppTransport.Maker
    private let events: Mailbox<TransportEvent>
    /// The number of the current transport.
    private var number = 0
    /// The current and former transports by their numbers, until they are closed.
    private var transports: [Int: AppTransport] = [:]
    /// Whether the app's credential failed to load.
    private var lacksCredential = false

    init(_ index: AppIndex, _ make: @escaping AppTransport.Maker, _ events: Mailbox<TransportEvent>) {
        self.index = index
        self.make = make
        self.events = events
    }

    func handle(_ command: TransportCommand) {
        switch command {
        // A recall is passed to all transports, because each transport ignores requests that it does not have.
        case .recall: for transport in transports.values { transport.handle(command) }
        case .close where transports.isEmpty: events.post(.closed(app: index))
        case .send, .close: transports[number]?.handle(command)
        }
    }

    func connect(as app: LoadedApp, _ nowMs: Int64) {
        connect(as: app)
        let lines = app.certificateFaults(nowMs: nowMs) + [app.certificateWarning(nowMs: nowMs)].compactMap(\.self)
        events.post(contentsOf: lines.map { .note(app: index, .certificate($0)) })
    }

    private func connect(as app: LoadedApp) {
        guard app.faults.isEmpty else {
            lacksCredential = true
            events.post(.reachable(app: index, false))
            return
        }
        if lacksCredential {
            lacksCredential = false
            events.post(.reachable(app: index, true))
        }
        let former = transports[number]
        if let former {
            guard former.isBinary != (app.settings.binary != nil) else { return former.replace(app) }
            number += 1
            // These events replace the former transport's reports. As for a new app, the host counts as reachable until
            // the first dial fails.
            events.post(contentsOf: [
                .capacity(app: index, requests: 0), .connections(app: index, ConnectionCounts()),
                .unanswered(app: index, nil), .reachable(app: index, true),
            ])
        }
        transports[number] = make(app, index) { [weak self, number] in self?.take($0, from: number) }
        former?.handle(.close)
    }

    private func take(_ said: [TransportEvent], from source: Int) {
        var told: [TransportEvent] = []
        for event in said {
            switch event {
            case .completions, .note: told.append(event)
            case .capacity, .reachable, .credentialRefused, .unanswered, .connections:
                if source == number { told.append(event) }
            case .closed:
                transports[source] = nil
                if transports.isEmpty { told.append(event) }
            }
        }
        events.post(contentsOf: told)
    }
}
