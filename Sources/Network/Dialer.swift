package import EventLoop
internal import Glibc

/// Where to connect to.
package struct DialTarget: Hashable, Sendable {
    package var host: String
    package var port: UInt16
    /// An HTTP proxy to CONNECT through (RFC 9110, 9.3.6).
    package var proxy: Proxy?
    /// Which of the name's addresses to begin with (counted modulo their number), to spread connections.
    package var firstAddress: Int

    package init(host: String, port: UInt16, proxy: Proxy? = nil, firstAddress: Int = 0) {
        self.host = host
        self.port = port
        self.proxy = proxy
        self.firstAddress = firstAddress
    }

    /// `host:port`; an IPv6 address stands in brackets (RFC 3986, 3.2.2).
    package static func text(_ host: String, _ port: UInt16) -> String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }

    /// What is connected to in the end, whatever is between.
    package var text: String { Self.text(host, port) }

    /// For log lines: the peer's address, or the host while there is none, or behind a proxy, where the address is not
    /// its own.
    package func text(reachedAt address: SocketAddress?) -> String {
        guard let address else { return text }
        return proxy == nil ? "\(address)" : "\(text) through the proxy \(address)"
    }

    package struct Proxy: Hashable, Sendable {
        package var host: String
        package var port: UInt16
        /// `user:password`, sent as `Proxy-Authorization: Basic`; empty: not sent.
        package var credentials: String

        package init(host: String, port: UInt16, credentials: String = "") {
            self.host = host
            self.port = port
            self.credentials = credentials
        }

        /// Without the credentials.
        package var text: String { DialTarget.text(host, port) }
    }
}

/// Connects: resolves, then tries the addresses one after the other, each 250 ms after the one before or as soon as one
/// fails, while those before go on; the first that connects is taken (RFC 8305, "Happy Eyeballs"). Loop's thread.
package final class Dialer {
    let loop: Loop
    let resolver: Resolver

    /// RFC 8305, 8: the "Connection Attempt Delay".
    static let attemptDelayNs: Int64 = 250_000_000

    package init(loop: Loop, resolver: Resolver) {
        self.loop = loop
        self.resolver = resolver
    }

    package struct Connected {
        package var descriptor: Descriptor
        /// The peer's, or the proxy's.
        package var address: SocketAddress
    }

    /// `then` is called once, never from inside this call, unless the attempt is cancelled before.
    ///
    /// IPv6 and IPv4 addresses take turns (RFC 8305, 4), the resolver's first family first. Where the time is short for
    /// that many addresses, they follow each other faster.
    @discardableResult
    package func dial(
        _ target: DialTarget, timeoutNs: Int64, userTimeoutMs: Int32 = 15_000,
        then: @escaping (Result<Connected, ChannelEnd>) -> Void
    ) -> DialAttempt {
        loop.assertOnThread()
        let attempt = DialAttempt(target, loop: loop, userTimeoutMs: userTimeoutMs, then: then)
        attempt.start(timeoutNs: timeoutNs)
        attempt.resolve(with: resolver)
        return attempt
    }

    /// The same to addresses known already.
    func dial(
        _ target: DialTarget, addresses: [SocketAddress], timeoutNs: Int64,
        then: @escaping (Result<Connected, ChannelEnd>) -> Void
    ) -> DialAttempt {
        let attempt = DialAttempt(target, loop: loop, userTimeoutMs: 15_000, then: then)
        attempt.start(timeoutNs: timeoutNs)
        attempt.resolved(.success(addresses))
        return attempt
    }
}

