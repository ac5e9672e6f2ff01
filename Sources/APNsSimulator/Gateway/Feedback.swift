import EventLoop
import Network
import PushRecords

/// The device tokens that the feedback service will send. Thread-safe.
///
/// Each connection sends the whole list, then removes the tokens that it has sent.
final class FeedbackList: Sendable {
    private struct State {
        var items: [SimulatorOptions.FeedbackItem] = []
        /// The total number of items sent and removed.
        var gone = 0
    }

    private let state = Guarded(State())

    func add(_ item: SimulatorOptions.FeedbackItem) { state.withLock { $0.items.append(item) } }

    /// The items in wire format: for each, the time and the token length (both big-endian), then the token. `mark`
    /// identifies the last item. Pass `mark` to `sent(upTo:)` when a connection has sent the bytes.
    var items: (bytes: [UInt8], mark: Int) {
        state.withLock { state in
            var bytes: [UInt8] = []
            for item in state.items {
                let token = item.token.bytes
                withUnsafeBytes(of: item.seconds.bigEndian) { bytes += $0 }
                withUnsafeBytes(of: UInt16(token.count).bigEndian) { bytes += $0 }
                bytes += token
            }
            return (bytes, state.gone + state.items.count)
        }
    }

    /// Removes the items up to the mark, because a connection has sent them.
    func sent(upTo mark: Int) {
        state.withLock { state in
            // Another connection may already have sent and removed the items.
            guard mark > state.gone else { return }
            state.items.removeFirst(mark - state.gone)
            state.gone = mark
        }
    }

    /// The items as lines "token seconds", for the control endpoint.
    var text: String {
        state.withLock { $0.items.map { "\($0.token.hex) \($0.seconds)\n" }.joined() }
    }
}

/// A feedback service connection, which sends the whole list and closes. Confined to the loop's thread.
final class FeedbackConnection: AcceptedConnection {
    private let list: FeedbackList
    var channel: SecureChannel?
    var onClosed: (() -> Void)?
    private var bytes: [UInt8] = []
    private var at = 0
    private var mark = 0

    init(list: FeedbackList) { self.list = list }

    func close() { channel?.abort() }

    func channelOpened(applicationProtocol: String?) {
        guard let channel, channel.peerCertificate != nil else { return channel?.close() ?? () }
        (bytes, mark) = list.items
        send()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {}

    func channelWritable() { send() }

    private func send() {
        guard let channel else { return }
        while at < bytes.count {
            let taken = bytes.withUnsafeBytes { channel.send(UnsafeRawBufferPointer(rebasing: $0[at...])) }
            if taken == 0 { return }
            at += taken
        }
        channel.flush()
        noteSent()
        channel.close()
    }

    /// Removes the sent items from the list if the kernel has accepted all bytes.
    private func noteSent() {
        if channel?.writtenBytes == Int64(bytes.count) { list.sent(upTo: mark) }
    }

    func channelClosed(_ end: ChannelEnd) {
        noteSent()
        channel = nil
        onClosed?()
    }
}
