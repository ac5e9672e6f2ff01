/// Who hears of a channel. All calls come on the loop's thread, never from inside a call of the channel's own methods,
/// and may call any of them, `close` included. The channel keeps its delegate alive until `channelClosed`.
package protocol SecureChannelDelegate: AnyObject {
    /// The handshake is complete. Called once, before anything else but `channelClosed`.
    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?)
    /// Plaintext from the peer, lent for the call. All that one read brought, so usually many frames at once.
    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer)
    /// There is room again, after `send` took less than all of it or left less than `lowRoom`.
    func channelWritable(_ channel: SecureChannel)
    /// Called once, last, whatever happened.
    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd)
}

package struct ChannelOptions: Sendable {
    /// Most bytes that wait in the channel: gathered plaintext and ciphertext the kernel did not take. At least 32 KiB.
    package var outputLimit = 256 * 1024
    /// From the start to the connection, all addresses and the proxy included.
    package var dialTimeoutNs: Int64 = 10_000_000_000
    /// From the connection to the end of the handshake.
    package var handshakeTimeoutNs: Int64 = 10_000_000_000
    /// From `close` until it is dropped whatever is still unsent.
    package var closeTimeoutNs: Int64 = 5_000_000_000
    /// TCP_USER_TIMEOUT: written data not acknowledged for so long ends the connection.
    package var userTimeoutMs: Int32 = 15_000
    /// TCP_NOTSENT_LOWAT: bytes that the kernel takes beyond what it has sent; 0: as many as it has room for. Of a
    /// dialled one.
    package var unsentLimit: Int32 = 0

    package init() {}
}
