internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// One transport of an app, with a function that changes its settings. Net thread.
struct AppTransport {
    let isBinary: Bool
    let handle: (TransportCommand) -> Void
    /// Opens new connections with the given app's settings, such as another credential, host or CA. Existing
    /// connections finish their requests. The protocol must stay the same.
    let replace: (LoadedApp) -> Void

    typealias Emit = ([TransportEvent]) -> Void
    typealias Maker = (LoadedApp, AppIndex, @escaping Emit) -> AppTransport

    /// Returns a function that creates an HTTP/2 or binary transport according to the app's settings. Apps with the
    /// same key share a provider token.
    ///
    /// - Parameters:
    ///   - responseTimeoutNs: The time without a response after which a request is in doubt.
    ///   - longestWindowNs: The longest resend window of the binary protocol, which is the time that a rebalance waits
    ///     for open notifications.
    ///   - tracesFrames: Whether new HTTP/2 connections report their frame headers.
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
