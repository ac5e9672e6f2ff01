package import EventLoop
internal import Glibc

package struct DialTarget: Hashable, Sendable {
    package var host: String
    package var port: UInt16
    /// The HTTP proxy, which is used with CONNECT (RFC 9110, section 9.3.6).
    package var proxy: Proxy?
    /// The index of the address to try first in each address family, modulo the number of the family's addresses.
    /// Different values spread connections over the addresses.
    package var firstAddress: Int

    package init(host: String, port: UInt16, proxy: Proxy? = nil, firstAddress: Int = 0) {
        self.host = host
        self.port = port
        self.proxy = proxy
        self.firstAddress = firstAddress
    }

    /// Returns `host:port`, with an IPv6 address in brackets (RFC 3986, section 3.2.2).
    package static func text(_ host: String, _ port: UInt16) -> String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    package var text: String { Self.text(host, port) }

    package struct Proxy: Hashable, Sendable {
        package var host: String
        package var port: UInt16
        /// `user:password`, sent as `Proxy-Authorization: Basic` unless empty.
        package var credentials: String

        package init(host: String, port: UInt16, credentials: String = "") {
            self.host = host
            self.port = port
            self.credentials = credentials
        }

        /// The proxy's host and port, without the credentials.
        package var text: String { DialTarget.text(host, port) }
    }
}

/// Resolves a name and connects to the first address that accepts (RFC 8305, "Happy Eyeballs"). The attempt at the next
/// address begins 250 ms after the previous attempt, or as soon as an attempt fails. Earlier attempts continue
/// meanwhile. Use it on the loop's thread only.
package final class Dialer {
    let loop: Loop
    let resolver: Resolver

    /// The "Connection Attempt Delay" of RFC 8305, section 8.
    static let attemptDelayNs: Int64 = 250_000_000

    package init(loop: Loop, resolver: Resolver = .system) {
        self.loop = loop
        self.resolver = resolver
    }

    /// Dials a target. Calls `then` once, after this method has returned, unless the attempt is cancelled before. IPv6
    /// and IPv4 addresses alternate (RFC 8305, section 4), beginning with the family of the resolver's first address.
    /// The delay between attempts is shorter if the timeout would not suffice for all addresses.
    @discardableResult
    package func dial(
        _ target: DialTarget, timeoutNs: Int64, userTimeoutMs: Int32 = 15_000,
        then: @escaping (Result<TCPConnection, ChannelEnd>) -> Void
    ) -> DialAttempt {
        loop.assertOnThread()
        let attempt = DialAttempt(
            target, loop: loop, timeoutNs: timeoutNs, userTimeoutMs: userTimeoutMs, then: then)
        resolver.resolve(
            host: (target.proxy?.host ?? target.host), port: target.proxy?.port ?? target.port, loop: loop
        ) { attempt.resolved($0) }
        return attempt
    }
}

