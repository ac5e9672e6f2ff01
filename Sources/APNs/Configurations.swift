package import Network
package import TLS

/// The validated settings of one app's connections that HTTP/2 and the binary protocol share.
package struct ConnectionSettings: Sendable {
    package var target: DialTarget
    /// The TLS settings: the trusted certificates, the ALPN protocols, and the client certificate.
    package var tls: ClientContext
    package var minimum = 1
    package var maximum = 8
    /// The idle time after which a connection beyond the minimum is closed.
    package var idleNs: Int64 = 600_000_000_000
    /// The age limit of connections, or 0 for none. At a random age of 75 to 100 % of the limit, the transport dials a
    /// connection that replaces the old one once it is ready.
    package var maxAgeNs: Int64 = 0
    package var backOff = BackOff.Limits()
    package var channel = ChannelOptions()

    package init(_ target: DialTarget, tls: ClientContext) {
        self.target = target
        self.tls = tls
    }
}

/// The validated settings with which one app connects to APNs.
package struct APNsConfiguration: Sendable {
    package var connections: ConnectionSettings
    /// The time after END_STREAM at which a request without a response is in doubt.
    package var responseTimeoutNs: Int64 = 30_000_000_000
    /// The time without any answer after which a host with open requests is reported (`TransportEvent.unanswered`). It
    /// is longer than a slow answer takes, and shorter than the 10 s within which every problem is reported.
    package var unansweredNs: Int64 = 9_000_000_000
    /// Whether HPACK indexes the `authorization` field, which saves 155 bytes a request (`AuthorizationIndexing`).
    package var indexAuthorization = true
    package var keepalive = Keepalive.Limits()
    /// Whether new connections report the header of each HTTP/2 frame (`TransportNote.frame`).
    package var tracesFrames: @Sendable () -> Bool = { false }
    /// The idle time after which the quarantine connection is closed.
    package var quarantineIdleNs: Int64 = 60_000_000_000
    /// How long APNs may answer only with server errors on a connection before the connection is replaced. If APNs
    /// recovers within this time, the connection was probably not the cause.
    package var errorSpanNs: Int64 = 5_000_000_000
    /// The minimum time between two replacements for server errors while other connections answer without errors.
    package var errorPauseNs: Int64 = 30_000_000_000
    /// The minimum time between two replacements for server errors while no connection answers without errors. If one
    /// new connection did not help, another probably would not either.
    package var errorTrialPauseNs: Int64 = 900_000_000_000
    /// The minimum age of a connection on which the answer TopicDisallowed makes the transport replace all connections.
    package var topicAgeNs: Int64 = 60_000_000_000
    /// The minimum time between two replacements of all connections for TopicDisallowed.
    package var topicPauseNs: Int64 = 900_000_000_000
    /// When the next stream id reaches this value, the connection takes no more requests. Stream ids are below 2^31.
    package var retirementStreamID: UInt32 = 1 << 30

    package init(_ connections: ConnectionSettings) { self.connections = connections }

    /// The `:authority` field, without the scheme's default port (RFC 9113, section 8.3.1).
    var authority: String {
        let target = connections.target
        return target.port == 443 ? String(target.text.dropLast(":443".count)) : target.text
    }
}

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
        /// A notification counts as accepted if the gateway sends nothing for this long after its host has acknowledged
        /// the notification's bytes (TCP).
        package var durationNs: Int64 = 2_000_000_000
        /// The maximum length of the window, which starts with `durationNs` and is extended if errors arrive after its
        /// end. If it equals `durationNs`, the window is never extended.
        package var longestNs: Int64 = 2_000_000_000
        package var notifications = 100_000
        package var bytes = 32 << 20
    }

    package var connections: ConnectionSettings
    package var format = Format.framed
    package var window = WindowLimits()
    /// Whether notifications that a gateway discarded after an error are sent again. If not, they are abandoned.
    package var resendsDiscarded = true
    /// Whether the gateway rejects a notification for a token of zeros, which the worker sends as a fence. To reject
    /// it, the gateway sends an error or, with `simple`, closes the connection.
    package var answersFence = true
    /// The maximum payload size in bytes. The worker rejects a longer payload itself, with the gateway's status 7.
    package var payloadLimit = 2_048
    /// How long a frame may wait for the acknowledgement of its bytes before the connection is given up. This time is
    /// shorter than TCP_USER_TIMEOUT.
    package var silenceNs: Int64 = 15_000_000_000

    package init(_ connections: ConnectionSettings) {
        self.connections = connections
        // The send buffers are small, so that few notifications become outdated in them while the gateway is slow.
        self.connections.channel.userTimeoutMs = 20_000
        self.connections.channel.outputLimit = 128 << 10
        self.connections.channel.unsentLimit = 64 << 10
    }
}
