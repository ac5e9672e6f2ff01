internal import EventLoop
package import Network
internal import TLS

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

/// Copies of bytes at addresses that stay valid as long as this object lives.
final class LentBytes {
    private var copies: [UnsafeMutableRawBufferPointer] = []

    func lend(_ bytes: some Collection<UInt8>) -> UnsafeRawBufferPointer {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
        copy.copyBytes(from: bytes)
        copies.append(copy)
        return UnsafeRawBufferPointer(copy)
    }

    deinit { for copy in copies { copy.deallocate() } }
}

/// Checks that a host or its proxy accepts TCP connections. The probe makes no TLS handshake, because the feedback
/// service would send its items after the handshake and then delete them.
package enum ReachProbe {
    /// - Returns: the reached address, which is the proxy's if there is one.
    /// - Throws: `ChannelEnd`, whose text contains the host, the address and the cause.
    package static func run(_ target: DialTarget) throws(ChannelEnd) -> String {
        let own = try ProbeLoop(target.text)
        var result: Result<String, ChannelEnd>?
        // The wait ends with a result, because the dial has a timeout.
        own.dialer.dial(target, timeoutNs: 10_000_000_000) { result = $0.map { "\($0.address)" } }
        return try own.wait(timeoutNs: 60_000_000_000) { result }!.get()
    }
}
