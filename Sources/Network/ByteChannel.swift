package import TLS

/// Bytes to and from one peer, in order, on one loop. `SecureChannel` is the one over TLS and TCP; tests and the guard
/// of `apns-bench` have one in memory. Loop's thread. Call `close` or `abort` before dropping one.
package protocol ByteChannel: AnyObject {
    var isOpen: Bool { get }
    /// The peer's address, once connected; `nil` where there is none.
    var peerAddress: SocketAddress? { get }
    /// Bytes that `send` has taken, in all. The mark to compare with `writtenBytes`.
    var sentBytes: Int64 { get }
    /// How many of them the kernel has; the peer cannot have read more. Also valid after the channel was closed.
    var writtenBytes: Int64 { get }
    /// Bytes that the kernel still keeps since the peer's has not acknowledged them; of TLS, those of its records.
    var unacknowledgedBytes: Int { get }
    /// Queues bytes; they leave at the end of the turn at the latest, unless the kernel takes no more.
    ///
    /// - Returns: how much was taken; 0 unless open. After less than all, `channelWritable` follows.
    @discardableResult
    func send(_ bytes: UnsafeRawBufferPointer) -> Int
    func flush()
    /// Closes in order: what was sent leaves before. `channelClosed` follows.
    func close()
    /// Closes at once, dropping what is unsent. `channelClosed` follows at the end of the turn.
    func abort()
}

/// The delegate of one channel. All calls come on the loop's thread, never from inside a call of the channel's own
/// methods, and may call any of them, including `close`. The channel keeps its delegate alive until `channelClosed`.
package protocol ByteChannelDelegate: AnyObject {
    /// The handshake is complete. Called once, before anything else but `channelClosed`.
    func channelOpened(applicationProtocol: String?)
    /// Plaintext from the peer, lent for the call: all that one read brought, usually many frames.
    func channelReceived(_ bytes: UnsafeRawBufferPointer)
    /// There is room again after `send` took less than all bytes or left little room.
    func channelWritable()
    /// Called once, last, whatever happened.
    func channelClosed(_ end: ChannelEnd)
}

extension ByteChannelDelegate {
    package func channelWritable() {}
}

/// Opens channels. `Dialer` opens them over TLS and TCP.
package protocol ChannelDialer: AnyObject {
    /// Ends in `channelOpened` or `channelClosed`, neither from inside this call. Loop's thread.
    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel
}

extension SecureChannel: ByteChannel {
    package var isOpen: Bool { state == .open }
}

extension Dialer: ChannelDialer {
    package func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate
    ) -> any ByteChannel {
        SecureChannel(
            dialing: target, context: context, dialer: self, loop: loop, options: options, delegate: delegate)
    }
}
