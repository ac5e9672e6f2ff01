import EventLoop
import Network

/// One client of the gateway: its channel, its dialogue, and the pace of reading and writing. Loop's thread.
final class GatewayConnection: AcceptedConnection {
    private let manner: GatewayManner
    private let dialogue: GatewayDialogue
    private let loop: Loop
    private let onClosed: () -> Void
    var channel: SecureChannel?
    /// Whether the dialogue has ended and the connection is about to.
    private var isEnding = false
    /// Bytes that a slow connection has not processed.
    private var unread: ArraySlice<UInt8> = []

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

    func channelOpened(applicationProtocol: String?) {
        guard let channel, channel.peerCertificate != nil else { return channel?.close() ?? () }
        if manner.reading == .never { channel.pauseReading() }
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        switch manner.reading {
        case .never: return
        case .fast: receive(bytes)
        case .slow(let bytesPerSecond): readSlowly(bytes, bytesPerSecond)
        }
    }

    /// Processes the bytes at that rate, and reads nothing meanwhile.
    private func readSlowly(_ bytes: UnsafeRawBufferPointer, _ bytesPerSecond: Int) {
        let isReading = !unread.isEmpty
        unread += bytes
        channel?.pauseReading()
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

    func channelClosed(_ end: ChannelEnd) {
        self.channel = nil
        onClosed()
    }
}
