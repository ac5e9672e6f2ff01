import Network

/// One client of the feedback service: it is sent all that there is, and the connection closes. Loop's thread.
final class FeedbackPeer: Peer {
    private let list: FeedbackList
    private let onClosed: () -> Void
    private var channel: SecureChannel?
    private var bytes: [UInt8] = []
    private var at = 0
    private var mark = 0
    private var isDone = false

    init(list: FeedbackList, onClosed: @escaping () -> Void) {
        self.list = list
        self.onClosed = onClosed
    }

    func adopt(_ channel: SecureChannel) { self.channel = channel }

    func leave() { channel?.abort() }

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        guard channel.peerCertificate != nil else { return channel.close() }
        (bytes, mark) = list.items
        send()
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {}

    func channelWritable(_ channel: SecureChannel) { send() }

    private func send() {
        guard let channel, !isDone else { return }
        while at < bytes.count {
            let taken = bytes.withUnsafeBytes { channel.send(UnsafeRawBufferPointer(rebasing: $0[at...])) }
            if taken == 0 { return }
            at += taken
        }
        isDone = true
        channel.flush()
        noteSent(channel)
        channel.close()
    }

    /// Sent is what the kernel has whole.
    private func noteSent(_ channel: SecureChannel) {
        if isDone, channel.writtenBytes == Int64(bytes.count) { list.sent(upTo: mark) }
    }

    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) {
        noteSent(channel)
        self.channel = nil
        onClosed()
    }
}
