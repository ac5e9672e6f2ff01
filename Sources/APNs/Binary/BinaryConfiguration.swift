package import Network
package import TLS

/// The validated settings with which one app connects to a gateway of Apple's binary provider protocol.
package struct BinaryConfiguration: Sendable {
    /// The frame format. Source: Apple, "Local and Push Notification Programming Guide", legacy information.
    package enum Format: String, CaseIterable, Sendable {
        /// Command 0: token and payload. It has no identifiers, so an error answer does not name its notification.
        case simple
        /// Command 1: adds an identifier and an expiry.
        case enhanced
        /// Command 2: a list of items, including the priority.
        case framed
    }

    package struct WindowLimits: Sendable, Equatable {
        /// How long the gateway must stay silent until a notification counts as accepted, from the time when the kernel
        /// of the gateway's host acknowledged the notification's bytes.
        package var durationNs: Int64 = 2_000_000_000
        /// The maximum length of the window, which starts with `durationNs` and is extended if errors arrive after its
        /// end. If it equals `durationNs`, the window is never extended.
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
    /// Whether notifications that a gateway discarded after an error are sent again. If not, they are abandoned.
    package var resendsDiscarded = true
    /// Whether the gateway rejects a notification for a token of zeros, which the worker sends as a fence. To reject
    /// it, the gateway sends an error or, with `simple`, closes the connection.
    package var answersFence = true
    /// The maximum payload size in bytes. The worker rejects a longer payload itself, with the gateway's status 7.
    package var payloadLimit = 2_048
    package var minimumConnections = 1
    package var maximumConnections = 8
    /// The idle time in nanoseconds after which a connection beyond the minimum is closed.
    package var idleConnectionNs: Int64 = 600_000_000_000
    /// The age limit of connections, as in `APNsConfiguration.maxAgeNs`, or 0 for none.
    package var maxAgeNs: Int64 = 0
    /// How long a frame may wait for the acknowledgement of its bytes before the connection is given up. This time is
    /// shorter than TCP_USER_TIMEOUT.
    package var silenceNs: Int64 = 15_000_000_000
    package var backOff = BackOff.Limits()
    package var channel = Self.channelOptions

    /// The send buffers are small, so that few notifications become outdated in them while the gateway is slow.
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
