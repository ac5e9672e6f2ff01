internal import CLinux
internal import Delivery
internal import EventLoop
internal import Synchronization

/// A transport that connects as an app says. Net thread.
protocol AppTransport: AnyObject {
    func handle(_ command: TransportCommand)
    /// Connects as it says now, from the next connection on: another credential, host or trust. Old ones finish what is
    /// on them.
    func replace(with app: LoadedApp)
}

/// Makes the transports of a worker, which may share what they can. Net thread.
protocol TransportMaker: AnyObject {
    /// - Parameter emit: takes what the transport has to tell.
    func make(_ app: LoadedApp, _ index: AppIndex, emit: @escaping ([TransportEvent]) -> Void) -> any AppTransport
}

/// The way between the core and the transports, which live on the net thread: batches through two mailboxes.
final class TransportLink: Sendable {
    private enum Order: Sendable {
        case command(AppIndex, TransportCommand)
        case replace(AppIndex, LoadedApp)
        case add(LoadedApp)
    }

    private let thread: LoopThread
    private let orders: Mailbox<Order>
    private let appCount: Atomic<Int>

    /// Starts the net thread with one transport for each app; `events` gets what they emit, from the net thread.
    ///
    /// - Parameter maker: is given the net thread's loop.
    init(
        _ apps: [LoadedApp], events: Mailbox<TransportEvent>, maker: (Loop) throws -> any TransportMaker
    ) throws {
        let thread = try LoopThread(name: "net") { _ in crash_enter_thread(1) }
        let net = Net(loop: thread.loop, maker: try maker(thread.loop), events: events)
        self.thread = thread
        appCount = Atomic(apps.count)
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

    /// Core thread. What is posted is bounded: requests by the capacity that the transport reports and the few suspects
    /// beside it, recalls by the requests that were sent, and there is one close.
    func post(_ app: AppIndex, _ command: TransportCommand) {
        orders.post(.command(app, command))
    }

    /// Makes an app's next connections with another credential, host or trust; the old ones finish what is on them.
    /// Says `TransportNote.certificate` for what Apple will not like about its certificate. Core thread.
    func replace(_ index: AppIndex, with app: LoadedApp) {
        orders.post(.replace(index, app))
    }

    /// Starts a transport for one more app. Core thread.
    ///
    /// - Returns: its index: one past the last.
    func add(_ app: LoadedApp) -> AppIndex {
        orders.post(.add(app))
        return AppIndex(appCount.wrappingAdd(1, ordering: .relaxed).oldValue)
    }

    /// Ends the net thread; what transports still hold is given up.
    func stop() {
        thread.stop()
        thread.join()
    }

    /// What only the net thread touches.
    private final class Net: @unchecked Sendable {
        /// By `AppIndex`; `nil`: closed.
        private(set) var transports: [(any AppTransport)?] = []
        private let loop: Loop
        private let maker: any TransportMaker
        private let events: Mailbox<TransportEvent>

        init(loop: Loop, maker: any TransportMaker, events: Mailbox<TransportEvent>) {
            self.loop = loop
            self.maker = maker
            self.events = events
        }

        func add(_ app: LoadedApp) {
            let index = AppIndex(transports.count)
            transports.append(
                maker.make(app, index) { [events, unowned self] said in
                    events.post(contentsOf: said)
                    if said.contains(where: \.isClosed) { letGo(index) }
                })
            warn(of: app, index)
        }

        /// It is closed, and says so: in the next turn it has nothing more to do.
        private func letGo(_ index: AppIndex) { loop.perform { [weak self] in self?.transports[index.value] = nil } }

        func replace(_ index: AppIndex, with app: LoadedApp) {
            guard let transport = transports[index.value] else { return }
            transport.replace(with: app)
            warn(of: app, index)
        }

        private func warn(of app: LoadedApp, _ index: AppIndex) {
            let nowMs = loop.now.wallMs
            let lines = app.certificateFaults(nowMs: nowMs) + [app.certificateWarning(nowMs: nowMs)].compactMap(\.self)
            events.post(contentsOf: lines.map { .note(app: index, .certificate($0)) })
        }
    }
}

extension TransportEvent {
    fileprivate var isClosed: Bool { if case .closed = self { true } else { false } }
}
