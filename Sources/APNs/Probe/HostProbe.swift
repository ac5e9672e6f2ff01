internal import HTTP2
package import Network
package import TLS

/// Completes a TLS and HTTP/2 handshake with a host without sending a request, for the command `check`.
package enum HostProbe {
    package struct Answer: Sendable, Equatable {
        package var address: String
        package var tlsVersion: String
        package var streams: Int
    }

    /// - Throws: `ChannelEnd`, whose text contains the host, the address and the cause.
    package static func run(_ target: DialTarget, context: ClientContext) throws(ChannelEnd) -> Answer {
        let own = try ProbeLoop(target.text)
        let probe = try ProbeSession<Answer>(ClientSession.Options(), target.text) { session, channel in
            while session.nextEvent() != nil {}
            guard session.isReady else { return nil }
            return .success(
                Answer(
                    address: channel.peerAddress?.description ?? "", tlsVersion: channel.tlsVersion ?? "",
                    streams: session.allowedStreams))
        }
        return try own.exchange(
            target, context, probe, timeoutNs: 10_000_000_000,
            timedOut: ChannelEnd("\(target.text): no HTTP/2 SETTINGS within 10 s"))
    }
}

/// A command's HTTP/2 connection. It passes bytes between channel and session until there is a result.
final class ProbeSession<Value>: ProbeDelegate {
    typealias Outcome = Result<Value, ChannelEnd>

    var channel: SecureChannel?
    private let session: ClientSession
    private let name: String
    private let onRead: (ClientSession, SecureChannel) throws(HTTP2Error) -> Outcome?
    private(set) var result: Outcome?

    /// - Parameters:
    /// - name: the host's name for error texts.
    /// - onRead: called after each read to take the session's events. Returns the result once there is one.
    init(
        _ options: ClientSession.Options, _ name: String,
        onRead: @escaping (ClientSession, SecureChannel) throws(HTTP2Error) -> Outcome?
    ) throws(ChannelEnd) {
        do throws(HTTP2Error) {
            session = try ClientSession(options: options)
        } catch {
            throw ChannelEnd("\(name): \(error)")
        }
        self.name = name
        self.onRead = onRead
    }

    func channelOpened(applicationProtocol: String?) { flush() }

    func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard let channel else { return }
        do throws(HTTP2Error) {
            try session.receive(bytes)
            if result == nil { result = try onRead(session, channel) }
        } catch {
            result =
                result
                ?? .failure(ChannelEnd("\(channel.peerAddress?.description ?? name): HTTP/2: \(error)"))
        }
        flush()
    }

    func channelWritable() { flush() }
    func channelClosed(_ end: ChannelEnd) { result = result ?? .failure(end) }

    private func flush() {
        if let channel { try? session.consumeOutput(channel.send(session.output)) }
    }
}