/// A dial under way. Loop's thread.
package final class DialAttempt {
    private let target: DialTarget
    private let loop: Loop
    private let userTimeoutMs: Int32
    private var then: ((Result<Dialer.Connected, ChannelEnd>) -> Void)?
    private var overall: TimerID?
    private var deadlineNs: Int64 = 0
    private var addresses: ArraySlice<SocketAddress> = []
    private var lastFailure = ""
    private var isUnresolved = true

    /// An address that is being tried.
    private struct Try {
        var address: SocketAddress
        var descriptor: Descriptor
        var registration: Registration
    }

    /// At most as many as a name has addresses.
    private var tries: [Try] = []
    /// When the next address is tried beside them.
    private var next: TimerID?
    private var tunnel: ProxyTunnel?

    fileprivate init(
        _ target: DialTarget, loop: Loop, userTimeoutMs: Int32,
        then: @escaping (Result<Dialer.Connected, ChannelEnd>) -> Void
    ) {
        self.target = target
        self.loop = loop
        self.userTimeoutMs = userTimeoutMs
        self.then = then
    }

    /// Gives up; `then` is not called.
    package func cancel() {
        loop.assertOnThread()
        end()
    }

    /// What is dialled, as errors name it.
    private var host: String { target.proxy?.host ?? target.host }
    private var name: String { target.proxy.map { "proxy \($0.text)" } ?? target.text }
    /// The same without a port, where only the name matters.
    private var hostName: String { target.proxy == nil ? host : "proxy \(host)" }

    fileprivate func start(timeoutNs: Int64) {
        deadlineNs = loop.now.monotonicNs + timeoutNs
        overall = loop.schedule(afterNs: timeoutNs) { [self] in
            overall = nil
            timedOut()
        }
    }

    fileprivate func resolve(with resolver: Resolver) {
        let waiting = OnLoop(self)
        resolver.resolve(host: host, port: target.proxy?.port ?? target.port, loop: loop) { waiting.value.resolved($0) }
    }

    fileprivate func resolved(_ result: Result<[SocketAddress], ChannelEnd>) {
        guard then != nil else { return }
        switch result {
        case .failure(var end):
            // The resolver begins with the name.
            if target.proxy != nil { end.text = "proxy \(end.text)" }
            finish(.failure(end))
        case .success(let all):
            isUnresolved = false
            guard !all.isEmpty else {
                return finish(.failure(ChannelEnd(.unresolved, "\(hostName): has no IPv4 or IPv6 address")))
            }
            addresses = Self.order(all, from: target.firstAddress)[...]
            tryNext()
        }
    }

    /// Both families take turns; `first` rotates each of them.
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

    /// Begins with the next address; those under way go on.
    private func tryNext() {
        if let next { loop.cancel(next) }
        next = nil
        while let address = addresses.popFirst() {
            do throws(SystemError) {
                try connect(address)
                return waitForNext()
            } catch {
                lastFailure = failure(error.code, at: address)
            }
        }
        if tries.isEmpty { finish(.failure(ChannelEnd(.unreachable, "\(name): \(lastFailure)"))) }
    }

    /// With the address, unless that is what was dialled: every error names that first.
    private func failure(_ code: Int32, at address: SocketAddress) -> String {
        let text = SystemError.text(code)
        return name.hasSuffix("\(address)") ? text : "\(address): \(text)"
    }

    private func waitForNext() {
        guard !addresses.isEmpty else { return }
        let leftNs = max(0, deadlineNs - loop.now.monotonicNs)
        let delayNs = min(Dialer.attemptDelayNs, leftNs / Int64(addresses.count + 1))
        next = loop.schedule(afterNs: delayNs) { [self] in
            next = nil
            tryNext()
        }
    }

    private func connect(_ address: SocketAddress) throws(SystemError) {
        let descriptor = try Descriptor.tcpSocket(family: address.family)
        descriptor.setConnectionOptions(userTimeoutMs: userTimeoutMs)
        let result = unsafe address.withSockaddr { unsafe Glibc.connect(descriptor.raw, $0, $1) }
        // connect(2): EINPROGRESS completes later, EINTR too (it goes on in the background).
        if result != 0, errno != EINPROGRESS, errno != EINTR { throw SystemError(call: "connect", code: errno) }
        let registration = try loop.register(descriptor.raw, for: .writable) { [self, raw = descriptor.raw] _ in
            connected(raw)
        }
        tries.append(Try(address: address, descriptor: descriptor, registration: registration))
    }

    private func connected(_ raw: Int32) {
        guard let index = tries.firstIndex(where: { $0.descriptor.raw == raw }) else { return }
        let one = tries.remove(at: index)
        loop.unregister(one.registration)
        let code = one.descriptor.takeError()
        guard code == 0 else {
            lastFailure = failure(code, at: one.address)
            return tryNext()
        }
        // The others came too late.
        dropTries()
        addresses = []
        let connected = Dialer.Connected(descriptor: one.descriptor, address: one.address)
        guard let proxy = target.proxy else { return finish(.success(connected)) }
        tunnel = ProxyTunnel(one.descriptor, to: target, proxy: proxy, loop: loop) { [self] failure in
            guard let failure else { return finish(.success(connected)) }
            finish(.failure(ChannelEnd(.proxyRefused, "\(name): \(failure)")))
        }
    }

    private func timedOut() {
        let text =
            switch (isUnresolved, tunnel != nil) {
            case (true, _): ChannelEnd(.unresolved, "\(hostName): was not resolved in time")
            case (_, true): ChannelEnd(.proxyRefused, "\(name): no answer in time to CONNECT \(target.text)")
            default:
                ChannelEnd(
                    .unreachable,
                    "\(name): no connection in time\(lastFailure.isEmpty ? "" : " (last: \(lastFailure))")")
            }
        finish(.failure(text))
    }

    private func finish(_ result: Result<Dialer.Connected, ChannelEnd>) {
        let then = self.then
        end()
        then?(result)
    }

    private func end() {
        then = nil
        if let overall { loop.cancel(overall) }
        overall = nil
        tunnel?.cancel()
        tunnel = nil
        dropTries()
        addresses = []
    }

    /// Lets go of the addresses that are being tried.
    private func dropTries() {
        if let next { loop.cancel(next) }
        next = nil
        for one in tries { loop.unregister(one.registration) }
        tries = []
    }
}

/// Carries a value of a loop's thread through another thread and back. The other one does not look at it: that is what
/// `@unchecked Sendable` stands for.
private struct OnLoop<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
