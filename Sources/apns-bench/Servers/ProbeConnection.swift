import EventLoop
import HTTP2
import Network

/// One connection of the probe server: APNs' own SETTINGS, 200 for every request. Loop's thread.
final class ProbeConnection: ServedConnection {
    var channel: SecureChannel?
    private let counts: ProbeCounts
    private let loop: Loop
    private var session: ServerSession?
    private var frames = FrameSizes()
    private var answer = HeaderList()

    init(_ counts: ProbeCounts, _ loop: Loop) {
        self.counts = counts
        self.loop = loop
        answer.append(":status", "200")
    }

    func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) {
        guard applicationProtocol == "h2", let session = try? ServerSession() else { return channel.close() }
        self.session = session
        flush()
    }

    func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        guard let session else { return }
        // Not the turn's clock: a turn may read for a while.
        let nowUs = Clocks.wallNs / 1_000
        frames.take(bytes) { type, size in
            // RFC 9113, 6.2 and 6.10.
            if type == 1 || type == 9 { counts.headerBytes += size }
        }
        do throws(HTTP2Error) {
            try session.receive(bytes)
            while let event = session.nextEvent() {
                guard case .request(let stream) = event else { continue }
                counts.requests += 1
                if let atUs = ResultBook.number(after: "\"at_us\":", in: session.body), atUs > PayloadText.untimed {
                    counts.note(delayUs: nowUs - atUs)
                }
                try session.respond(stream: stream, answer, body: UnsafeRawBufferPointer(start: nil, count: 0))
            }
        } catch {
            channel.abort()
        }
        flush()
    }

    private func flush() {
        guard let session, let channel else { return }
        while !session.output.isEmpty {
            let taken = channel.send(session.output)
            session.consumeOutput(taken)
            if taken == 0 { break }
        }
    }

    func channelWritable(_ channel: SecureChannel) { flush() }

    func channelClosed(_ channel: SecureChannel, _ end: ChannelEnd) {
        self.channel = nil
        session = nil
    }
}

/// Follows the frames in a client's bytes, however they are cut (RFC 9113, 4.1).
struct FrameSizes {
    /// `PRI * HTTP/2.0…`, before the first frame.
    private var skip = 24
    private var head: [UInt8] = []

    /// Tells type and payload size of each frame that begins in these bytes.
    mutating func take(_ bytes: UnsafeRawBufferPointer, _ frame: (_ type: UInt8, _ size: Int) -> Void) {
        var at = 0
        while at < bytes.count {
            let skipped = min(skip, bytes.count - at)
            skip -= skipped
            at += skipped
            while at < bytes.count, skip == 0 {
                head.append(bytes[at])
                at += 1
                guard head.count == 9 else { continue }
                let size = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
                frame(head[3], size)
                head.removeAll(keepingCapacity: true)
                skip = size
                break
            }
        }
    }
}
