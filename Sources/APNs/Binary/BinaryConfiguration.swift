package import Network
package import TLS

/// How one app reaches a gateway that speaks Apple's binary provider protocol. Checked before it comes here.
package struct BinaryConfiguration: Sendable {
    /// The frame format. Source: Apple, "Local and Push Notification Programming Guide", legacy information.
    package enum Format: String, CaseIterable, Sendable {
        /// Command 0: token and payload. Without identifiers there are no error answers that say whose they are.
        case simple
        /// Command 1: identifier and expiry, too.
        case enhanced
        /// Command 2: items, the priority among them.
        case framed
    }

    package struct WindowLimits: Sendable, Equatable {
        /// From when a notification has left until the gateway's silence counts as its acceptance.
        package var durationNs: Int64 = 2_000_000_000
        /// What `durationNs` may be lengthened to, where errors come later than that; the same: never.
        package var longestNs: Int64 = 2_000_000_000
        package var notifications = 100_000
        package var bytes = 32 << 20
    }

    package var host: String
    package var port: UInt16
    package var proxy: DialTarget.Proxy?
    package var tls: ClientContext
    package var format = Format.framed
    package var window = WindowLimits()
    /// Whether notifications that a gateway discarded behind an error are sent again. If not, they are abandoned.
    package var resendsDiscarded = true
    /// It refuses a token of zeros: by an answer, or, of `simple`, by its end.
    package var answersFence = true
    /// Bytes; a longer payload is refused here, as the gateway would.
    package var payloadLimit = 2_048
    package var minimumConnections = 1
    package var maximumConnections = 8
    /// A connection beyond the minimum that was unused for so long closes.
    package var idleConnectionNs: Int64 = 600_000_000_000
    /// The age at which a connection is renewed, as in `APNsConfiguration.maxAgeNs`. 0 means never.
    package var maxAgeNs: Int64 = 0
    /// A peer that acknowledges nothing of what was written for so long is given up: before TCP does.
    package var silenceNs: Int64 = 15_000_000_000
    package var backOff = BackOff.Limits()
    package var channel = Self.channelOptions

    /// Little lies between us and a gateway that reads slowly: what lies there ages unread.
    private static var channelOptions: ChannelOptions {
        var options = ChannelOptions()
        options.userTimeoutMs = 20_000
        options.outputLimit = 128 << 10
        options.unsentLimit = 64 << 10
        return options
    }

    package init(host: String, port: UInt16 = 2_195, tls: ClientContext) {
        self.host = host
        self.port = port
        self.tls = tls
    }
}
