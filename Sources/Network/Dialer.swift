package import EventLoop

/// Where to connect to.
package struct DialTarget: Hashable, Sendable {
    package var host: String
    package var port: UInt16
    /// An HTTP proxy to CONNECT through (RFC 9110, 9.3.6).
    package var proxy: Proxy?
    /// Which of the name's addresses to begin with (counted modulo their number), to spread connections.
    package var firstAddress: Int

    package init(host: String, port: UInt16, proxy: Proxy? = nil, firstAddress: Int = 0) {
        self.host = host
        self.port = port
        self.proxy = proxy
        self.firstAddress = firstAddress
    }

    package struct Proxy: Hashable, Sendable {
        package var host: String
        package var port: UInt16
        /// Sent as `Proxy-Authorization: Basic`; empty: not sent.
        package var credentials: String

        package init(host: String, port: UInt16, credentials: String = "") {
            self.host = host
            self.port = port
            self.credentials = credentials
        }
    }
}

/// Connects: resolves, then tries the addresses in turn until one answers or the deadline is over. Loop's thread.
package final class Dialer {
    package init(loop: Loop, resolver: Resolver) { fatalError("not yet") }

    package struct Connected {
        package var descriptor: Descriptor
        package var address: SocketAddress
    }

    /// `then` is called once, never from inside this call, unless the attempt is cancelled before.
    @discardableResult
    package func dial(
        _ target: DialTarget, timeoutNs: Int64, then: @escaping (Result<Connected, ChannelEnd>) -> Void
    ) -> DialAttempt { fatalError("not yet") }
}

/// A dial under way. Loop's thread.
package final class DialAttempt {
    package func cancel() { fatalError("not yet") }
}
