import EventLoop
import Network
import TLS

/// Stands still but where a part moves it.
final class SteppedClock {
    var now = LoopTime(monotonicNs: 1_000_000_000_000, wallMs: 1_790_000_000_000)
}

/// One byte channel in memory; what it sends is taken from it, and what is to come is put there.
final class PipeChannel: ByteChannel {
    var sent = Pipe(capacity: 1 << 20)
    var coming = Pipe(capacity: 1 << 20)
    private let delegate: any ByteChannelDelegate
    private(set) var isOpen = false
    private(set) var sentBytes: Int64 = 0
    private(set) var writtenBytes: Int64 = 0

    init(_ delegate: any ByteChannelDelegate) { self.delegate = delegate }

    var peerAddress: SocketAddress? { nil }
    var unacknowledgedBytes: Int { 0 }

    func open() {
        isOpen = true
        delegate.channelOpened(applicationProtocol: "h2")
    }

    func deliver() { coming.take { delegate.channelReceived($0) } }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        sent.add(bytes)
        sentBytes += Int64(bytes.count)
        return bytes.count
    }

    func flush() { writtenBytes = sentBytes }
    func close() { isOpen = false }
    func abort() { isOpen = false }
}

/// Has one channel, for one connection.
final class PipeDialer: ChannelDialer {
    private(set) var channel: PipeChannel!

    func open(
        _ target: DialTarget, context: ClientContext, options: ChannelOptions,
        delegate: any ByteChannelDelegate & SecureChannelDelegate
    ) -> any ByteChannel {
        channel = PipeChannel(delegate)
        return channel
    }
}

/// Bytes on their way from one side to the other, in memory that is kept.
struct Pipe: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private var count = 0

    init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 16) }

    deinit { bytes.deallocate() }

    mutating func add(_ more: UnsafeRawBufferPointer) {
        precondition(count + more.count <= bytes.count, "a turn makes less than the pipe holds")
        guard !more.isEmpty else { return }
        UnsafeMutableRawBufferPointer(rebasing: bytes[count...]).copyMemory(from: more)
        count += more.count
    }

    /// Lends all of it, which is then gone.
    mutating func take(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
        guard count > 0 else { return }
        let lent = UnsafeRawBufferPointer(rebasing: bytes[..<count])
        count = 0
        try body(lent)
    }
}
