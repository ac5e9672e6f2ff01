package import EventLoop
internal import Glibc

/// Accepts TCP connections on a loop. Use it on the loop's thread only.
package final class Listener {
    /// The address on which the listener accepts, with the port that the kernel chose for port 0.
    package let address: SocketAddress
    package var port: UInt16 { address.port }

    private let loop: Loop
    private let descriptor: Descriptor
    private let onAccept: (TCPConnection) -> Void
    private var registration: Registration?

    /// The maximum number of connections accepted per turn. It prevents many connections from starving other
    /// descriptors.
    private static let acceptsPerTurn = 64

    /// Starts to listen. `host` and `port` mean the same as in `Descriptor.listening`.
    package init(
        host: String, port: UInt16, loop: Loop, onAccept: @escaping (TCPConnection) -> Void
    ) throws(SystemError) {
        self.loop = loop
        self.onAccept = onAccept
        (descriptor, address) = try Descriptor.listening(on: host, port)
        registration = try loop.register(descriptor.raw, for: .readable) { [weak self] _ in self?.accept() }
    }

    deinit { close() }

    /// Stops accepting connections. The kernel still queues new connections until the listener is deallocated, which
    /// closes the socket.
    package func close() {
        if let registration { loop.unregister(registration) }
        registration = nil
    }

    private func accept() {
        for _ in 0..<Self.acceptsPerTurn where registration != nil {
            let (raw, address) = unsafe Descriptor.withAddress { unsafe Glibc.accept(descriptor.raw, $0, $1) }
            // Stop if no connection is waiting or accept(2) fails. The next turn accepts connections that still wait.
            guard raw >= 0 else { return }
            _ = fcntl(raw, F_SETFL, O_NONBLOCK)
            _ = fcntl(raw, F_SETFD, FD_CLOEXEC)
            let accepted = Descriptor(adopting: raw)
            if let address { onAccept(TCPConnection(descriptor: accepted, address: address)) }
        }
    }
}
