package import Network
package import TLS

/// How one app reaches APNs. Checked before it comes here: the key is loaded, names and ids are printable ASCII.
package struct APNsConfiguration: Sendable {
    package var host: String
    package var port: UInt16
    package var proxy: DialTarget.Proxy?
    /// Trust, ALPN `h2`, and the client certificate when there is no provider token.
    package var tls: ClientContext
    package var minimumConnections = 1
    package var maximumConnections = 8
    /// A request that has no response so long after END_STREAM was sent is in doubt.
    package var responseTimeoutNs: Int64 = 30_000_000_000
    /// A host that was asked and answered nothing for so long is told of (`TransportEvent.unanswered`). Above what a
    /// slow answer takes, and below the 10 s within which what is wrong is named.
    package var unansweredNs: Int64 = 9_000_000_000
    /// See `AuthorizationIndexing`: 155 bytes less a request.
    package var indexAuthorization = true
    package var keepalive = Keepalive.Limits()
    package var backOff = BackOff.Limits()
    package var channel = ChannelOptions()
    /// Whether a connection that is made now notes the head of each frame (`TransportNote.frame`).
    package var tracesFrames: @Sendable () -> Bool = { false }
    /// A connection beyond the minimum that was unused for so long closes.
    package var idleConnectionNs: Int64 = 600_000_000_000
    /// A connection that was open for three to four quarters of this is renewed: another one is dialled, and takes its
    /// place once it is ready. 0 keeps connections for as long as they last.
    package var maxAgeNs: Int64 = 0
    /// The quarantine connection closes when it was unused for so long.
    package var quarantineIdleNs: Int64 = 60_000_000_000
    /// How long a connection may answer only server errors before it is replaced. What APNs mends within it was not the
    /// connection's fault.
    package var errorSpanNs: Int64 = 5_000_000_000
    /// Between two such replacements while other connections answer well...
    package var errorPauseNs: Int64 = 30_000_000_000
    /// ... and while none does: where a new connection did not help, the next would not either.
    package var errorTrialPauseNs: Int64 = 900_000_000_000
    /// TopicDisallowed over a connection of at least this age makes all connections anew...
    package var topicAgeNs: Int64 = 60_000_000_000
    /// ... no more than once in so long.
    package var topicPauseNs: Int64 = 900_000_000_000
    /// A connection retires when its next stream id reaches this (they end at 2^31).
    package var retirementStreamID: UInt32 = 1 << 30

    package init(host: String, port: UInt16 = 443, tls: ClientContext) {
        self.host = host
        self.port = port
        self.tls = tls
    }

    /// `:authority`; RFC 9113, 8.3.1: without the scheme's own port.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? name : "\(name):\(port)"
    }
}
