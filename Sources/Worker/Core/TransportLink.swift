internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// The way between the core and the transports, which live on the net thread: batches through two mailboxes.
final class TransportLink: Sendable {
    private struct Order: Sendable {
        var app: AppIndex
        var command: TransportCommand
    }

    private let thread: LoopThread
    private let orders: Mailbox<Order>

    /// Starts the net thread with one transport for each app; `events` gets what they emit, from the net thread.
    init(_ apps: [LoadedApp], responseTimeoutNs: Int64, events: Mailbox<TransportEvent>) throws {
        let net = Net()
        let thread = try LoopThread(name: "net")
        self.thread = thread
        orders = Mailbox(loop: thread.loop) { batch in
            for order in batch { net.transports[order.app.value].handle(order.command) }
        }
        let resolver = try Resolver()
        thread.loop.perform { [loop = thread.loop] in
            net.start(apps, resolver: resolver, responseTimeoutNs: responseTimeoutNs, loop: loop, events: events)
        }
    }

    /// Core thread. A transport's queue is bounded by the capacity it reports, so the mailbox is.
    func post(_ app: AppIndex, _ command: TransportCommand) {
        orders.post(Order(app: app, command: command))
    }

    /// Ends the net thread; what transports still hold is given up.
    func stop() {
        thread.stop()
        thread.join()
    }

    /// What only the net thread touches.
    private final class Net: @unchecked Sendable {
        var transports: [APNsTransport] = []

        private var resolver: Resolver?

        func start(
            _ apps: [LoadedApp], resolver: Resolver, responseTimeoutNs: Int64, loop: Loop,
            events: Mailbox<TransportEvent>
        ) {
            self.resolver = resolver
            let dialer = Dialer(loop: loop, resolver: resolver)
            for (index, app) in apps.enumerated() {
                transports.append(
                    APNsTransport(
                        app: AppIndex(index), configuration: app.transportConfiguration(responseTimeoutNs),
                        token: app.token(), loop: loop, dialer: dialer, emit: { events.post(contentsOf: $0) }))
            }
        }
    }
}

extension LoadedApp {
    fileprivate func transportConfiguration(_ responseTimeoutNs: Int64) -> APNsConfiguration {
        var result = APNsConfiguration(host: settings.host, port: UInt16(clamping: settings.port), tls: context)
        result.minimumConnections = settings.connections.min
        result.maximumConnections = settings.connections.max
        result.responseTimeoutNs = responseTimeoutNs
        result.indexAuthorization = settings.indexesAuthorization
        return result
    }

    fileprivate func token() -> ProviderToken? {
        switch settings.credential {
        case .token(let credential):
            ProviderToken(keyID: credential.keyID, teamID: credential.teamID, key: signingKey)
        case .certificate: nil
        }
    }
}
