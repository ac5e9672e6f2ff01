package import EventLoop
internal import Glibc

/// A TCP connection, either dialed or accepted.
package struct TCPConnection {
    package var descriptor: Descriptor
    /// The address of the peer, or of the proxy if there is one.
    package var address: SocketAddress
}

/// An open file descriptor, which is closed when this object is deallocated.
package final class Descriptor {
    package let raw: Int32

    package init(adopting raw: Int32) { self.raw = raw }

    deinit { close(raw) }
}

extension Descriptor {
    static func tcpSocket(family: Int32) throws(SystemError) -> Descriptor {
        let flags = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        let raw = socket(family, flags, Int32(IPPROTO_TCP))
        guard raw >= 0 else { throw SystemError(call: "socket", code: errno) }
        return Descriptor(adopting: raw)
    }

    /// Binds and listens. Port 0 selects any free port. `host` is an IP address, `localhost` (127.0.0.1), or empty for
    /// all IPv4 addresses.
    package static func listening(
        on host: String, _ port: UInt16
    ) throws(SystemError) -> (descriptor: Descriptor, address: SocketAddress) {
        let numeric = host == "localhost" ? "127.0.0.1" : host.isEmpty ? "0.0.0.0" : host
        guard let wanted = SocketAddress(literal: numeric, port: port) else {
            throw SystemError(call: "listen on \(host)", code: EADDRNOTAVAIL)
        }
        let descriptor = try tcpSocket(family: wanted.family)
        descriptor.set(SOL_SOCKET, SO_REUSEADDR, 1)
        guard unsafe wanted.withSockaddr({ unsafe bind(descriptor.raw, $0, $1) }) == 0 else {
            throw SystemError(call: "bind", code: errno)
        }
        guard listen(descriptor.raw, 1024) == 0 else { throw SystemError(call: "listen", code: errno) }
        let bound = unsafe withAddress { unsafe getsockname(descriptor.raw, $0, $1) }
        return (descriptor, bound.address ?? wanted)
    }

    /// Sets an integer option. Ignores errors, such as an option that the kernel does not support.
    func set(_ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        _ = unsafe setsockopt(raw, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Disables Nagle's algorithm (TCP_NODELAY), and limits how long written data may remain unacknowledged
    /// (TCP_USER_TIMEOUT, tcp(7)).
    func setConnectionOptions(userTimeoutMs: Int32) {
        set(Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        set(Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, userTimeoutMs)
    }

    /// Makes the kernel send a RST and discard unsent bytes when the socket is closed (socket(7), SO_LINGER).
    func setResetOnClose() {
        var value = linger(l_onoff: 1, l_linger: 0)
        _ = unsafe setsockopt(raw, SOL_SOCKET, SO_LINGER, &value, socklen_t(MemoryLayout<linger>.size))
    }

    /// The number of bytes written but not acknowledged by the peer's kernel (tcp(7), SIOCOUTQ).
    var unacknowledgedBytes: Int {
        var count: Int32 = 0
        return unsafe ioctl(raw, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
    }

    /// Returns the error with which connect(2) has ended, or 0 if the socket is connected.
    func takeError() -> Int32 {
        var code: Int32 = 0
        var count = socklen_t(MemoryLayout<Int32>.size)
        return unsafe getsockopt(raw, SOL_SOCKET, SO_ERROR, &code, &count) == 0 ? code : errno
    }

    /// Returns the result of a system call that writes an address, such as accept(2), and the address if there is one.
    static func withAddress(
        _ call: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> (result: Int32, address: SocketAddress?) {
        var storage = sockaddr_storage()
        var count = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return unsafe withUnsafeMutablePointer(to: &storage) { storage in
            unsafe storage.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                let result = unsafe call(address, &count)
                return (result, unsafe result < 0 ? nil : SocketAddress(address))
            }
        }
    }
}
