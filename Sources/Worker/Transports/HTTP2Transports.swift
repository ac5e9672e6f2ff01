internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// Transports over HTTP/2. Apps with one key share its provider token. Net thread.
final class HTTP2Transports: TransportMaker {
    private let tokens = ProviderTokens()
    private let loop: Loop
    private let dialer: Dialer
    private let responseTimeoutNs: Int64
    private let tracesFrames: @Sendable () -> Bool

    /// `tracesFrames`: whether a connection that is made now tells the heads of its frames.
    init(loop: Loop, dialer: Dialer, responseTimeoutNs: Int64, tracesFrames: @escaping @Sendable () -> Bool) {
        self.loop = loop
        self.dialer = dialer
        self.responseTimeoutNs = responseTimeoutNs
        self.tracesFrames = tracesFrames
    }

    func make(
        _ app: LoadedApp, _ index: AppIndex, emit: @escaping ([TransportEvent]) -> Void
    ) -> any AppTransport {
        let configuration = { [responseTimeoutNs, tracesFrames] (app: LoadedApp) in
            var result = app.transportConfiguration(responseTimeoutNs)
            result.tracesFrames = tracesFrames
            return result
        }
        return HTTP2Transport(
            APNsTransport(
                app: index, configuration: configuration(app), token: tokens.token(of: app), loop: loop,
                dialer: dialer, emit: emit),
            tokens, configuration)
    }
}

private final class HTTP2Transport: AppTransport {
    private let transport: APNsTransport
    private let tokens: ProviderTokens
    private let configuration: (LoadedApp) -> APNsConfiguration

    init(
        _ transport: APNsTransport, _ tokens: ProviderTokens,
        _ configuration: @escaping (LoadedApp) -> APNsConfiguration
    ) {
        self.transport = transport
        self.tokens = tokens
        self.configuration = configuration
    }

    func handle(_ command: TransportCommand) { transport.handle(command) }

    func replace(with app: LoadedApp) {
        transport.replace(configuration: configuration(app), token: tokens.token(of: app))
    }
}

extension LoadedApp {
    /// How its transport connects. `responseTimeoutNs`: of the whole worker.
    func transportConfiguration(_ responseTimeoutNs: Int64) -> APNsConfiguration {
        var result = APNsConfiguration(host: settings.host, port: UInt16(clamping: settings.port), tls: context)
        result.proxy = proxy
        result.minimumConnections = settings.connections.min
        result.maximumConnections = settings.connections.max
        result.keepalive.idleNs = settings.connections.ping.nanoseconds
        result.idleConnectionNs = settings.connections.idle.nanoseconds
        result.responseTimeoutNs = responseTimeoutNs
        result.indexAuthorization = settings.indexesAuthorization
        return result
    }
}
