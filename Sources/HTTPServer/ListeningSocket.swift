import Glibc

/// Why a page server could not start; one line that names the address.
package struct PageServerError: Error, Equatable, CustomStringConvertible {
    package let description: String
}

/// A bound and listening TCP socket, closed with its owner unless it was handed on.
@safe struct ListeningSocket: ~Copyable {
    private let fd: Int32
    /// The port bound; the kernel's choice when 0 was asked for.
    let port: UInt16

    /// Binds a numeric IPv4 or IPv6 address (or `localhost`, which is 127.0.0.1; empty: every IPv4 address).
    init(host: String, port: UInt16) throws(PageServerError) {
        let place = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        var hints = unsafe addrinfo()
        unsafe hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        let numeric = host == "localhost" ? "127.0.0.1" : host.isEmpty ? "0.0.0.0" : host
        let failure = unsafe getaddrinfo(numeric, String(port), &hints, &found)
        guard failure == 0, let address = unsafe found else {
            throw PageServerError(description: "\(place) is not an address to listen on: give an IP address")
        }
        defer { unsafe freeaddrinfo(address) }

        let fd = unsafe socket(
            address.pointee.ai_family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard fd >= 0 else { throw PageServerError(errno: errno, what: "no socket for \(place)") }
        var yes: Int32 = 1
        _ = unsafe setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        guard unsafe bind(fd, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0, listen(fd, 64) == 0 else {
            let error = errno
            close(fd)
            throw PageServerError(errno: error, what: "cannot listen on \(place)")
        }
        // MHD accepts in a loop until there is nobody left: the socket must not block.
        _ = fcntl(fd, F_SETFL, O_NONBLOCK)
        self.fd = fd
        self.port = unsafe ListeningSocket.boundPort(fd)
    }

    deinit { close(fd) }

    /// Gives the descriptor to a new owner, which closes it.
    consuming func handOn() -> Int32 {
        let fd = self.fd
        discard self
        return fd
    }

    @unsafe private static func boundPort(_ fd: Int32) -> UInt16 {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return unsafe withUnsafeMutableBytes(of: &storage) { bytes in
            let address = unsafe bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self)
            guard unsafe getsockname(fd, address, &length) == 0 else { return 0 }
            // sin_port and sin6_port both follow the 16-bit family, in network order.
            return UInt16(bigEndian: unsafe bytes.load(fromByteOffset: 2, as: UInt16.self))
        }
    }
}

extension PageServerError {
    init(errno: Int32, what: String) {
        self.init(description: "\(what): \(unsafe String(cString: strerror(errno)))")
    }
}
