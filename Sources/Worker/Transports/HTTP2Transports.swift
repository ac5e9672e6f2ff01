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
    private let trace: TraceFile?

    init(loop: Loop, dialer: Dialer, responseTimeoutNs: Int64, trace: TraceFile?) {
        self.loop = loop
        self.dialer = dialer
        self.responseTimeoutNs = responseTimeoutNs
        self.trace = trace
    }

    func make(
        _ app: LoadedApp, _ index: AppIndex, emit: @escaping ([TransportEvent]) -> Void
    ) -> any AppTransport {
        HTTP2Transport(
            APNsTransport(
                app: index, configuration: app.transportConfiguration(responseTimeoutNs), token: tokens.token(of: app),
                loop: loop, dialer: dialer.traced(trace.map { Trace($0, app: app.settings.name) }), emit: emit), tokens,
            responseTimeoutNs)
    }
}

private final class HTTP2Transport: AppTransport {
    private let transport: APNsTransport
    private let tokens: ProviderTokens
    private let responseTimeoutNs: Int64

    init(_ transport: APNsTransport, _ tokens: ProviderTokens, _ responseTimeoutNs: Int64) {
        self.transport = transport
        self.tokens = tokens
        self.responseTimeoutNs = responseTimeoutNs
    }

    func handle(_ command: TransportCommand) { transport.handle(command) }

    func replace(with app: LoadedApp) {
        transport.replace(
            configuration: app.transportConfiguration(responseTimeoutNs), token: tokens.token(of: app))
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
