internal import EventLoop
internal import HTTP2
package import Network
package import TLS

/// Probes of a host for the command `check`. Their errors are `ChannelEnd`s, whose text contains the host, the address
/// and the cause.
package enum HostProbe {
    package struct Answer: Sendable, Equatable {
        package var address: String
        package var tlsVersion: String
        package var streams: Int
    }

    /// Checks that a host or its proxy accepts TCP connections. Makes no TLS handshake, because the feedback service
    /// would send its items after the handshake and then delete them. Returns the reached address, which is the proxy's
    /// if there is one.
    package static func reach(_ target: DialTarget) throws(ChannelEnd) -> String {
        let own = try ProbeLoop(target.text)
        var result: Result<String, ChannelEnd>?
        // The wait ends with a result, because the dial has a timeout.
        own.dialer.dial(target, timeoutNs: 10_000_000_000) { result = $0.map { "\($0.address)" } }
        return try own.wait(timeoutNs: 60_000_000_000) { result }!.get()
    }

    /// Completes a TLS and HTTP/2 handshake without sending a request.
    package static func run(_ target: DialTarget, context: ClientContext) throws(ChannelEnd) -> Answer {
        let own = try ProbeLoop(target.text)
        let probe = try ProbeSession<Answer>(ClientSession.Options(), target.text) { session, channel in
            while session.nextEvent() != nil {}
            guard session.isReady else { return nil }
            return .success(
                Answer(
                    address: channel.peerAddress?.description ?? "", tlsVersion: channel.tlsVersion ?? "",
                    streams: session.allowedStreams))
        }
        return try own.exchange(
            target, context, probe, timeoutNs: 10_000_000_000,
            timedOut: ChannelEnd("\(target.text): no HTTP/2 SETTINGS within 10 s"))
    }
}

/// A command's HTTP/2 connection. It passes bytes between channel and session until there is a result.
final class ProbeSession<Value>: ProbeDelegate {
    typealias Outcome = Result<Value, ChannelEnd>

    var channel: SecureChannel?
    private let session: ClientSession
    private let name: String
    private let onRead: (ClientSession, SecureChannel) throws(HTTP2Error) -> Outcome?
    private(set) var result: Outcome?

    /// - Parameters:
    /// - name: the host's name for error texts.
    /// - onRead: called after each read to take the session's events. Returns the result once there is one.
    init(
        _ options: ClientSession.Options, _ name: String,
        onRead: @escaping (ClientSession, SecureChannel) throws(HTTP2Error) -> Outcome?
    ) throws(ChannelEnd) {
        do throws(HTTP2Error) {
            session = try ClientSession(options: options)
        } catch {
            throw ChannelEnd("\(name): \(error)")
        }
        self.name = name
        self.onRead = onRead
    }

    func channelOpened(applicationProtocol: String?) { flush() }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard let channel else { return }
        do throws(HTTP2Error) {
            try session.receive(bytes)
            if result == nil { result = try onRead(session, channel) }
        } catch {
            result =
                result
                ?? .failure(ChannelEnd("\(channel.peerAddress?.description ?? name): HTTP/2: \(error)"))
        }
        flush()
    }

    func channelWritable() { flush() }
    func channelClosed(_ end: ChannelEnd) { result = result ?? .failure(end) }

    private func flush() {
        if let channel { try? session.consumeOutput(channel.send(session.output)) }
    }
}

/// An event loop on the calling thread, for a command that waits for one answer. The thread must not have another loop.
final class ProbeLoop {
    let loop: Loop
    let dialer: Dialer

    /// - Parameter name: the host's name for error texts.
    init(_ name: String) throws(ChannelEnd) {
        do {
            loop = try Loop()
        } catch {
            throw ChannelEnd("\(name): \(error)")
        }
        dialer = Dialer(loop: loop)
    }

    /// Runs the loop until `value` returns a value, and returns that value. Returns `nil` after the timeout.
    func wait<Value>(timeoutNs: Int64, for value: () -> Value?) -> Value? {
        let deadlineNs = LoopTime.read().monotonicNs + timeoutNs
        while true {
            if let value = value() { return value }
            let leftNs = deadlineNs - LoopTime.read().monotonicNs
            guard leftNs > 0 else { return nil }
            loop.runOnce(timeoutNs: min(leftNs, 50_000_000))
        }
    }

    /// Dials, waits until the delegate has a result, and closes the connection.
    func exchange<Delegate: ProbeDelegate>(
        _ target: DialTarget, _ context: ClientContext, _ delegate: Delegate, timeoutNs: Int64, timedOut: ChannelEnd
    ) throws(ChannelEnd) -> Delegate.Value {
        let channel = SecureChannel(
            dialing: target, context: context, dialer: dialer, loop: loop, delegate: delegate)
        delegate.channel = channel
        let result = wait(timeoutNs: timeoutNs) { delegate.result } ?? .failure(timedOut)
        channel.abort()
        loop.runOnce()
        return try result.get()
    }
}

/// The delegate of a probe's connection. `ProbeLoop.exchange` sets `channel` and waits for `result`.
protocol ProbeDelegate: ByteChannelDelegate {
    associatedtype Value

    var channel: SecureChannel? { get set }
    var result: Result<Value, ChannelEnd>? { get }
}
