package import TLS

/// A bidirectional byte stream to one peer, on one loop. `SecureChannel` implements it over TLS and TCP. Tests and
/// `apns-bench guard` have in-memory implementations. Use a channel on its loop's thread only. Call `close` or `abort`
/// before releasing a channel.
package protocol ByteChannel: AnyObject {
    var isOpen: Bool { get }
    /// The address of the peer or proxy, or `nil` if the channel has never been connected to one.
    var peerAddress: SocketAddress? { get }
    /// The total number of bytes that `send` has accepted. Compare it with `writtenBytes`.
    var sentBytes: Int64 { get }
    /// The number of bytes passed to `send` that the kernel has accepted. The peer cannot have read more. Remains valid
    /// after the channel has closed.
    var writtenBytes: Int64 { get }
    /// The number of bytes that the peer's kernel has not acknowledged. With TLS, they are bytes of TLS records.
    var unacknowledgedBytes: Int { get }
    /// Queues bytes. The channel writes them by the end of the turn, unless the kernel's buffer is full.
    ///
    /// - Returns: The number of bytes accepted, which is 0 if the channel is not open. If an open channel accepts fewer
    ///   bytes than it was given, `channelWritable` follows.
    @discardableResult
    func send(_ bytes: UnsafeRawBufferPointer) -> Int
    func flush()
    /// Closes gracefully after all queued bytes are sent. `channelClosed` follows.
    func close()
    /// Closes immediately and discards unsent bytes. `channelClosed` follows at the end of the turn.
    func abort()
}

/// The delegate of one channel. The channel calls it on the loop's thread, and never from within a method of the
/// channel that the delegate called. The delegate may call any method of the channel, including `close`. The channel
/// retains its delegate until `channelClosed`.
package protocol ByteChannelDelegate: AnyObject {
    /// The handshake is complete. Called once, before any other call except `channelClosed`.
    func channelOpened(applicationProtocol: String?)
    /// The plaintext from one read, usually many frames, has arrived. The bytes are valid during the call.
    func channelReceived(_ bytes: UnsafeRawBufferPointer)
    /// The channel has space again, after `send` did not accept all bytes or left the buffer nearly full.
    func channelWritable()
    /// The channel has closed for any reason. This is the last call to the delegate.
    func channelClosed(_ end: ChannelEnd)
}

extension ByteChannelDelegate {
    package func channelWritable() {}
}

/// A factory of channels. `Dialer` opens them over TLS and TCP.
package protocol ChannelDialer: AnyObject {
    /// Opens a channel. `channelOpened` or `channelClosed` follows, after this call returns. Call it on the loop's
    /// thread.
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

package struct ChannelOptions: Sendable {
    /// The maximum number of ciphertext bytes that the kernel has not accepted yet. At least 32 KiB.
    package var outputLimit = 256 * 1024
    /// The timeout for connecting, including name resolution, all addresses and the proxy.
    package var dialTimeoutNs: Int64 = 10_000_000_000
    package var handshakeTimeoutNs: Int64 = 10_000_000_000
    /// The time after `close` until unsent bytes are discarded.
    package var closeTimeoutNs: Int64 = 5_000_000_000
    /// TCP_USER_TIMEOUT: how long written data may remain unacknowledged.
    package var userTimeoutMs: Int32 = 15_000
    /// TCP_NOTSENT_LOWAT: how many unsent bytes the kernel buffers, or 0 for the kernel's default.
    package var unsentLimit: Int32 = 0

    package init() {}
}

/// The reason why a channel closed or never opened.
package struct ChannelEnd: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// `close`, `cut`, `abort` or `reset` was called.
        case closedHere
        /// The peer closed gracefully (close_notify).
        case closedByPeer
        /// The server rejected the client certificate. With TLS 1.3 it does so after the handshake.
        case certificateRefused
        /// The connection could not be opened, or was lost: for example, it was reset, or ended without close_notify.
        case failed
    }

    package var kind: Kind
    /// A text for logs with host, address and cause.
    package var text: String
    /// Whether the peer ended the stream of an open channel without close_notify, as some servers always do.
    package var isEndOfStream = false

    package init(_ text: String, kind: Kind = .failed) {
        self.kind = kind
        self.text = text
    }

    package var description: String { text }
}
