internal import Glibc

/// An IPv4 or IPv6 address with its port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// `127.0.0.1:443`, `[::1]:443`.
    package var description: String { fatalError("not yet") }
    package var port: UInt16 { fatalError("not yet") }
}

/// An open descriptor with one owner, closed when the owner goes.
package final class Descriptor {
    package let raw: Int32

    package init(adopting raw: Int32) { self.raw = raw }

    deinit { close(raw) }
}
