package import EventLoop
internal import Glibc

/// Resolves names with getaddrinfo(3), which blocks its thread for as long as name servers are silent: so each name has a
/// thread of its own meanwhile, and one that hangs holds up no other. Any thread.
package final class Resolver: Sendable {
    package typealias Answer = Result<[SocketAddress], ChannelEnd>

    /// Most threads, and so names at once.
    package static let threadLimit = 16
    /// Most names that wait for a thread; further ones fail at once.
    package static let queueLimit = 256
    /// Most who wait for names; further ones fail at once (who gave up is counted until the name is answered).
    package static let waiterLimit = 4_096
    /// When every thread has been at its name for so long, further names fail at once.
    package static let hungNs: Int64 = 5_000_000_000
    /// Most addresses of a name; the rest is of no use to a dial.
    private static let addressLimit = 64

    private let lookUp: @Sendable (String) -> Answer
    private let state: Guarded<State>

    private struct Waiter: Sendable {
        var port: UInt16
        var loop: Loop
        var then: @Sendable (Answer) -> Void
    }

    private struct State: Sendable {
        var threads: [LoopThread]
        /// Places in `threads`.
        var idle: [Int]
        /// When the thread at each place took its name.
        var startedNs: [Int64]
        /// Who waits for which name: a name that is asked for again while it is looked up is not looked up twice.
        var waiting: [String: [Waiter]] = [:]
        var waiters = 0
        /// Names that no thread has taken yet, in order.
        var queue: [String] = []
        var isStopped = false
    }

    private enum Admission {
        case joins
        case goes(to: LoopThread, place: Int)
        case queued
        case fails(String)
    }

    package convenience init() throws(SystemError) { try self.init(lookUp: Self.getAddresses) }

    /// - Parameter lookUp: called on one of the threads; may block.
    package init(lookUp: @escaping @Sendable (String) -> Answer) throws(SystemError) {
        self.lookUp = lookUp
        state = Guarded(State(threads: [try LoopThread(name: "resolver")], idle: [0], startedNs: [0]))
    }

    deinit { stop() }

    /// All addresses of a name, IPv4 and IPv6, in getaddrinfo's order (RFC 6724), at most 64; literals need no lookup.
    ///
    /// The answer comes once, on the loop's thread, never from inside this call. It takes as long as resolv.conf says (some
    /// 5 to 40 s when name servers are silent): the caller has its own deadline.
    package func resolve(
        host: String, port: UInt16, loop: Loop, then: @escaping @Sendable (Answer) -> Void
    ) {
        if let address = SocketAddress(literal: host, port: port) { return loop.perform { then(.success([address])) } }
        let waiter = Waiter(port: port, loop: loop, then: then)
        switch state.withLock({ Self.admit(host, waiter, to: &$0) }) {
        case .joins, .queued: break
        case .goes(let thread, let place): thread.loop.perform { [self] in work(on: host, at: place) }
        case .fails(let reason):
            loop.perform { then(.failure(ChannelEnd(.unresolved, "\(host): \(reason)"))) }
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
        guard state.waiters < waiterLimit else { return .fails("too many connections wait for names to be resolved") }
        if state.waiting[host] != nil {
            state.waiting[host]!.append(waiter)
            state.waiters += 1
            return .joins
        }
        let nowNs = LoopTime.read().monotonicNs
        if state.idle.isEmpty, state.threads.count < threadLimit, let thread = try? LoopThread(name: "resolver") {
            state.idle.append(state.threads.count)
            state.threads.append(thread)
            state.startedNs.append(0)
        }
        if state.idle.isEmpty {
            if state.startedNs.allSatisfy({ nowNs - $0 >= hungNs }) {
                return .fails(
                    "was not looked up: \(state.threads.count) other names have waited for the name servers for "
                        + "\(hungNs / 1_000_000_000) s (see /etc/resolv.conf)")
            }
            guard state.queue.count < queueLimit else { return .fails("too many names wait to be resolved") }
        }
        state.waiting[host] = [waiter]
        state.waiters += 1
        guard let place = state.idle.popLast() else {
            state.queue.append(host)
            return .queued
        }
        state.startedNs[place] = nowNs
        return .goes(to: state.threads[place], place: place)
    }

    /// A thread's work: this name, then those that wait.
    private func work(on first: String, at place: Int) {
        var host = first
        while true {
            let result = lookUp(host)
            let (waiters, next) = state.withLock { state in
                let waiters = state.waiting.removeValue(forKey: host) ?? []
                state.waiters -= waiters.count
                guard !state.queue.isEmpty, !state.isStopped else {
                    state.idle.append(place)
                    return (waiters, nil as String?)
                }
                state.startedNs[place] = LoopTime.read().monotonicNs
                return (waiters, state.queue.removeFirst())
            }
            tell(waiters, result)
            guard let next else { return }
            host = next
        }
    }

    private func tell(_ waiters: [Waiter], _ result: Answer) {
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

    private static func getAddresses(_ host: String) -> Answer {
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
        while let entry = unsafe next, addresses.count < addressLimit {
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
