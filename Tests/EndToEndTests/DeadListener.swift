import Foundation
import TestSupport

/// An address and port that answer no SYN, as a host behind a firewall: a listener whose queue is full (listen(2)).
final class DeadListener {
    let port: Int
    private var descriptors: [Int32] = []

    /// - Parameters:
    ///   - host: an address of the loopback interface, such as `127.0.0.9` or `::1`.
    ///   - port: 0: any free one.
    init(_ host: String, port: Int = 0) throws {
        var hints = addrinfo()
        hints.ai_flags = AI_NUMERICHOST
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, "\(port)", &hints, &list) == 0, let address = list else {
            throw Unexpected("\(host) is no address")
        }
        defer { freeaddrinfo(list) }
        let listener = socket(address.pointee.ai_family, Int32(SOCK_STREAM.rawValue), 0)
        descriptors.append(listener)
        guard bind(listener, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0, listen(listener, 0) == 0 else {
            throw Unexpected("nothing can listen on \(host):\(port): \(String(cString: strerror(errno)))")
        }
        var bound = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        self.port = withUnsafeMutablePointer(to: &bound) { bound in
            bound.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(listener, $0, &size) }
            // Where the port stands is the same for both families.
            return bound.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                Int(in_port_t(bigEndian: $0.pointee.sin_port))
            }
        }
        // The queue takes one more than it says; what comes after it gets no answer.
        for _ in 0..<4 {
            let client = socket(address.pointee.ai_family, Int32(SOCK_STREAM.rawValue) | O_NONBLOCK, 0)
            descriptors.append(client)
            withUnsafeMutablePointer(to: &bound) { bound in
                bound.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = connect(client, $0, size) }
            }
        }
    }

    deinit { for descriptor in descriptors { close(descriptor) } }
}
