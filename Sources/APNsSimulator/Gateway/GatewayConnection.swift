import EventLoop
import Network

/// A gateway connection: its channel, its dialogue, and the pacing of reads and writes. Confined to the loop's thread.
final class GatewayConnection: AcceptedConnection {
    private let faults: GatewayFaults
    private let dialogue: GatewayDialogue
    private let loop: Loop
    var channel: SecureChannel?
    var onClosed: (() -> Void)?
    /// Whether the dialogue has ended and the connection is about to close.
    private var isEnding = false
    /// Bytes that a throttled connection has received but not processed.
    private var unread: ArraySlice<UInt8> = []

    init(service: GatewayService, loop: Loop) {
        faults = service.faults
        dialogue = GatewayDialogue(service: service)
        self.loop = loop
    }

    /// Resets the connection if it has the fault `silent`. Called when the gateway's faults have changed.
    func faultsChanged() { if faults.bytesPerSecond == 0 { channel?.reset() } }

    /// Closes the connection. If the gateway has accepted a notification, first sends status 10 with the identifier of
    /// the last one, as Apple's gateway did before maintenance.
    func close() {
        guard let channel, channel.state == .open, faults.bytesPerSecond > 0, !isEnding else {
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
        if faults.bytesPerSecond == 0 { channel.pauseReading() }
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        switch faults.bytesPerSecond {
        case 0: return
        case .max: receive(bytes)
        default:
            // The connection resumes reading once it has processed these bytes.
            channel?.pauseReading()
            let isProcessing = !unread.isEmpty
            unread += bytes
            if !isProcessing { processNext() }
        }
    }

    /// Processes the unread bytes at `faults.bytesPerSecond`.
    private func processNext() {
        let pieces = min(faults.bytesPerSecond, 10)
        loop.schedule(afterNs: 1_000_000_000 / Int64(pieces)) { [weak self] in
            guard let self, let channel else { return }
            let piece = unread.prefix(faults.bytesPerSecond / pieces)
            piece.withUnsafeBytes { receive($0) }
            unread = unread.dropFirst(piece.count)
            if unread.isEmpty { channel.resumeReading() } else { processNext() }
        }
    }

    private func receive(_ bytes: UnsafeRawBufferPointer) {
        dialogue.receive(bytes)
        guard dialogue.ending != nil, !isEnding else { return }
        isEnding = true
        if dialogue.answer != nil, faults.errorDelayNs > 0 {
            loop.schedule(afterNs: faults.errorDelayNs) { [weak self] in self?.finish() }
        } else {
            finish()
        }
    }

    // MARK: The end

    private func finish() {
        guard let channel else { return }
        guard let answer = dialogue.answer else {
            return dialogue.ending == .reset ? channel.reset() : channel.close()
        }
        if faults.isSplit { return sendSplit(answer[...]) }
        answer.withUnsafeBytes { _ = channel.send($0) }
        channel.close()
    }

    /// Sends each byte in a separate TLS record and system call.
    private func sendSplit(_ bytes: ArraySlice<UInt8>) {
        guard let channel else { return }
        bytes.prefix(1).withUnsafeBytes { _ = channel.send($0) }
        channel.flush()
        guard bytes.count > 1 else { return channel.close() }
        loop.schedule(afterNs: GatewayFaults.splitPauseNs) { [weak self] in self?.sendSplit(bytes.dropFirst()) }
    }
}
