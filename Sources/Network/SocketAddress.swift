internal import CLinux
internal import Glibc

/// An IPv4 or IPv6 address with its port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    /// The bytes of a `sockaddr_in` or `sockaddr_in6`. In both, bytes 2 and 3 are the port.
    private var bytes: [UInt8]

    package var port: UInt16 {
        get { UInt16(bytes[2]) << 8 | UInt16(bytes[3]) }
        set { (bytes[2], bytes[3]) = (UInt8(newValue >> 8), UInt8(truncatingIfNeeded: newValue)) }
    }

    /// AF_INET or AF_INET6.
    let family: Int32

    var isIPv6: Bool { family == AF_INET6 }

    /// Whether the address is ::1 or begins with 127.
    package var isLoopback: Bool { isIPv6 ? hostText == "::1" : hostText.hasPrefix("127.") }

    func with(port: UInt16) -> SocketAddress {
        var address = self
        address.port = port
        return address
    }

    /// Parses a literal: `127.0.0.1`, `::1`, `fe80::1%eth0`. Returns `nil` for a host name, without a lookup.
    package init?(literal: String, port: UInt16) {
        var hints = unsafe addrinfo()
        unsafe hints.ai_flags = AI_NUMERICHOST
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(literal, nil, &hints, &list) == 0, let first = unsafe list else { return nil }
        defer { unsafe freeaddrinfo(first) }
        guard let address = unsafe first.pointee.ai_addr else { return nil }
        unsafe self.init(address)
        self.port = port
    }

    /// Copies an address from the kernel or the resolver. Returns `nil` for families other than IPv4 and IPv6.
    init?(_ address: UnsafePointer<sockaddr>) {
        family = unsafe Int32(address.pointee.sa_family)
        guard family == AF_INET || family == AF_INET6 else { return nil }
        let count = family == AF_INET6 ? MemoryLayout<sockaddr_in6>.size : MemoryLayout<sockaddr_in>.size
        bytes = unsafe Array(UnsafeRawBufferPointer(start: address, count: count))
    }

    func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe body(bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
    }

    /// The address and port as text, for example `127.0.0.1:443` or `[::1]:443`.
    package var description: String { isIPv6 ? "[\(hostText)]:\(port)" : "\(hostText):\(port)" }

    package var hostText: String {
        var text = [CChar](repeating: 0, count: Int(NI_MAXHOST))
        let result = unsafe withSockaddr { address, count in
            unsafe getnameinfo(address, count, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
        }
        guard result == 0 else { return "?" }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
