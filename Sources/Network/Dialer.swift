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
    }
}

/// Connects: resolves, then tries the addresses in turn until one answers or the deadline is over. Loop's thread.
package final class Dialer {
    let loop: Loop
    let resolver: Resolver

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
    /// Each address gets an equal share of what is left of the time, so that silent ones leave some for the others.
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

    /// The address being tried.
    private var descriptor: Descriptor?
    private var registration: Registration?
    private var share: TimerID?
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
    private var name: String {
        guard let proxy = target.proxy else { return "\(target.host):\(target.port)" }
        return "proxy \(proxy.host):\(proxy.port)"
    }

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
        case .failure(let end): finish(.failure(end))
        case .success(let all):
            guard !all.isEmpty else {
                return finish(.failure(ChannelEnd(.unresolved, "\(host): has no IPv4 or IPv6 address")))
            }
            let first = ((target.firstAddress % all.count) + all.count) % all.count
            addresses = (all[first...] + all[..<first])[...]
            tryNext()
        }
    }

    private func tryNext() {
        drop()
        guard let address = addresses.popFirst() else {
            return finish(.failure(ChannelEnd(.unreachable, "\(name): \(lastFailure)")))
        }
        do throws(SystemError) {
            try connect(address)
        } catch {
            lastFailure = "\(address): \(SystemError.text(error.code))"
            tryNext()
        }
    }

    private func connect(_ address: SocketAddress) throws(SystemError) {
        let descriptor = try Descriptor.tcpSocket(family: address.family)
        descriptor.setConnectionOptions(userTimeoutMs: userTimeoutMs)
        let result = unsafe address.withSockaddr { unsafe Glibc.connect(descriptor.raw, $0, $1) }
        // connect(2): EINPROGRESS completes later, EINTR too (it goes on in the background).
        if result != 0, errno != EINPROGRESS, errno != EINTR { throw SystemError(call: "connect", code: errno) }
        self.descriptor = descriptor
        registration = try loop.register(descriptor.raw, for: .writable) { [self] _ in connected(address) }
        let leftNs = max(0, deadlineNs - loop.now.monotonicNs)
        share = loop.schedule(afterNs: leftNs / Int64(addresses.count + 1)) { [self] in
            share = nil
            lastFailure = "\(address): no answer in time"
            // The last address has until the overall deadline, which words the failure.
            if !addresses.isEmpty { tryNext() }
        }
    }

    private func connected(_ address: SocketAddress) {
        guard let descriptor else { return }
        let code = descriptor.takeError()
        guard code == 0 else {
            lastFailure = "\(address): \(SystemError.text(code))"
            return tryNext()
        }
        if let registration { loop.unregister(registration) }
        registration = nil
        let connected = Dialer.Connected(descriptor: descriptor, address: address)
        guard let proxy = target.proxy else { return finish(.success(connected)) }
        tunnel = ProxyTunnel(descriptor, to: target, proxy: proxy, loop: loop) { [self] failure in
            guard let failure else { return finish(.success(connected)) }
            finish(.failure(ChannelEnd(.proxyRefused, "\(name): \(failure)")))
        }
    }

    private func timedOut() {
        let text =
            switch (addresses.isEmpty && descriptor == nil && lastFailure.isEmpty, tunnel != nil) {
            case (true, _): ChannelEnd(.unresolved, "\(host): was not resolved in time")
            case (_, true): ChannelEnd(.proxyRefused, "\(name): no answer to CONNECT in time")
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
        drop()
        addresses = []
    }

    /// Lets go of the address being tried.
    private func drop() {
        if let registration { loop.unregister(registration) }
        registration = nil
        if let share { loop.cancel(share) }
        share = nil
        tunnel?.cancel()
        tunnel = nil
        descriptor = nil
    }
}

/// Carries a value of a loop's thread through another thread and back.
private struct OnLoop<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}
