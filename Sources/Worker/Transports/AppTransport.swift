internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// One transport of an app, and how to give it other settings. Net thread.
struct AppTransport {
    let isBinary: Bool
    let handle: (TransportCommand) -> Void
    /// Makes the next connections as the app says: with another credential, host or trust. Present connections finish
    /// what is on them. The app speaks the same protocol.
    let replace: (LoadedApp) -> Void

    typealias Emit = ([TransportEvent]) -> Void
    typealias Maker = (LoadedApp, AppIndex, @escaping Emit) -> AppTransport

    /// Makes transports over HTTP/2 or the binary protocol, as each app says. Apps with the same key share its provider
    /// token.
    ///
    /// - Parameters:
    ///   - responseTimeoutNs: the time without a response after which a request is in doubt.
    ///   - longestWindowNs: the longest window of the binary protocol. A rebalance waits no longer for open
    ///     notifications.
    ///   - tracesFrames: whether an HTTP/2 connection that is made now reports its frame headers.
    static func maker(
        loop: Loop, responseTimeoutNs: Int64, longestWindowNs: Int64, tracesFrames: @escaping @Sendable () -> Bool
    ) -> Maker {
        let dialer = Dialer(loop: loop)
        let tokens = ProviderTokens()
        func http2(_ app: LoadedApp) -> APNsConfiguration {
            var configuration = app.transportConfiguration(responseTimeoutNs)
            configuration.tracesFrames = tracesFrames
            return configuration
        }
        return { app, index, emit in
            guard app.settings.binary == nil else {
                let transport = BinaryTransport(
                    app: index, configuration: app.binaryConfiguration(longestWindowNs), loop: loop, dialer: dialer,
                    emit: emit)
                return AppTransport(isBinary: true, handle: transport.handle) {
                    transport.replace(configuration: $0.binaryConfiguration(longestWindowNs))
                }
            }
            let transport = APNsTransport(
                app: index, configuration: http2(app), token: tokens.token(of: app), loop: loop, dialer: dialer,
                emit: emit)
            return AppTransport(isBinary: false, handle: transport.handle) {
                transport.replace(configuration: http2($0), token: tokens.token(of: $0))
            }
        }
    }
}

extension LoadedApp {
    func transportConfiguration(_ responseTimeoutNs: Int64) -> APNsConfiguration {
        var result = APNsConfiguration(host: settings.host, port: UInt16(clamping: settings.port), tls: context)
        result.proxy = proxy
        result.minimumConnections = settings.connections.min
        result.maximumConnections = settings.connections.max
        result.keepalive.idleNs = settings.connections.ping.nanoseconds
        result.idleConnectionNs = settings.connections.idle.nanoseconds
        result.maxAgeNs = settings.connections.maxAge.nanoseconds
        result.responseTimeoutNs = responseTimeoutNs
        result.indexAuthorization = settings.indexesAuthorization
        return result
    }

    fileprivate func binaryConfiguration(_ longestWindowNs: Int64) -> BinaryConfiguration {
        let binary = settings.binary ?? BinarySettings()
        var result = BinaryConfiguration(host: settings.host, port: UInt16(clamping: settings.port), tls: context)
        result.proxy = proxy
        result.format = binary.format.ofTransport
        result.window.durationNs = binary.window.duration.nanoseconds
        result.window.longestNs =
            binary.window.adjusts ? max(longestWindowNs, result.window.durationNs) : result.window.durationNs
        result.window.notifications = binary.window.limit
        result.window.bytes = binary.window.bytes
        result.resendsDiscarded = binary.resends
        result.answersFence = binary.answersFence
        result.payloadLimit = binary.payloadLimit
        result.minimumConnections = settings.connections.min
        result.maximumConnections = settings.connections.max
        result.idleConnectionNs = settings.connections.idle.nanoseconds
        result.maxAgeNs = settings.connections.maxAge.nanoseconds
        return result
    }
}

extension BinarySettings.Format {
    var ofTransport: BinaryConfiguration.Format {
        switch self {
        case .simple: .simple
        case .enhanced: .enhanced
        case .framed: .framed
        }
    }
}
