package import EventLoop

/// Accepts TCP connections on a loop. Loop's thread.
package final class Listener {
    package struct Accepted {
        package var descriptor: Descriptor
        package var address: SocketAddress
    }

    /// Binds and listens. Port 0: the kernel picks one, see `address`.
    ///
    /// - Parameter host: an IP address literal, or `localhost`.
    /// - Throws: `SystemError`; `bind: Address already in use (EADDRINUSE)`.
    package init(
        host: String, port: UInt16, loop: Loop, onAccept: @escaping (Accepted) -> Void
    ) throws(SystemError) { fatalError("not yet") }

    package var address: SocketAddress { fatalError("not yet") }
    package var port: UInt16 { fatalError("not yet") }

    /// Stops listening. Dropping the listener does too.
    package func close() { fatalError("not yet") }
}
