package import EventLoop
internal import Glibc

/// Accepts TCP connections on a loop. Loop's thread.
package final class Listener {
    package struct Accepted {
        package var descriptor: Descriptor
        package var address: SocketAddress
    }

    /// Where it listens, with the real port.
    package let address: SocketAddress
    package var port: UInt16 { address.port }

    private let loop: Loop
    private let descriptor: Descriptor
    private let onAccept: (Accepted) -> Void
    private var registration: Registration?

    /// Connections accepted per turn, so that a flood leaves the loop's other descriptors their turn.
    private static let acceptsPerTurn = 64

    /// Binds and listens; port 0 takes any free one. `host` is an IP address or `localhost` (127.0.0.1).
    package init(
        host: String, port: UInt16, loop: Loop, onAccept: @escaping (Accepted) -> Void
    ) throws(SystemError) {
        guard let wanted = SocketAddress(literal: host == "localhost" ? "127.0.0.1" : host, port: port) else {
            throw SystemError(call: "listen on \(host)", code: EADDRNOTAVAIL)
        }
        self.loop = loop
        self.onAccept = onAccept
        let descriptor = try Descriptor.tcpSocket(family: wanted.family)
        descriptor.set(SOL_SOCKET, SO_REUSEADDR, 1)
        guard unsafe wanted.withSockaddr({ unsafe bind(descriptor.raw, $0, $1) }) == 0 else {
            throw SystemError(call: "bind", code: errno)
        }
        guard listen(descriptor.raw, 1024) == 0 else { throw SystemError(call: "listen", code: errno) }
        address = descriptor.localAddress ?? wanted
        self.descriptor = descriptor
        registration = try loop.register(descriptor.raw, for: .readable) { [weak self] _ in self?.accept() }
    }

    deinit { close() }

    /// Stops listening; connections not accepted yet are refused once the listener is dropped. Dropping it does both.
    package func close() {
        if let registration { loop.unregister(registration) }
        registration = nil
    }

    private func accept() {
        for _ in 0..<Self.acceptsPerTurn where registration != nil {
            var storage = sockaddr_storage()
            var count = socklen_t(MemoryLayout<sockaddr_storage>.size)
            let accepted: Accepted? = unsafe withUnsafeMutablePointer(to: &storage) { storage in
                unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    let raw = unsafe Glibc.accept(descriptor.raw, address, &count)
                    guard raw >= 0 else { return nil }
                    _ = fcntl(raw, F_SETFL, O_NONBLOCK)
                    _ = fcntl(raw, F_SETFD, FD_CLOEXEC)
                    let descriptor = Descriptor(adopting: raw)
                    return unsafe SocketAddress(address).map { Accepted(descriptor: descriptor, address: $0) }
                }
            }
            // accept(2): nothing waits, or a connection died while it did.
            guard let accepted else { return }
            onAccept(accepted)
        }
    }
}
