import EventLoop
import Glibc
import HTTP2
import Network
import TLS

/// One connection of a server of the bench's own, which owns its channel.
protocol ServedConnection: SecureChannelDelegate {
    var channel: SecureChannel? { get set }
}

/// Serves over TLS on any free port of the loopback address, which is printed first; after SIGTERM what was seen is
/// printed.
func serve(
    certificateDirectory: String, alpn: [String], accept: @escaping (Loop) -> any ServedConnection, seen: () -> String
) throws {
    guard let certificate = contents(of: certificateDirectory + "/server.pem"),
        let key = contents(of: certificateDirectory + "/server.key")
    else { throw BenchFailure("\(certificateDirectory) has no server.pem and server.key (apns-bench certificates)") }
    let context = try ServerContext(
        TLS.ServerOptions(identity: Identity(certificatePEM: certificate, keyPEM: key), alpn: alpn))
    let loop = try Loop()
    let listener = try Listener(host: "127.0.0.1", port: 0, loop: loop) { accepted in
        let connection = accept(loop)
        connection.channel = SecureChannel(accepted: accepted, context: context, loop: loop, delegate: connection)
    }
    let signals = try Signals([SIGTERM, SIGINT], loop: loop) { _ in loop.stop() }
    say("port \(listener.port)\n")
    loop.run()
    withExtendedLifetime((listener, signals)) {}
    say(seen())
}

/// `apns-bench certificates DIRECTORY`: writes the certificates of servers and of a client of the binary protocol, and
/// a key that the worker signs its provider tokens with.
func writeCertificates(to directory: String) throws {
    let authority = try CertificateAuthority(commonName: "apns-bench")
    let server = try authority.issueServer()
    let client = try authority.issueClient(bundleID: Traffic.bundleID)
    for (name, text) in [
        ("ca.pem", authority.certificatePEM), ("server.pem", server.certificatePEM), ("server.key", server.keyPEM),
        ("client.pem", client.certificatePEM), ("client.key", client.keyPEM),
        ("AuthKey.p8", try SelfSigned.privateKey()),
    ] {
        guard let stream = fopen("\(directory)/\(name)", "we") else {
            throw BenchFailure("\(directory)/\(name) cannot be written: \(String(cString: strerror(errno)))")
        }
        defer { fclose(stream) }
        fputs(text, stream)
    }
}

// MARK: The probe

/// `apns-bench probe-server DIRECTORY` answers 200 to every request, counts bytes of HEADERS, and notes when requests
/// came. It prints a name and a number a line.
func runProbeServer(_ directory: String) throws {
    let counts = ProbeCounts()
    try serve(
        certificateDirectory: directory, alpn: ["h2"], accept: { ProbeConnection(counts, $0) }, seen: { counts.text })
}

/// What came over all connections.
final class ProbeCounts {
    var requests = 0
    /// Of HEADERS and CONTINUATION frames, without the nine bytes that begin each.
    var headerBytes = 0
    /// From `at_us` in a payload to the request's last byte here, in microseconds; those that have one.
    private var delaysUs: [Int32] = []
    private static let delayLimit = 4_000_000

    func note(delayUs: Int64) {
        if delaysUs.count < Self.delayLimit { delaysUs.append(Int32(clamping: delayUs)) }
    }

    var text: String {
        let sorted = delaysUs.sorted()
        func at(_ share: Double) -> Int32 {
            let rank = Int((Double(sorted.count) * share).rounded(.up))
            return sorted.isEmpty ? 0 : sorted[min(sorted.count, max(1, rank)) - 1]
        }
        return """
            requests \(requests)
            header_bytes \(headerBytes)
            timed \(sorted.count)
            p50_us \(at(0.5))
            p99_us \(at(0.99))
            p999_us \(at(0.999))
            max_us \(sorted.last ?? 0)

            """
    }
}

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
                if let atUs = Self.sentUs(session.body) { counts.note(delayUs: nowUs - atUs) }
                try session.respond(stream: stream, answer, body: UnsafeRawBufferPointer(start: nil, count: 0))
            }
        } catch {
            channel.abort()
        }
        flush()
    }

    /// The 16 digits that end a timed payload, `{"aps":…,"at_us":1790000000000000}`; `nil` for every other one.
    static func sentUs(_ payload: UnsafeRawBufferPointer) -> Int64? {
        let name = Array("\"at_us\":".utf8)
        let start = payload.count - 17 - name.count
        guard start > 0, payload[start..<start + name.count].elementsEqual(name) else { return nil }
        return Int64(String(decoding: payload[(payload.count - 17)..<(payload.count - 1)], as: UTF8.self))
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

// MARK: The sink

/// `apns-bench gateway-sink DIRECTORY` is a gateway of the binary protocol that takes every notification and refuses a
/// token of zeros. It prints how many it has taken.
func runSinkServer(_ directory: String) throws {
    let count = SinkCount()
    try serve(
        certificateDirectory: directory, alpn: [], accept: { _ in SinkConnection(count) },
        seen: { "requests \(count.notifications)\n" })
}

/// What all connections took.
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

    /// - Returns: the identifier of a frame for a token of zeros, if one came. Nothing behind it is taken.
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
