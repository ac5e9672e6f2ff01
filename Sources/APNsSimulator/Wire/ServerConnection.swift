internal import Bytes
import EventLoop
import HTTP2
import Network
import TLS

/// One HTTP/2 connection of the simulator: its channel and its dialogue. Confined to the loop's thread.
final class ServerConnection: AcceptedConnection {
    private let number: Int
    private let service: Service
    private let loop: Loop
    private var dialogue: Dialogue?
    private let managesChannels: Bool
    var channel: SecureChannel?
    var onClosed: (() -> Void)?
    /// Whether the simulator has paused reading, because the client reads its answers too slowly.
    private var isPaused = false
    private var random: SplitMix64
    /// Whether the next piece of a slow connection's output is scheduled.
    private var isPacing = false

    /// The pause between two pieces of a slow connection's output, in nanoseconds.
    static let pieceNs: Int64 = 2_000_000
    /// The size of pending output, in bytes, above which the simulator stops reading from the client.
    static let waitingLimit = 1 << 20

    /// - Parameter managesChannels: Whether the requests manage channels instead of sending notifications.
    init(number: Int, service: Service, loop: Loop, managesChannels: Bool = false) {
        self.number = number
        self.service = service
        self.loop = loop
        self.managesChannels = managesChannels
        random = SplitMix64(seed: UInt64(number))
    }

    func answer(_ due: DueAnswer) { dialogue?.answer(due) }

    /// Applies a fault to the whole connection.
    func inject(_ fault: Fault) { perform { dialogue throws(HTTP2Error) in try dialogue.inject(fault) } }

    /// Sends the current stream limit to the client.
    func announceStreams() { perform { dialogue throws(HTTP2Error) in try dialogue.announceStreams() } }

    private func perform(_ action: (Dialogue) throws(HTTP2Error) -> Void) {
        guard let dialogue, let channel else { return }
        do throws(HTTP2Error) { try action(dialogue) } catch { channel.abort() }
        flush()
    }

    /// Sends GOAWAY and closes the connection immediately, without sending the outstanding answers.
    func close() {
        inject(.goAway(.immediate()))
        // A silent or slow connection would send the GOAWAY late or not at all, so close its channel immediately.
        if dialogue.map({ $0.isSilent || $0.pace == .slowPieces }) ?? true { channel?.abort() }
    }

    /// Sends the dialogue's output, then ends the connection if the dialogue has ended.
    func flush() {
        guard let dialogue, let channel else { return }
        if dialogue.pace != .slowPieces {
            while !dialogue.sendable.isEmpty, sendNext(dialogue, channel) > 0 {}
        } else if !isPacing, !dialogue.sendable.isEmpty {
            _ = sendNext(dialogue, channel)
            isPacing = true
            loop.schedule(afterNs: Self.pieceNs) { [weak self] in
                self?.isPacing = false
                self?.flush()
            }
        }
        if dialogue.sendable.isEmpty { dialogue.consume(0) }
        finish(dialogue, channel, waiting: dialogue.sendable.count)
    }

    /// Sends all output, or a few bytes in a separate TLS record if `pace` demands it. Returns the number of bytes
    /// sent.
    private func sendNext(_ dialogue: Dialogue, _ channel: SecureChannel) -> Int {
        let isWhole = dialogue.pace == .whole
        let count = isWhole ? .max : Int.random(in: 1...7, using: &random)
        let taken = channel.send(UnsafeRawBufferPointer(rebasing: dialogue.sendable.prefix(count)))
        if !isWhole { channel.flush() }
        dialogue.consume(taken)
        return taken
    }

    private func finish(_ dialogue: Dialogue, _ channel: SecureChannel, waiting: Int) {
        if waiting == 0 || dialogue.ending == .reset {
            switch dialogue.ending {
            case .none: break
            case .close: channel.close()
            case .cut:
                channel.flush()
                channel.cut()
            case .reset: channel.reset()
            }
        }
        if waiting > Self.waitingLimit, !isPaused {
            isPaused = true
            channel.pauseReading()
        } else if isPaused, waiting < Self.waitingLimit / 2 {
            isPaused = false
            channel.resumeReading()
        }
    }

    // MARK: ByteChannelDelegate

    func channelOpened(applicationProtocol: String?) {
        // Do not check ALPN: APNs accepts clients without ALPN, such as aioapns, although RFC 9113 (3.2) requires it.
        guard let channel else { return }
        let certificate = channel.peerCertificate
        do throws(HTTP2Error) {
            dialogue = try Dialogue(
                service: service, number: number, managesChannels: managesChannels,
                hasCertificate: certificate != nil, certificateUserID: certificate?.userID)
        } catch {
            return channel.abort()
        }
        flush()
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        dialogue?.receive(bytes, now: loop.now)
        flush()
    }

    func channelWritable() { flush() }
}
