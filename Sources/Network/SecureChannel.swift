package import EventLoop
package import TLS

/// Who hears of a channel. All calls come on the loop's thread, never from inside a call of the channel's own methods,
/// and may call any of them, `close` included. The channel keeps its delegate alive until `channelClosed`.
package protocol SecureChannelDelegate: AnyObject {
    /// The handshake is complete. Called once, before anything else but `channelClosed`.
    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?)
    /// Plaintext from the peer, lent for the call. All that one read brought, so usually many frames at once.
    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer)
    /// There is room again, after `send` took less than all of it or `room` was less than `lowRoom`.
    func channelWritable(_ channel: SecureChannel)
    /// Called once, last, whatever happened.
    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd)
}

package struct ChannelOptions: Sendable {
    /// Most bytes that wait in the channel: gathered plaintext and ciphertext the kernel did not take.
    package var outputLimit = 256 * 1024
    /// From the start to the connection, all addresses and the proxy included.
    package var dialTimeoutNs: Int64 = 10_000_000_000
    /// From the connection to the end of the handshake.
    package var handshakeTimeoutNs: Int64 = 10_000_000_000
    /// From `close` until it is dropped whatever is still unsent.
    package var closeTimeoutNs: Int64 = 5_000_000_000
    /// TCP_USER_TIMEOUT: written data not acknowledged for so long ends the connection.
    package var userTimeoutMs: Int32 = 15_000

    package init() {}
}

/// A TCP connection with TLS on one loop: dials or adopts, shakes hands, carries bytes both ways.
///
/// `send` gathers: plaintext becomes TLS records of 16 KB, which are written at the end of the turn in one system call.
/// Loop's thread.
package final class SecureChannel {
    /// Dials; ends in `channelOpened` or `channelClosed`.
    package init(
        dialing target: DialTarget, context: ClientContext, dialer: Dialer, loop: Loop,
        options: ChannelOptions = ChannelOptions(), delegate: any SecureChannelDelegate
    ) { fatalError("not yet") }

    /// Serves an accepted connection.
    package init(
        accepted: Listener.Accepted, context: ServerContext, loop: Loop, options: ChannelOptions = ChannelOptions(),
        delegate: any SecureChannelDelegate
    ) { fatalError("not yet") }

    package enum State: Hashable, Sendable {
        case dialing, handshaking, open
        /// `close` was called: what was sent drains, what comes is dropped.
        case closing
        case closed
    }

    package var state: State { fatalError("not yet") }
    /// The peer's address, once connected.
    package var peerAddress: SocketAddress? { fatalError("not yet") }
    /// The peer's certificate, once open.
    package var peerCertificate: CertificateDetails? { fatalError("not yet") }
    package var tlsVersion: String? { fatalError("not yet") }

    /// Queues plaintext; it leaves at the end of the turn at the latest.
    ///
    /// - Returns: how much was taken: all of it when it is not more than `room`, else `room`; 0 unless open.
    @discardableResult
    package func send(_ bytes: UnsafeRawBufferPointer) -> Int { fatalError("not yet") }

    /// How much `send` takes now.
    package var room: Int { fatalError("not yet") }
    /// Below this `room` counts as spent and `channelWritable` follows (twice a TLS record, or half the limit).
    package var lowRoom: Int { fatalError("not yet") }
    /// Plaintext `send` has taken, in all. The mark to compare with `writtenBytes`.
    package var sentBytes: Int64 { fatalError("not yet") }
    /// Plaintext of which the kernel has every byte of its TLS records: the peer cannot have seen anything beyond.
    /// Still right after the channel was closed.
    package var writtenBytes: Int64 { fatalError("not yet") }
    /// Ciphertext given to the kernel that the peer's kernel has not acknowledged (SIOCOUTQ).
    package var unacknowledgedBytes: Int { fatalError("not yet") }

    /// Encrypts and writes now what was gathered, instead of at the end of the turn.
    package func flush() { fatalError("not yet") }

    /// Stops reading from the socket (TCP's own flow control then stops the peer). What was read already is still
    /// delivered.
    package func pauseReading() { fatalError("not yet") }
    package func resumeReading() { fatalError("not yet") }

    /// Closes in order: no more is taken or delivered; what was sent drains, then close_notify. `channelClosed` follows.
    package func close() { fatalError("not yet") }
    /// Closes at once, dropping what is unsent. `channelClosed` follows in this turn.
    package func abort() { fatalError("not yet") }
    /// The same with a TCP reset (for simulated faults).
    package func reset() { fatalError("not yet") }
    /// Ends the TCP stream without close_notify, as a server that dies (for simulated faults).
    package func cut() { fatalError("not yet") }
}