/// A connection attempt in progress. Use it on the loop's thread only. The resolver's thread retains it but does not
/// use it.
package final class DialAttempt: @unchecked Sendable {
    private let target: DialTarget
    private let loop: Loop
    private let userTimeoutMs: Int32
    private var then: ((Result<TCPConnection, ChannelEnd>) -> Void)?
    private var overall: Alarm?
    private let deadlineNs: Int64
    private var addresses: ArraySlice<SocketAddress> = []
    private var lastFailure = ""
    private var isUnresolved = true

    private struct Candidate {
        var address: SocketAddress
        var descriptor: Descriptor
        var registration: Registration
    }

    private var candidates: [Candidate] = []
    /// The alarm that starts the attempt at the next address.
    private var next: Alarm?
    private var tunnel: ProxyTunnel?

    init(
        _ target: DialTarget, loop: Loop, timeoutNs: Int64, userTimeoutMs: Int32 = 15_000,
        then: @escaping (Result<TCPConnection, ChannelEnd>) -> Void
    ) {
        self.target = target
        self.loop = loop
        self.userTimeoutMs = userTimeoutMs
        self.then = then
        deadlineNs = loop.now.monotonicNs + timeoutNs
        // The alarms keep this attempt alive until `end` drops them.
        overall = Alarm(loop: loop) { [self] in timedOut() }
        overall?.set(afterNs: timeoutNs)
    }

    package func cancel() {
        loop.assertOnThread()
        end()
    }

    /// The name with which error texts begin: `proxy HOST:PORT`, or `HOST:PORT` without a proxy.
    private var name: String { target.proxy.map { "proxy \($0.text)" } ?? target.text }

    func resolved(_ result: Result<[SocketAddress], ChannelEnd>) {
        guard then != nil else { return }
        switch result {
        case .failure(var end):
            // Errors of the resolver already begin with the host's name.
            if target.proxy != nil { end.text = "proxy \(end.text)" }
            finish(.failure(end))
        case .success(let all):
            isUnresolved = false
            addresses = Self.order(all, from: target.firstAddress)[...]
            tryNext()
        }
    }

    /// Returns the addresses, alternating between IPv6 and IPv4. Each family's list is rotated by `first`.
    static func order(_ all: [SocketAddress], from first: Int) -> [SocketAddress] {
        func rotated(_ some: [SocketAddress]) -> ArraySlice<SocketAddress> {
            guard !some.isEmpty else { return [] }
            let start = ((first % some.count) + some.count) % some.count
            return (some[start...] + some[..<start])[...]
        }
        let family = all.first?.isIPv6
        var preferred = rotated(all.filter { $0.isIPv6 == family })
        var others = rotated(all.filter { $0.isIPv6 != family })
        var ordered: [SocketAddress] = []
        while !preferred.isEmpty || !others.isEmpty {
            if let address = preferred.popFirst() { ordered.append(address) }
            if let address = others.popFirst() { ordered.append(address) }
        }
        return ordered
    }

    private func tryNext() {
        next = nil
        while let address = addresses.popFirst() {
            do throws(SystemError) {
                try connect(address)
                guard !addresses.isEmpty else { return }
                let leftNs = max(0, deadlineNs - loop.now.monotonicNs)
                next = Alarm(loop: loop) { [self] in tryNext() }
                next?.set(afterNs: min(Dialer.attemptDelayNs, leftNs / Int64(addresses.count + 1)))
                return
            } catch {
                lastFailure = failure(error.code, at: address)
            }
        }
        if candidates.isEmpty { finish(.failure(ChannelEnd("\(name): \(lastFailure)"))) }
    }

    /// Returns the text of a failure. It includes the address only if `name`, with which the error begins, is not that
    /// address.
    private func failure(_ code: Int32, at address: SocketAddress) -> String {
        let text = SystemError.text(code)
        return name.hasSuffix("\(address)") ? text : "\(address): \(text)"
    }

    private func connect(_ address: SocketAddress) throws(SystemError) {
        let descriptor = try Descriptor.tcpSocket(family: address.family)
        descriptor.setConnectionOptions(userTimeoutMs: userTimeoutMs)
        let result = unsafe address.withSockaddr { unsafe Glibc.connect(descriptor.raw, $0, $1) }
        // connect(2): after EINPROGRESS or EINTR, the attempt continues in the background.
        if result != 0, errno != EINPROGRESS, errno != EINTR { throw SystemError(call: "connect", code: errno) }
        let registration = try loop.register(descriptor.raw, for: .writable) { [self, raw = descriptor.raw] _ in
            connected(raw)
        }
        candidates.append(Candidate(address: address, descriptor: descriptor, registration: registration))
    }

    private func connected(_ raw: Int32) {
        guard let index = candidates.firstIndex(where: { $0.descriptor.raw == raw }) else { return }
        let one = candidates.remove(at: index)
        loop.unregister(one.registration)
        let code = one.descriptor.takeError()
        guard code == 0 else {
            lastFailure = failure(code, at: one.address)
            return tryNext()
        }
        dropCandidates()
        addresses = []
        let connected = TCPConnection(descriptor: one.descriptor, address: one.address)
        guard let proxy = target.proxy else { return finish(.success(connected)) }
        tunnel = ProxyTunnel(one.descriptor, to: target, proxy: proxy, loop: loop) { [self] failure in
            guard let failure else { return finish(.success(connected)) }
            finish(.failure(ChannelEnd("\(name): \(failure)")))
        }
    }

    private func timedOut() {
        let what =
            if isUnresolved {
                "name resolution timed out"
            } else if tunnel != nil {
                "CONNECT \(target.text) timed out"
            } else {
                "connecting timed out\(lastFailure.isEmpty ? "" : " (last error: \(lastFailure))")"
            }
        finish(.failure(ChannelEnd("\(name): \(what)")))
    }

    private func finish(_ result: Result<TCPConnection, ChannelEnd>) {
        let then = self.then
        end()
        then?(result)
    }

    private func end() {
        then = nil
        overall = nil
        tunnel?.cancel()
        tunnel = nil
        dropCandidates()
        addresses = []
    }

    private func dropCandidates() {
        next = nil
        for one in candidates { loop.unregister(one.registration) }
        candidates = []
    }
}
