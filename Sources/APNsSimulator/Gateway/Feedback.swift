import EventLoop
import Network

/// The device tokens that the feedback service has to tell of, for any thread.
///
/// A token leaves the list once it was sent whole; a connection that broke off before leaves it there.
final class FeedbackList: Sendable {
    private struct State {
        /// Items as they go out, one after the other, and where each one ends.
        var bytes: [UInt8] = []
        var ends: [Int] = []
        /// How many items went out and are gone, ever.
        var gone = 0
    }

    private let state = Guarded(State())

    /// - Parameter token: its bytes, 1 to 65,535.
    func add(token: [UInt8], atSeconds seconds: UInt32) {
        state.withLock { state in
            state.bytes += (0..<4).map { UInt8(truncatingIfNeeded: seconds >> UInt32(24 - $0 * 8)) }
            state.bytes += [UInt8(truncatingIfNeeded: token.count >> 8), UInt8(truncatingIfNeeded: token.count)]
            state.bytes += token
            state.ends.append(state.bytes.count)
        }
    }

    /// Throws one line when the token is none.
    func add(_ item: SimulatorOptions.FeedbackItem) throws(SimulatorError) {
        guard let token = item.bytes else {
            throw SimulatorError(SimulatorOptions.FeedbackItem.expectation(of: item.token))
        }
        add(token: token, atSeconds: item.seconds)
    }

    var count: Int { state.withLock { $0.ends.count } }

    /// What is to be sent now, and the mark to give to `sent` when it was.
    var items: (bytes: [UInt8], mark: Int) {
        state.withLock { ($0.bytes, $0.gone + $0.ends.count) }
    }

    /// Everything up to the mark was sent.
    func sent(upTo mark: Int) {
        state.withLock { state in
            let count = mark - state.gone
            // Another connection may have sent the same.
            guard count > 0 else { return }
            let size = state.ends[count - 1]
            state.bytes.removeFirst(size)
            state.ends = state.ends.dropFirst(count).map { $0 - size }
            state.gone = mark
        }
    }

    /// Lines "token seconds", for the control endpoint.
    var text: String {
        state.withLock { state in
            var start = 0
            return state.ends.map { end in
                let item = state.bytes[start..<end]
                start = end
                let seconds = item.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                return "\(item.dropFirst(6).withUnsafeBytes { hexText($0) }) \(seconds)\n"
            }.joined()
        }
    }
}

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
