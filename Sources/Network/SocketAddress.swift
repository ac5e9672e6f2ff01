internal import CLinux
internal import Glibc

/// An IPv4 or IPv6 address with its port.
package struct SocketAddress: Hashable, Sendable, CustomStringConvertible {
    private enum Host: Hashable, Sendable {
        case v4(UInt32)
        case v6(UInt64, UInt64, scope: UInt32)
    }

    private var host: Host
    package var port: UInt16

    var isIPv6: Bool { if case .v6 = host { true } else { false } }

    func with(port: UInt16) -> SocketAddress {
        var address = self
        address.port = port
        return address
    }

    /// From a literal: `127.0.0.1`, `::1`, `fe80::1%eth0`; nil when it is none. Never looks anything up.
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

    /// From the kernel's or the resolver's form; nil for other families.
    init?(_ address: UnsafePointer<sockaddr>) {
        switch unsafe Int32(address.pointee.sa_family) {
        case AF_INET:
            let v4 = unsafe UnsafeRawPointer(address).load(as: sockaddr_in.self)
            host = .v4(v4.sin_addr.s_addr)
            port = UInt16(bigEndian: v4.sin_port)
        case AF_INET6:
            let v6 = unsafe UnsafeRawPointer(address).load(as: sockaddr_in6.self)
            var bytes = v6.sin6_addr
            (host, port) = unsafe withUnsafeBytes(of: &bytes) { bytes in
                unsafe (
                    .v6(
                        bytes.loadUnaligned(as: UInt64.self), bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
                        scope: v6.sin6_scope_id), UInt16(bigEndian: v6.sin6_port)
                )
            }
        default: return nil
        }
    }

    var family: Int32 { isIPv6 ? AF_INET6 : AF_INET }

    func withSockaddr<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        switch host {
        case .v4(let bits):
            var v4 = sockaddr_in()
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            v4.sin_addr.s_addr = bits
            return unsafe withUnsafePointer(to: &v4) { v4 in
                unsafe v4.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        case .v6(let high, let low, let scope):
            var v6 = sockaddr_in6()
            v6.sin6_family = sa_family_t(AF_INET6)
            v6.sin6_port = port.bigEndian
            v6.sin6_scope_id = scope
            unsafe withUnsafeMutableBytes(of: &v6.sin6_addr) { bytes in
                unsafe bytes.storeBytes(of: high, as: UInt64.self)
                unsafe bytes.storeBytes(of: low, toByteOffset: 8, as: UInt64.self)
            }
            return unsafe withUnsafePointer(to: &v6) { v6 in
                unsafe v6.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
                }
            }
        }
    }

    /// `127.0.0.1:443`, `[::1]:443`.
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
