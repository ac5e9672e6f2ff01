package import Network
package import TLS

/// The validated settings with which one app connects to APNs.
package struct APNsConfiguration: Sendable {
    package var host: String
    package var port: UInt16
    package var proxy: DialTarget.Proxy?
    /// The TLS settings: the trusted certificates, ALPN `h2`, and the client certificate if there is no provider token.
    package var tls: ClientContext
    package var minimumConnections = 1
    package var maximumConnections = 8
    /// The time after END_STREAM at which a request without a response is in doubt.
    package var responseTimeoutNs: Int64 = 30_000_000_000
    /// The time without any answer after which a host with open requests is reported (`TransportEvent.unanswered`). It
    /// is longer than a slow answer takes, and shorter than the 10 s within which every problem is reported.
    package var unansweredNs: Int64 = 9_000_000_000
    /// Whether HPACK indexes the `authorization` field, which saves 155 bytes a request (`AuthorizationIndexing`).
    package var indexAuthorization = true
    package var keepalive = Keepalive.Limits()
    package var backOff = BackOff.Limits()
    package var channel = ChannelOptions()
    /// Whether new connections report the header of each HTTP/2 frame (`TransportNote.frame`).
    package var tracesFrames: @Sendable () -> Bool = { false }
    /// The idle time after which a connection beyond the minimum is closed.
    package var idleConnectionNs: Int64 = 600_000_000_000
    /// The age limit of connections, or 0 for none. At a random age of 75 to 100 % of the limit, the transport dials a
    /// connection that replaces the old one once it is ready.
    package var maxAgeNs: Int64 = 0
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

    package init(host: String, port: UInt16 = 443, tls: ClientContext) {
        self.host = host
        self.port = port
        self.tls = tls
    }

    /// The `:authority` field, without the scheme's default port (RFC 9113, section 8.3.1).
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? name : "\(name):\(port)"
    }
}
