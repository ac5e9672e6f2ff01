import EventLoop
import Network

/// One client of the gateway: its channel, the dialogue held over it, and the pace at which both go. Loop's thread.
final class GatewayConnection: BinaryConnection {
    private let manner: GatewayManner
    private let dialogue: GatewayDialogue
    private let loop: Loop
    private let onClosed: () -> Void
    private var channel: SecureChannel?
    /// What a late connection read with its handshake, until it begins.
    private var early: [UInt8] = []
    /// `ending` was seen, and is under way.
    private var isEnding = false
    /// When a slow connection reads again.
    private var readsAtNs: Int64 = 0
    private var isWaitingToRead = false

    init(service: GatewayService, loop: Loop, onClosed: @escaping () -> Void) {
        manner = service.manner
        dialogue = GatewayDialogue(service: service)
        self.loop = loop
        self.onClosed = onClosed
    }

    func adopt(_ channel: SecureChannel) { self.channel = channel }

    /// As Apple's before maintenance: status 10, if there is a notification to name.
    func leave() {
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
        case .slow(let bytesPerSecond):
            slowDown(bytes.count, bytesPerSecond, channel)
            receive(bytes)
        }
    }

    private func beginLate() {
        guard let channel else { return }
        readsAtNs = loop.now.monotonicNs
        early.withUnsafeBytes { receive($0) }
        early = []
        channel.resumeReading()
    }

    /// After so many bytes nothing is read for as long as they may take.
    private func slowDown(_ count: Int, _ bytesPerSecond: Int, _ channel: SecureChannel) {
        let ns = Int64(count) * 1_000_000_000 / Int64(bytesPerSecond)
        readsAtNs = max(readsAtNs, loop.now.monotonicNs) + ns
        channel.pauseReading()
        if !isWaitingToRead { waitToRead() }
    }

    private func waitToRead() {
        let leftNs = readsAtNs - loop.now.monotonicNs
        isWaitingToRead = leftNs > 0
        guard isWaitingToRead else {
            channel?.resumeReading()
            return
        }
        loop.schedule(afterNs: leftNs) { [weak self] in self?.waitToRead() }
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
