package import EventLoop
internal import Glibc

/// Resolves names with getaddrinfo(3), which blocks its thread for as long as name servers are silent: each name has a
/// thread of its own meanwhile, so that one that hangs holds up no other. Any thread.
///
/// Where name servers are silent about a name that they knew, its last addresses are used.
package final class Resolver: Sendable {
    package typealias Answer = Result<[SocketAddress], ChannelEnd>

    /// What a lookup found.
    package enum Lookup: Sendable {
        case found([SocketAddress])
        /// There is no such name, or it has no address.
        case nothing(String)
        /// A name server is silent or in trouble.
        case unknown(String)
    }

    /// Most threads, and so names at once. Further names wait for one of them.
    package static let threadLimit = 32
    /// Most callers that wait for names. Further ones fail at once; one that gave up counts until its name is answered.
    package static let waiterLimit = 4_096
    /// Most addresses of a name; the rest is of no use to a dial.
    private static let addressLimit = 64
    /// Most names whose addresses are remembered; beyond it, all are forgotten.
    private static let nameLimit = 1_024

    private let lookUp: @Sendable (String) -> Lookup
    private let state: Guarded<State>

    private struct Waiter: Sendable {
        var port: UInt16
        var loop: Loop
        var then: @Sendable (Answer) -> Void
    }

    private struct State: Sendable {
        var threads: [LoopThread]
        var idle: [LoopThread]
        /// The addresses of each name's last answer.
        var known: [String: [SocketAddress]] = [:]
        /// Who waits for which name. A name that is asked for again while it is looked up is not looked up twice.
        var waiting: [String: [Waiter]] = [:]
        var waiters = 0
        /// Names that no thread has taken yet, in order.
        var queue: [String] = []
        var isStopped = false

        /// Whom a lookup answers, and with what.
        mutating func finish(_ host: String, _ lookup: Lookup) -> (waiters: [Waiter], answer: Answer) {
            let found = waiting.removeValue(forKey: host) ?? []
            waiters -= found.count
            if known.count >= nameLimit, known[host] == nil { known.removeAll() }
            switch lookup {
            case .found(let addresses):
                known[host] = addresses
                return (found, .success(addresses))
            case .nothing(let text):
                known[host] = nil
                return (found, .failure(ChannelEnd(.unresolved, "\(host): \(text)")))
            case .unknown(let text):
                if let last = known[host] { return (found, .success(last)) }
                return (found, .failure(ChannelEnd(.unresolved, "\(host): \(text)")))
            }
        }
    }

    private enum Admission {
        case waits
        case goes(to: LoopThread)
        case refused
    }

    package convenience init() throws(SystemError) { try self.init(lookUp: Self.getAddresses) }

    /// - Parameter lookUp: called on one of the threads; may block.
    package init(lookUp: @escaping @Sendable (String) -> Lookup) throws(SystemError) {
        self.lookUp = lookUp
        let first = try LoopThread(name: "resolver")
        state = Guarded(State(threads: [first], idle: [first]))
    }

    deinit { stop() }

    /// All addresses of a name, IPv4 and IPv6, in getaddrinfo's order (RFC 6724), at most 64; literals need no lookup.
    ///
    /// The answer comes once, on the loop's thread, never from inside this call. It takes as long as resolv.conf says
    /// (some 5 to 40 s when name servers are silent): the caller has its own deadline.
    package func resolve(
        host: String, port: UInt16, loop: Loop, then: @escaping @Sendable (Answer) -> Void
    ) {
        if let address = SocketAddress(literal: host, port: port) { return loop.perform { then(.success([address])) } }
        let waiter = Waiter(port: port, loop: loop, then: then)
        switch state.withLock({ Self.admit(host, waiter, to: &$0) }) {
        case .waits: break
        case .goes(let thread): thread.loop.perform { [self] in work(on: host, thread) }
        case .refused:
            let text = "\(host): too many connections wait for names to be resolved"
            answer([waiter], .failure(ChannelEnd(.unresolved, text)))
        }
    }

    /// Ends the threads once their lookups are over; what waits is not answered.
    package func stop() {
        let threads = state.withLock { state in
            state.isStopped = true
            return state.threads
        }
        for thread in threads { thread.stop() }
    }

    private static func admit(_ host: String, _ waiter: Waiter, to state: inout State) -> Admission {
        guard state.waiters < waiterLimit else { return .refused }
        state.waiters += 1
        state.waiting[host, default: []].append(waiter)
        guard state.waiting[host]?.count == 1 else { return .waits }
        if state.idle.isEmpty, state.threads.count < threadLimit, let thread = try? LoopThread(name: "resolver") {
            state.threads.append(thread)
            state.idle.append(thread)
        }
        guard let thread = state.idle.popLast() else {
            state.queue.append(host)
            return .waits
        }
        return .goes(to: thread)
    }

    /// A thread's work: this name, then those that wait.
    private func work(on first: String, _ thread: LoopThread) {
        var next: String? = first
        while let host = next {
            let lookup = lookUp(host)
            let finished = state.withLock { state in
                let finished = state.finish(host, lookup)
                next = state.isStopped || state.queue.isEmpty ? nil : state.queue.removeFirst()
                if next == nil { state.idle.append(thread) }
                return finished
            }
            answer(finished.waiters, finished.answer)
        }
    }

    private func answer(_ waiters: [Waiter], _ result: Answer) {
        for waiter in waiters {
            let answer = result.map { addresses in
                addresses.prefix(Self.addressLimit).map { address in
                    var address = address
                    address.port = waiter.port
                    return address
                }
            }
            waiter.loop.perform { waiter.then(answer) }
        }
    }

    /// `EAI_NODATA` of netdb(3), which is hidden from Swift as GNU's own.
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
