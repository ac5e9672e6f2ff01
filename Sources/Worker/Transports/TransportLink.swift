internal import CLinux
internal import Configuration
internal import Delivery
internal import EventLoop

/// Connects the core with the transports, which live on the net thread: batches through two mailboxes.
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
        _ apps: [LoadedApp], events: Mailbox<TransportEvent>, maker: (Loop) throws -> AppTransport.Maker
    ) throws {
        let thread = try LoopThread(name: "net") { _ in crash_enter_thread(1) }
        let net = Net(loop: thread.loop, make: try maker(thread.loop), events: events)
        self.thread = thread
        orders = Mailbox(loop: thread.loop) { batch in
            for order in batch {
                switch order {
                case .command(let app, let command): net.transports[app.value]?.handle(command)
                case .replace(let index, let app): net.replace(index, with: app)
                case .add(let app): net.add(app)
                }
            }
        }
        orders.post(contentsOf: apps.map { .add($0) })
    }

    /// Hands a command to an app's transport. Core thread.
    ///
    /// What is posted is bounded: requests by the capacity that the transport reports and the few suspects beside it,
    /// recalls by the requests that were sent, and there is one close.
    func post(_ app: AppIndex, _ command: TransportCommand) {
        orders.post(.command(app, command))
    }

    /// Makes an app's next connections with another credential, host, trust or protocol. Present connections finish
    /// what is on them. Emits `TransportNote.certificate` for what Apple will refuse about its certificate. Core
    /// thread.
    func replace(_ index: AppIndex, with app: LoadedApp) {
        orders.post(.replace(index, app))
    }

    /// Starts a transport for one more app, with the index one past the last. Core thread.
    func add(_ app: LoadedApp) { orders.post(.add(app)) }

    func stop() {
        thread.stop()
        thread.join()
    }

    /// The state that only the net thread touches.
    private final class Net: @unchecked Sendable {
        private(set) var transports: [SwitchingTransport?] = []
        private let loop: Loop
        private let make: AppTransport.Maker
        private let events: Mailbox<TransportEvent>

        init(loop: Loop, make: @escaping AppTransport.Maker, events: Mailbox<TransportEvent>) {
            self.loop = loop
            self.make = make
            self.events = events
        }

        func add(_ app: LoadedApp) {
            let index = AppIndex(transports.count)
            let transport = SwitchingTransport(index, make) { [events, unowned self] said in
                events.post(contentsOf: said)
                // In the next turn it has nothing more to do.
                if said.contains(where: { if case .closed = $0 { true } else { false } }) {
                    loop.perform { [weak self] in self?.transports[index.value] = nil }
                }
            }
            transports.append(transport)
            replace(index, with: app)
        }

        func replace(_ index: AppIndex, with app: LoadedApp) {
            guard let transport = transports[index.value] else { return }
            transport.connect(as: app)
            let nowMs = loop.now.wallMs
            let lines = app.certificateFaults(nowMs: nowMs) + [app.certificateWarning(nowMs: nowMs)].compactMap(\.self)
            events.post(contentsOf: lines.map { .note(app: index, .certificate($0)) })
        }
    }
}

/// An app's transport. After a reload that changes the app's protocol another transport takes over; the former one
/// finishes what is on its connections, and only its completions and notes are passed on. Net thread.
private final class SwitchingTransport {
    private let index: AppIndex
    private let make: AppTransport.Maker
    private let emit: AppTransport.Emit
    private var current: AppTransport?
    private var number = 0
    /// Former transports until they are closed, by their numbers.
    private var leaving: [Int: AppTransport] = [:]
    /// Whether the app has no transport, because its credential could not be loaded.
    private var lacksCredential = false
    /// The last one that closed, which may still be on the stack.
    private var gone: AppTransport?
    /// The current transport's `closed`, while former ones are not closed.
    private var closed: TransportEvent?

    init(_ index: AppIndex, _ make: @escaping AppTransport.Maker, emit: @escaping AppTransport.Emit) {
        self.index = index
        self.make = make
        self.emit = emit
    }

    func handle(_ command: TransportCommand) {
        // Each transport knows which of the recalled requests it has.
        if case .recall = command { for former in leaving.values { former.handle(command) } }
        current?.handle(command)
        if case .close = command, current == nil { emit([.closed(app: index)]) }
    }

    func connect(as app: LoadedApp) {
        guard app.faults.isEmpty else {
            lacksCredential = true
            return emit([.reachable(app: index, false)])
        }
        if lacksCredential {
            lacksCredential = false
            emit([.reachable(app: index, true)])
        }
        let former = current
        if let former {
            guard former.isBinary != (app.settings.binary != nil) else { return former.replace(app) }
            leaving[number] = former
            number += 1
            // The former transport's reports are void. As with a new app, the host counts as reachable until the first
            // dial fails.
            emit([
                .capacity(app: index, requests: 0), .connections(app: index, ConnectionCounts()),
                .unanswered(app: index, nil), .reachable(app: index, true),
            ])
        }
        current = make(app, index) { [weak self, number] in self?.take($0, from: number) }
        former?.handle(.close)
    }

    private func take(_ events: [TransportEvent], from source: Int) {
        var told: [TransportEvent] = []
        for event in events {
            switch event {
            case .completions, .note: told.append(event)
            case .capacity, .reachable, .credentialRefused, .unanswered, .connections:
                if source == number { told.append(event) }
            case .closed:
                if source == number { closed = event }
                gone = leaving.removeValue(forKey: source)
            }
        }
        if leaving.isEmpty, let closed {
            self.closed = nil
            told.append(closed)
        }
        if !told.isEmpty { emit(told) }
    }
}
