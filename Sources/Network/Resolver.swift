package import EventLoop
internal import Glibc

/// Resolves names with getaddrinfo(3), which blocks its thread for as long as name servers are silent: so each name has
/// a thread of its own meanwhile, and one that hangs holds up no other. Any thread.
///
/// However many hang, some threads are left for names that were answered before, and some more for new ones. Where name
/// servers are silent about a name that they knew, its last addresses stand.
package final class Resolver: Sendable {
    package typealias Answer = Result<[SocketAddress], ChannelEnd>

    /// What a lookup found.
    package enum Lookup: Sendable {
        case found([SocketAddress])
        /// There is no such name, or it has no address.
        case nothing(String)
        /// Nobody knows now: a name server that is silent or in trouble.
        case unknown(String)
    }

    /// Most threads, and so names at once.
    package static let threadLimit = 32
    /// Most threads at names that were not answered before.
    package static let unansweredLimit = 28
    /// Most threads at names whose last lookup was slow.
    package static let slowLimit = 16
    /// A lookup that takes longer makes its name a slow one.
    package static let slowNs: Int64 = 1_000_000_000
    /// Most names that wait for a thread; further ones fail at once.
    package static let queueLimit = 256
    /// Most who wait for names; further ones fail at once (who gave up is counted until the name is answered).
    package static let waiterLimit = 4_096
    /// When every thread has been at its name for so long, further names fail at once.
    package static let hungNs: Int64 = 5_000_000_000
    /// Most addresses of a name; the rest is of no use to a dial.
    private static let addressLimit = 64
    /// Most names that are remembered; beyond, all are forgotten.
    private static let nameLimit = 1_024

    private let lookUp: @Sendable (String) -> Lookup
    private let state: Guarded<State>

    private struct Waiter: Sendable {
        var port: UInt16
        var loop: Loop
        var then: @Sendable (Answer) -> Void
    }

    /// What is known of a name, before it is looked up again.
    private enum Standing: Int, CaseIterable { case answered, new, slow }

    private struct Name: Sendable {
        /// Those of its last answer.
        var addresses: [SocketAddress] = []
        var isSlow = false
    }

    private struct State: Sendable {
        var threads: [LoopThread]
        /// Places in `threads`.
        var idle: [Int]
        /// When the thread at each place took its name.
        var startedNs: [Int64]
        /// Threads at names, by what was known of them.
        var busy = [0, 0, 0]
        var names: [String: Name] = [:]
        /// Who waits for which name: a name that is asked for again while it is looked up is not looked up twice.
        var waiting: [String: [Waiter]] = [:]
        var waiters = 0
        /// Names that no thread has taken yet, in order, by what is known of them.
        var queues: [[String]] = [[], [], []]
        var isStopped = false

        func standing(_ host: String) -> Standing {
            names[host].map { $0.isSlow ? .slow : .answered } ?? .new
        }

        /// Whether a thread may be taken for such a name.
        func leavesEnough(_ standing: Standing) -> Bool {
            let unanswered = busy[Standing.new.rawValue] + busy[Standing.slow.rawValue]
            return switch standing {
            case .answered: true
            case .new: unanswered < unansweredLimit
            case .slow: unanswered < unansweredLimit && busy[Standing.slow.rawValue] < slowLimit
            }
        }

        mutating func nextQueued() -> (host: String, standing: Standing)? {
            for standing in Standing.allCases
            where !queues[standing.rawValue].isEmpty && leavesEnough(standing) {
                return (queues[standing.rawValue].removeFirst(), standing)
            }
            return nil
        }

        /// What its lookup says, for those who wait for it.
        mutating func learn(_ host: String, _ lookup: Lookup, tookNs: Int64) -> Answer {
            if names.count >= nameLimit, names[host] == nil { names.removeAll() }
            let isSlow = tookNs >= slowNs
            switch lookup {
            case .found(let addresses):
                names[host] = Name(addresses: addresses, isSlow: isSlow)
                return .success(addresses)
            case .nothing(let text):
                names[host] = Name(isSlow: isSlow)
                return .failure(ChannelEnd(.unresolved, "\(host): \(text)"))
            case .unknown(let text):
                names[host, default: Name()].isSlow = isSlow
                let last = names[host]?.addresses ?? []
                return last.isEmpty ? .failure(ChannelEnd(.unresolved, "\(host): \(text)")) : .success(last)
            }
        }
    }

    private enum Admission {
        case joins
        case goes(to: LoopThread, index: Int, Standing)
        case queued
        case fails(String)
    }

    package convenience init() throws(SystemError) { try self.init(lookUp: Self.getAddresses) }

    /// - Parameter lookUp: called on one of the threads; may block.
    package init(lookUp: @escaping @Sendable (String) -> Lookup) throws(SystemError) {
        self.lookUp = lookUp
        state = Guarded(State(threads: [try LoopThread(name: "resolver")], idle: [0], startedNs: [0]))
    }

    deinit { stop() }

    /// All addresses of a name, IPv4 and IPv6, in getaddrinfo's order (RFC 6724), at most 64; literals need no lookup.
    ///
    /// The answer comes once, on the loop's thread, never from inside this call. It takes as long as resolv.conf says
    /// (some 5 to 40 s when name servers are silent): the caller has its own deadline. A name that was answered once,
    /// and slowly the last time, has its last addresses at once, while it is looked up for the next time.
    package func resolve(
        host: String, port: UInt16, loop: Loop, then: @escaping @Sendable (Answer) -> Void
    ) {
        if let address = SocketAddress(literal: host, port: port) { return loop.perform { then(.success([address])) } }
        let waiter = Waiter(port: port, loop: loop, then: then)
        let (last, admission) = state.withLock { state in
            let last = state.standing(host) == .slow ? state.names[host]?.addresses ?? [] : []
            return (last, Self.admit(host, last.isEmpty ? waiter : nil, to: &state))
        }
        if !last.isEmpty { tell([waiter], .success(last)) }
        switch admission {
        case .joins, .queued: break
        case .goes(let thread, let index, let standing):
            thread.loop.perform { [self] in work(on: host, standing, at: index) }
        case .fails(let reason):
            if last.isEmpty { tell([waiter], .failure(ChannelEnd(.unresolved, "\(host): \(reason)"))) }
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

    private static func admit(_ host: String, _ waiter: Waiter?, to state: inout State) -> Admission {
        guard state.waiters < waiterLimit else { return .fails("too many connections wait for names to be resolved") }
        let added = waiter.map { [$0] } ?? []
        if state.waiting[host] != nil {
            state.waiting[host]! += added
            state.waiters += added.count
            return .joins
        }
        let nowNs = LoopTime.read().monotonicNs
        let standing = state.standing(host)
        let mayGo = state.leavesEnough(standing)
        if mayGo, state.idle.isEmpty, state.threads.count < threadLimit, let thread = try? LoopThread(name: "resolver")
        {
            state.idle.append(state.threads.count)
            state.threads.append(thread)
            state.startedNs.append(0)
        }
        if !mayGo || state.idle.isEmpty {
            if state.idle.isEmpty, state.startedNs.allSatisfy({ nowNs - $0 >= hungNs }) {
                return .fails(
                    "was not looked up: \(state.threads.count) other names have waited for the name servers for "
                        + "\(hungNs / 1_000_000_000) s (see /etc/resolv.conf)")
            }
            guard state.queues.reduce(0, { $0 + $1.count }) < queueLimit else {
                return .fails("too many names wait to be resolved")
            }
        }
        state.waiting[host] = added
        state.waiters += added.count
        guard mayGo, let index = state.idle.popLast() else {
            state.queues[standing.rawValue].append(host)
            return .queued
        }
        state.startedNs[index] = nowNs
        state.busy[standing.rawValue] += 1
        return .goes(to: state.threads[index], index: index, standing)
    }

    /// A thread's work: this name, then those that wait.
    private func work(on first: String, _ standing: Standing, at index: Int) {
        var (host, standing) = (first, standing)
        while true {
            let lookup = lookUp(host)
            let (waiters, answer, next) = state.withLock { state in
                let nowNs = LoopTime.read().monotonicNs
                let waiters = state.waiting.removeValue(forKey: host) ?? []
                state.waiters -= waiters.count
                let answer = state.learn(host, lookup, tookNs: nowNs - state.startedNs[index])
                state.busy[standing.rawValue] -= 1
                guard !state.isStopped, let next = state.nextQueued() else {
                    state.idle.append(index)
                    return (waiters, answer, nil as (host: String, standing: Standing)?)
                }
                state.startedNs[index] = nowNs
                state.busy[next.standing.rawValue] += 1
                return (waiters, answer, next)
            }
            tell(waiters, answer)
            guard let next else { return }
            (host, standing) = next
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
