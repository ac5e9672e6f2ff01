import EventLoop
import Network
import PushRecords

/// The device tokens that the feedback service will send. Thread-safe.
///
/// The list removes a token once a connection has sent it completely.
final class FeedbackList: Sendable {
    private struct State {
        var items: [(token: [UInt8], seconds: UInt32)] = []
        /// The total number of items sent and removed.
        var gone = 0
    }

    private let state = Guarded(State())

    /// - Parameter token: The token's bytes, 1 to 65,535.
    func add(token: [UInt8], atSeconds seconds: UInt32) { state.withLock { $0.items.append((token, seconds)) } }

    func add(_ item: SimulatorOptions.FeedbackItem) { add(token: item.token.bytes, atSeconds: item.seconds) }

    /// The items in wire format: for each, the time and the token length (both big-endian), then the token. `mark`
    /// identifies the last item. Pass it to `sent(upTo:)` when a connection has sent the bytes.
    var items: (bytes: [UInt8], mark: Int) {
        state.withLock { state in
            var bytes: [UInt8] = []
            for (token, seconds) in state.items {
                withUnsafeBytes(of: seconds.bigEndian) { bytes += $0 }
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
        state.withLock { $0.items.map { "\(hexText($0.token)) \($0.seconds)\n" }.joined() }
    }
}

/// A feedback service connection, which sends the whole list and closes. Confined to the loop's thread.
final class FeedbackConnection: AcceptedConnection {
    private let list: FeedbackList
    private let onClosed: () -> Void
    var channel: SecureChannel?
    private var bytes: [UInt8] = []
    private var at = 0
    private var mark = 0

    init(list: FeedbackList, onClosed: @escaping () -> Void) {
        self.list = list
        self.onClosed = onClosed
    }

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

    /// Removes the sent items from the list once the kernel has accepted all bytes.
    private func noteSent() {
        if channel?.writtenBytes == Int64(bytes.count) { list.sent(upTo: mark) }
    }

    func channelClosed(_ end: ChannelEnd) {
        noteSent()
        channel = nil
        onClosed()
    }
}
