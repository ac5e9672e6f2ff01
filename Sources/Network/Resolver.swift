package import EventLoop
internal import Glibc

/// Resolves names with getaddrinfo(3), which blocks its thread. Each name is looked up on a separate thread, so that a
/// slow lookup delays no other. Thread-safe.
///
/// If name servers fail or do not answer, the resolver returns the addresses of the last successful lookup, if any.
package final class Resolver: Sendable {
    package typealias Answer = Result<[SocketAddress], ChannelEnd>

    package enum Lookup: Sendable {
        case found([SocketAddress])
        /// The name does not exist or has no address.
        case nothing(String)
        /// The lookup failed, for example because no name server answered.
        case unknown(String)
    }

    private struct State: Sendable {
        var known: [String: [SocketAddress]] = [:]
        var waiting: [String: [@Sendable (Answer) -> Void]] = [:]
    }

    /// The system's resolver, for all loops of the process.
    package static let system = Resolver(lookUp: getAddresses)

    /// The maximum number of addresses that are stored for a name.
    private static let addressLimit = 64

    private let lookUp: @Sendable (String) -> Lookup
    private let state = Guarded(State())

    /// - Parameter lookUp: The lookup, which may block. The resolver calls it on a separate thread.
    package init(lookUp: @escaping @Sendable (String) -> Lookup) { self.lookUp = lookUp }

    /// Resolves a name to its addresses in getaddrinfo's order (RFC 6724). This can take 40 s if name servers do not
    /// answer. Calls `then` once on the loop's thread, after this call returns. Address literals need no lookup.
    package func resolve(
        host: String, port: UInt16, loop: Loop, then: @escaping @Sendable (Answer) -> Void
    ) {
        if let address = SocketAddress(literal: host, port: port) { return loop.perform { then(.success([address])) } }
        let isFirst = state.withLock { state in
            state.waiting[host, default: []].append { answer in
                loop.perform { then(answer.map { $0.map { $0.with(port: port) } }) }
            }
            return state.waiting[host]?.count == 1
        }
        guard isFirst else { return }
        do throws(SystemError) {
            pthread_detach(try startThread("resolver") { [self] in finish(host, lookUp(host)) })
        } catch {
            finish(host, .unknown("\(error)"))
        }
    }

    private func finish(_ host: String, _ lookup: Lookup) {
        let (waiting, answer) = state.withLock { state in
            var why = ""
            switch lookup {
            case .found(let addresses): state.known[host] = addresses
            case .nothing(let text):
                state.known[host] = nil
                why = text
            case .unknown(let text): why = text
            }
            let answer = state.known[host].map { Answer.success($0) } ?? .failure(ChannelEnd("\(host): \(why)"))
            return (state.waiting.removeValue(forKey: host) ?? [], answer)
        }
        for then in waiting { then(answer) }
    }

    /// `EAI_NODATA` of netdb(3), a GNU extension that Swift does not import.
    private static let noData: Int32 = -5

    private static func getAddresses(_ host: String) -> Lookup {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, nil, &hints, &list)
        guard code == 0 else {
            let text = code == EAI_SYSTEM ? SystemError.text(errno) : unsafe String(cString: gai_strerror(code))
            let isKnown = code == EAI_NONAME || code == noData
            return isKnown ? .nothing("cannot be resolved: \(text)") : .unknown("cannot be resolved: \(text)")
        }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var next = unsafe list
        while let entry = unsafe next, addresses.count < addressLimit {
            if let raw = unsafe entry.pointee.ai_addr, let address = unsafe SocketAddress(raw),
                !addresses.contains(address)
            {
                addresses.append(address)
            }
            unsafe next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .nothing("has no IPv4 or IPv6 address") : .found(addresses)
    }
}
