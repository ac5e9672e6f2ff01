internal import APNs
internal import Configuration
internal import Delivery
internal import EventLoop
internal import Network

/// Transports over the binary protocol. Net thread.
final class BinaryTransports: TransportMaker {
    private let loop: Loop
    private let dialer: Dialer
    private let longestWindowNs: Int64

    /// `longestWindowNs`: what a window may be lengthened to: a rebalance waits no longer for what is open.
    init(loop: Loop, dialer: Dialer, longestWindowNs: Int64) {
        self.loop = loop
        self.dialer = dialer
        self.longestWindowNs = longestWindowNs
    }

    func make(
        _ app: LoadedApp, _ index: AppIndex, emit: @escaping ([TransportEvent]) -> Void
    ) -> any AppTransport {
        AppTransportOverBinary(
            BinaryTransport(
                app: index, configuration: app.binaryConfiguration(longestWindowNs), loop: loop, dialer: dialer,
                emit: emit),
            longestWindowNs)
    }
}

private final class AppTransportOverBinary: AppTransport {
    private let transport: BinaryTransport
    private let longestWindowNs: Int64

    init(_ transport: BinaryTransport, _ longestWindowNs: Int64) {
        self.transport = transport
        self.longestWindowNs = longestWindowNs
    }

    func handle(_ command: TransportCommand) { transport.handle(command) }

    func replace(with app: LoadedApp) { transport.replace(configuration: app.binaryConfiguration(longestWindowNs)) }
}

extension LoadedApp {
    /// How its transport connects; of an app that speaks the binary protocol.
    func binaryConfiguration(_ longestWindowNs: Int64) -> BinaryConfiguration {
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
