import EventLoop
import Network

/// One client of the gateway: its channel, its dialogue, and the pace of reading and writing. Loop's thread.
final class GatewayConnection: AcceptedConnection {
    private let manner: GatewayManner
    private let dialogue: GatewayDialogue
    private let loop: Loop
    private let onClosed: () -> Void
    var channel: SecureChannel?
    /// Bytes that a late connection received with its handshake, until it begins to read.
    private var early: [UInt8] = []
    /// Whether the dialogue has ended and the connection is about to.
    private var isEnding = false
    /// Bytes that a slow connection has not processed.
    private var unread: ArraySlice<UInt8> = []
    /// When a late connection began to read; 0: not yet.
    private var readsAtNs: Int64 = 0

    init(service: GatewayService, loop: Loop, onClosed: @escaping () -> Void) {
        manner = service.manner
        dialogue = GatewayDialogue(service: service)
        self.loop = loop
        self.onClosed = onClosed
    }

    /// Resets a connection that reads nothing, since its fault is over.
    func faultsChanged() { if manner.reading == .never { channel?.reset() } }

    /// Sends status 10, as Apple's gateway did before maintenance, if there is a notification to name.
    func close() {
        guard let channel, channel.state == .open, manner.reading != .never, !isEnding else {
            channel?.abort()
            return
        }
        dialogue.shutDown()
        isEnding = true
        finish()
    }

    // MARK: Reading

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        guard channel.peerCertificate != nil else { return channel.close() }
        switch manner.reading {
        case .fast, .slow: break
        case .never: channel.pauseReading()
        case .late:
            channel.pauseReading()
            loop.schedule(afterNs: GatewayManner.lateNs) { [weak self] in self?.beginLate() }
        }
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        switch manner.reading {
        case .never: return
        case .late where readsAtNs == 0: early.append(contentsOf: bytes)
        case .fast, .late: receive(bytes)
        case .slow(let bytesPerSecond): readSlowly(bytes, bytesPerSecond, channel)
        }
    }

    private func beginLate() {
        guard let channel else { return }
        readsAtNs = loop.now.monotonicNs
        early.withUnsafeBytes { receive($0) }
        early = []
        channel.resumeReading()
    }

    /// Processes the bytes at that rate, and reads nothing meanwhile.
    private func readSlowly(_ bytes: UnsafeRawBufferPointer, _ bytesPerSecond: Int, _ channel: SecureChannel) {
        let isReading = !unread.isEmpty
        unread += bytes
        channel.pauseReading()
        if !isReading { readOn(bytesPerSecond) }
    }

    private func readOn(_ bytesPerSecond: Int) {
        let pieces = min(bytesPerSecond, 10)
        loop.schedule(afterNs: 1_000_000_000 / Int64(pieces)) { [weak self] in
            guard let self, let channel else { return }
            let piece = unread.prefix(bytesPerSecond / pieces)
            piece.withUnsafeBytes { receive($0) }
            unread = unread.dropFirst(piece.count)
            if unread.isEmpty { channel.resumeReading() } else { readOn(bytesPerSecond) }
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        dialogue.receive(bytes)
        guard let ending = dialogue.ending, !isEnding else { return }
        isEnding = true
        if case .answer = ending, manner.errorDelayNs > 0 {
            loop.schedule(afterNs: manner.errorDelayNs) { [weak self] in self?.finish() }
        } else {
            finish()
        }
    }

    // MARK: The end

    private func finish() {
        guard let channel, let ending = dialogue.ending else { return }
        switch ending {
        case .close: channel.close()
        case .reset: channel.reset()
        case .answer(let answer) where manner.isSplit: sendSplit(answer.bytes[...])
        case .answer(let answer):
            answer.bytes.withUnsafeBytes { _ = channel.send($0) }
            channel.close()
        }
    }

    /// A TLS record and a system call for each byte.
    private func sendSplit(_ bytes: ArraySlice<UInt8>) {
        guard let channel else { return }
        bytes.prefix(1).withUnsafeBytes { _ = channel.send($0) }
        channel.flush()
        guard bytes.count > 1 else { return channel.close() }
        loop.schedule(afterNs: GatewayManner.splitPauseNs) { [weak self] in self?.sendSplit(bytes.dropFirst()) }
    }

    func channelWritable(_ channel: SecureChannel) {}

    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) {
        self.channel = nil
        onClosed()
    }
}
