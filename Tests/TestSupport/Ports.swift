// A debug build finds SOCK_STREAM only through CLinux, whose header includes sys/socket.h too.
import CLinux
import Foundation
import Glibc
import Synchronization

/// Local ports that are reserved for this test process until it ends.
///
/// Most test servers bind port 0 and report their port. Claim a port for servers that cannot do so (Kafka, nghttpd,
/// proxies), for servers that restart on the same port, and for ports on which nothing listens.
package enum Ports {
    /// Claims a port that no other test process uses.
    ///
    /// It lies outside the range from which the kernel assigns ports to clients and to servers that bind port 0 (ip(7),
    /// ip_local_port_range). Other test processes avoid it because of an abstract socket name (unix(7)), which the
    /// kernel removes when this process ends.
    package static func claim() -> Int {
        let claimed = next.withLock { next in
            for _ in candidates {
                next = next + 1 < candidates.upperBound ? next + 1 : candidates.lowerBound
                if holdsName(of: next), isFree(next) { return next }
            }
            return 0
        }
        precondition(claimed > 0, "no port of \(candidates) is free")
        return claimed
    }

    private static let next = Mutex(Int.random(in: candidates))

    private static let candidates: Range<Int> = {
        let text = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        let limits = (text ?? "").split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
        guard limits.count == 2 else { return 10_000..<32_768 }
        return limits[0] > 11_000 ? 10_000..<limits[0] : limits[1] + 1..<65_536
    }()

    /// Tries to claim the name of a port. The socket stays open on purpose: it is the claim.
    private static func holdsName(of port: Int) -> Bool {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let name = Array("\0apns-worker-test-port-\(port)".utf8)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: name) }
        let size = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) == 0 }
        }
        if !isBound { close(descriptor) }
        return isBound
    }

    /// Returns whether no other server listens on the port, on any address.
    private static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var isReused: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &isReused, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in(port: UInt16(port), isAny: true)
        return address.pass { bind(descriptor, $0, $1.pointee) } == 0
    }
}
