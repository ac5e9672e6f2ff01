import Glibc

/// A listener on 127.0.0.1 that accepts no connections.
package final class DeadListener {
    package let port: UInt16
    /// The listener, then its clients.
    private var descriptors: [Int32]

    /// - Parameter connects: whether its kernel accepts connections, whose data is never read. Otherwise it answers no
    ///   SYN because its queue is full (listen(2)), like a host behind a firewall.
    package init(connects: Bool = false) {
        var address = sockaddr_in(port: 0)
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        // The queue accepts one more connection than its size. Later ones get no answer.
        descriptors = (0...(connects ? 0 : 4)).map { socket(AF_INET, $0 == 0 ? kind : kind | O_NONBLOCK, 0) }
        let isListening = address.pass { [descriptors] address, size in
            guard bind(descriptors[0], address, size.pointee) == 0, listen(descriptors[0], connects ? 1_000 : 0) == 0,
                getsockname(descriptors[0], address, size) == 0
            else { return false }
            for client in descriptors.dropFirst() { _ = connect(client, address, size.pointee) }
            return true
        }
        precondition(isListening, "nothing can listen: \(String(cString: strerror(errno)))")
        port = in_port_t(bigEndian: address.sin_port)
    }

    /// Accepts all queued connections, so that the kernel answers further ones.
    package func acceptAll() {
        var poll = pollfd(fd: descriptors[0], events: Int16(POLLIN), revents: 0)
        while Glibc.poll(&poll, 1, 0) > 0 { descriptors.append(accept(descriptors[0], nil, nil)) }
    }

    deinit { for descriptor in descriptors { close(descriptor) } }
}
