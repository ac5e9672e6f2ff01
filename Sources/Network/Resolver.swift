package import EventLoop
internal import Glibc

/// Resolves names on a thread of its own with getaddrinfo(3). Any thread.
package final class Resolver: Sendable {
    /// Most names that wait for the thread; further ones fail at once.
    package static let queueLimit = 256

    private let thread: LoopThread
    /// Who waits for which name: a name that is asked for again while it is looked up is not looked up twice.
    private let waiting = Guarded<[String: [Waiter]]>([:])

    private struct Waiter: Sendable {
        var port: UInt16
        var loop: Loop
        var then: @Sendable (Result<[SocketAddress], ChannelEnd>) -> Void
    }

    package init() throws(SystemError) { thread = try LoopThread(name: "resolver") }

    deinit { thread.stop() }

    /// All addresses of a name, IPv4 and IPv6, in getaddrinfo's order (RFC 6724); literals need no lookup.
    ///
    /// The answer comes once, on the loop's thread, never from inside this call. It takes as long as resolv.conf says (some
    /// 5 to 40 s when name servers are silent): the caller has its own deadline.
    package func resolve(
        host: String, port: UInt16, loop: Loop,
        then: @escaping @Sendable (Result<[SocketAddress], ChannelEnd>) -> Void
    ) {
        if let address = SocketAddress(literal: host, port: port) { return loop.perform { then(.success([address])) } }
        let waiter = Waiter(port: port, loop: loop, then: then)
        let (isFirst, isFull) = waiting.withLock { waiting in
            let isFirst = waiting[host] == nil
            if isFirst, waiting.count >= Self.queueLimit { return (false, true) }
            waiting[host, default: []].append(waiter)
            return (isFirst, false)
        }
        if isFull {
            return loop.perform {
                then(.failure(ChannelEnd(.unresolved, "\(host): too many names wait to be resolved")))
            }
        }
        if isFirst { thread.loop.perform { [self] in answer(host) } }
    }

    /// Ends the thread once its current lookup is over; what waits is not answered.
    package func stop() { thread.stop() }

    private func answer(_ host: String) {
        let result = Self.lookUp(host)
        let waiters = waiting.withLock { $0.removeValue(forKey: host) } ?? []
        for waiter in waiters {
            let answer = result.map { addresses in
                addresses.map { address in
                    var address = address
                    address.port = waiter.port
                    return address
                }
            }
            waiter.loop.perform { waiter.then(answer) }
        }
    }

    private static func lookUp(_ host: String) -> Result<[SocketAddress], ChannelEnd> {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let text = code == EAI_SYSTEM ? SystemError.text(errno) : unsafe String(cString: gai_strerror(code))
            return .failure(ChannelEnd(.unresolved, "\(host): cannot be resolved: \(text)"))
        }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            if let raw = unsafe entry.pointee.ai_addr, let address = unsafe SocketAddress(raw),
                !addresses.contains(address)
            {
                addresses.append(address)
            }
            unsafe next = entry.pointee.ai_next
        }
        guard !addresses.isEmpty else {
            return .failure(ChannelEnd(.unresolved, "\(host): has no IPv4 or IPv6 address"))
        }
        return .success(addresses)
    }
}
