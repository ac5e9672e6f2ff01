import APNsSimulator
import EventLoop
import Network
import TLS

/// A feedback service that sends scripted bytes and then ends in a scripted way.
final class ScriptedFeedback: ByteChannelDelegate {
    enum Ending: CaseIterable {
        /// `closes` sends a TLS close alert, `cuts` only closes the socket.
        case closes, cuts
        case resets
        /// Keeps the connection open.
        case staysSilent
    }

    private let bytes: [UInt8]
    private let ending: Ending
    private var listener: Listener?
    private var channel: SecureChannel?

    init(_ bytes: [UInt8], then ending: Ending, _ credentials: SimulatorCredentials, loop: Loop) throws {
        self.bytes = bytes
        self.ending = ending
        let context = try ServerContext(identity: credentials.authority.issueServer().identity(), alpn: [])
        listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { [unowned self] accepted in
            channel = SecureChannel(accepted: accepted, context: context, loop: loop, delegate: self)
        }
    }

    var port: UInt16 { listener?.port ?? 0 }

    func stop() {
        listener?.close()
        channel?.abort()
    }

    func channelOpened(applicationProtocol: String?) {
        guard let channel else { return }
        _ = bytes.withUnsafeBytes { channel.send($0) }
        channel.flush()
        switch ending {
        case .closes: channel.close()
        case .cuts: channel.cut()
        case .resets: channel.reset()
        case .staysSilent: break
        }
    }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {}
    func channelClosed(_ end: ChannelEnd) { self.channel = nil }
}
