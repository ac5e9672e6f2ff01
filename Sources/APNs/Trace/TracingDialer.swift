package import Network
package import TLS

/// Dials as another does, and keeps what passes on the connections in a trace. Loop's thread.
package final class TracingDialer: ChannelDialer {
    private let dialer: Dialer
    private let trace: Trace

    init(_ dialer: Dialer, _ trace: Trace) {
        self.dialer = dialer
        self.trace = trace
    }

    package func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate & SecureChannelDelegate
    ) -> any ByteChannel {
        TracedChannel(target, context, options, dialer, ConnectionTrace(trace, target), delegate)
    }
}

extension Dialer {
    /// Itself, or one that keeps a trace.
    package func traced(_ trace: Trace?) -> any ChannelDialer {
        trace.map { TracingDialer(self, $0) } ?? self
    }
}

/// A channel between a connection and the one that carries its bytes, which tells a trace of both ways.
private final class TracedChannel: ByteChannel, SecureChannelDelegate {
    private let trace: ConnectionTrace
    private var delegate: (any ByteChannelDelegate)?
    /// It keeps this object, its delegate, until it is closed.
    private var channel: SecureChannel?

    init(
        _ target: DialTarget, _ context: ClientContext, _ options: ChannelOptions, _ dialer: Dialer,
        _ trace: ConnectionTrace, _ delegate: any ByteChannelDelegate
    ) {
        self.trace = trace
        self.delegate = delegate
        channel = dialer.open(target, context: context, options: options, delegate: self, observer: trace)
    }

    var isOpen: Bool { channel?.isOpen ?? false }
    var peerAddress: SocketAddress? { channel?.peerAddress }
    var sentBytes: Int64 { channel?.sentBytes ?? 0 }
    var writtenBytes: Int64 { channel?.writtenBytes ?? 0 }
    var unacknowledgedBytes: Int { channel?.unacknowledgedBytes ?? 0 }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        // Told before it leaves, so that lines of frames stand before those of the records that carry them.
        let count = min(bytes.count, channel?.room ?? 0)
        trace.sent(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        return channel?.send(bytes) ?? 0
    }

    func flush() { channel?.flush() }
    func close() { channel?.close() }
    func abort() { channel?.abort() }

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        delegate?.channelOpened(applicationProtocol: applicationProtocol)
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        trace.received(bytes)
        delegate?.channelReceived(bytes)
    }

    func channelWritable(_ channel: SecureChannel) { delegate?.channelWritable() }

    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) {
        trace.closed(end)
        let delegate = self.delegate
        self.delegate = nil
        delegate?.channelClosed(end)
    }
}
