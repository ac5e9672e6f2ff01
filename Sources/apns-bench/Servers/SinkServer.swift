import Network

/// `apns-bench gateway-sink`: how many notifications it has taken.
let sinkServer = TLSServerCommand(
    name: "gateway-sink",
    about:
        "A gateway of the binary protocol that takes every notification, and refuses a token of zeros. Until SIGTERM.",
    alpn: [])

func runSinkServer(_ arguments: [String]) -> Int32 {
    let count = SinkCount()
    return sinkServer.run(arguments) { _ in
        SinkConnection(count)
    } seen: {
        "\(count.notifications)\n"
    }
}

/// Of all connections.
final class SinkCount { var notifications = 0 }

/// One connection of the sink. Loop's thread.
final class SinkConnection: ServedConnection {
    var channel: SecureChannel?
    private let count: SinkCount
    private var frames = SinkFrames()

    init(_ count: SinkCount) { self.count = count }

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {}

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        let before = frames.count
        let fence = frames.take(bytes)
        count.notifications += frames.count - before
        guard let fence else { return }
        let answer: [UInt8] = [8, 8] + (0..<4).map { UInt8(truncatingIfNeeded: fence >> UInt32(24 - $0 * 8)) }
        answer.withUnsafeBytes { _ = channel.send($0) }
        channel.close()
    }

    func channelWritable(_ channel: SecureChannel) {}

    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) { self.channel = nil }
}

/// Counts frames of `format: framed` (command 2), however they are cut, and looks at nothing but their length and how
/// their token begins. Source: Apple, "Binary Provider API", archived.
struct SinkFrames {
    /// Notifications; their identifiers are these numbers.
    private(set) var count = 0
    /// A frame's beginning, as far as it has come.
    private var head: [UInt8] = []
    /// Bytes behind it that have not come.
    private var skip = 0

    /// Command and length, the token's item and length, eight bytes of it.
    private static let headSize = 5 + 3 + 8

    /// - Returns: the identifier of a frame for a token of zeros, behind which nothing is taken; `nil`: there was none.
    mutating func take(_ bytes: UnsafeRawBufferPointer) -> UInt32? {
        var at = 0
        while at < bytes.count {
            let skipped = min(skip, bytes.count - at)
            skip -= skipped
            at += skipped
            let piece = min(Self.headSize - head.count, bytes.count - at)
            let begun: (size: Int, isFence: Bool)
            if piece == Self.headSize {
                begun = Self.read(UnsafeRawBufferPointer(rebasing: bytes[at..<at + piece]))
            } else {
                head.append(contentsOf: bytes[at..<at + piece])
                guard head.count == Self.headSize else { return nil }
                begun = head.withUnsafeBytes { Self.read($0) }
                head.removeAll(keepingCapacity: true)
            }
            at += piece
            if begun.isFence { return UInt32(truncatingIfNeeded: count + 1) }
            count += 1
            skip = begun.size - Self.headSize
        }
        return nil
    }

    private static func read(_ head: UnsafeRawBufferPointer) -> (size: Int, isFence: Bool) {
        let length = UInt32(bigEndian: head.loadUnaligned(fromByteOffset: 1, as: UInt32.self))
        return (5 + Int(length), head.loadUnaligned(fromByteOffset: 8, as: UInt64.self) == 0)
    }
}
