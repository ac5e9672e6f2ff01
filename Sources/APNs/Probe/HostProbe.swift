internal import EventLoop
internal import HTTP2
package import Network
package import TLS

/// Completes a TLS and HTTP/2 handshake with a host, through its proxy and with its client certificate where it has
/// one, and sends no request: what `check` needs to know.
///
/// Runs a loop of its own on the calling thread, so it is not for a thread that has one.
package final class HostProbe: SecureChannelDelegate {
    package struct Answer: Sendable, Equatable {
        package var address: String
        package var tlsVersion: String
        /// SETTINGS_MAX_CONCURRENT_STREAMS.
        package var streams: Int
    }

    private let session: ClientSession
    private var result: Result<Answer, ChannelEnd>?

    private init() throws(HTTP2Error) { session = try ClientSession() }

    /// - Throws: `ChannelEnd`, whose text names host, address and cause.
    package static func run(
        host: String, port: UInt16, proxy: DialTarget.Proxy? = nil, context: ClientContext,
        timeoutNs: Int64 = 10_000_000_000
    ) throws(ChannelEnd) -> Answer {
        let name = DialTarget.text(host, port)
        let target = DialTarget(host: host, port: port, proxy: proxy)
        let loop: Loop
        let resolver: Resolver
        let probe: HostProbe
        do {
            loop = try Loop()
            resolver = try Resolver()
            probe = try HostProbe()
        } catch {
            throw ChannelEnd(.unreachable, "\(name): \(error)")
        }
        defer { resolver.stop() }
        let channel = SecureChannel(
            dialing: target, context: context, dialer: Dialer(loop: loop, resolver: resolver), loop: loop,
            delegate: probe)
        let deadlineNs = LoopTime.read().monotonicNs + timeoutNs
        while probe.result == nil {
            let leftNs = deadlineNs - LoopTime.read().monotonicNs
            if leftNs <= 0 {
                probe.result = .failure(
                    ChannelEnd(
                        .handshakeTimedOut, "\(name): no HTTP/2 SETTINGS within \(timeoutNs / 1_000_000) ms"))
            }
            loop.runOnce(timeoutNs: min(max(leftNs, 0), 100_000_000))
        }
        channel.abort()
        loop.runOnce()
        return try probe.result!.get()
    }

    package func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) { flush(channel) }

    package func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        do {
            try session.receive(bytes)
        } catch {
            return end(.failure(ChannelEnd(.tlsFailed, "\(channel.peerAddress?.description ?? ""): HTTP/2: \(error)")))
        }
        while session.nextEvent() != nil {}
        flush(channel)
        if session.isReady {
            end(
                .success(
                    Answer(
                        address: channel.peerAddress?.description ?? "", tlsVersion: channel.tlsVersion ?? "",
                        streams: session.allowedStreams)))
        }
    }

    package func channelWritable(_ channel: SecureChannel) { flush(channel) }

    package func channelClosed(_ channel: SecureChannel, _ closed: ChannelEnd) {
        end(.failure(closed))
    }

    private func end(_ result: Result<Answer, ChannelEnd>) {
        if self.result == nil { self.result = result }
    }

    private func flush(_ channel: SecureChannel) {
        let taken = channel.send(session.output)
        try? session.consumeOutput(taken)
    }
}
