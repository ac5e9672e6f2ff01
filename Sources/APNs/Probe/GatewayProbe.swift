internal import EventLoop
package import Network
internal import PushRecords
package import TLS

/// Completes a TLS handshake with a gateway of the binary protocol, with the client certificate and through the proxy.
/// Then it waits briefly, because a gateway may refuse the certificate by closing the connection after the handshake.
/// It can also send one notification for a token of zeros. The error answer to it proves that the gateway reads
/// notifications and reports errors.
package final class GatewayProbe: ProbeDelegate {
    package struct Answer: Sendable, Equatable {
        package var address: String
        package var tlsVersion: String
        /// The gateway's status for the token of zeros, or `nil` if the gateway sent none in time or the probe sent no
        /// notification.
        package var status: UInt8?
    }

    /// How long the probe waits for the gateway to close the connection, if it sends no notification.
    private static let patienceNs: Int64 = 500_000_000
    /// How long the probe waits for the answer to its notification.
    private static let answerNs: Int64 = 5_000_000_000

    var channel: SecureChannel?
    private let format: BinaryConfiguration.Format?
    private var reader = GatewayAnswerReader()
    private var openedNs: Int64?
    private var answer: Answer?
    private var end: Result<Answer, ChannelEnd>?

    private init(_ format: BinaryConfiguration.Format?) { self.format = format }

    /// - Parameter asking: the format in which to send the notification, or `nil` to send nothing.
    /// - Throws: `ChannelEnd`, whose text contains the host, the address and the cause.
    package static func run(
        _ target: DialTarget, context: ClientContext, asking format: BinaryConfiguration.Format?
    ) throws(ChannelEnd) -> Answer {
        try ProbeLoop(target.text).exchange(
            target, context, GatewayProbe(format), timeoutNs: 10_000_000_000,
            timedOut: ChannelEnd("\(target.text): no TLS connection within 10 s"))
    }

    /// The result. It is a success if the gateway answered, or if the connection stayed open for `patienceNs`
    /// (`answerNs` with a notification).
    var result: Result<Answer, ChannelEnd>? {
        if let end { return end }
        guard let openedNs, let answer else { return nil }
        let patienceNs = format == nil ? Self.patienceNs : Self.answerNs
        return LoopTime.read().monotonicNs - openedNs >= patienceNs ? .success(answer) : nil
    }

    package func channelOpened(applicationProtocol: String?) {
        guard let channel else { return }
        openedNs = LoopTime.read().monotonicNs
        answer = Answer(
            address: channel.peerAddress?.description ?? "", tlsVersion: channel.tlsVersion ?? "", status: nil)
        guard let format else { return }
        var frames = BinaryFrames()
        _ = frames.append(.fence(identifier: 1), format)
        channel.send(frames.output)
    }

    package func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        guard let found = reader.read(bytes), var answer, end == nil else { return }
        switch found {
        case .answer(let said):
            answer.status = said.status
            end = .success(answer)
        case .garbage(let byte):
            end = .failure(
                ChannelEnd(
                    "\(answer.address): the host sent a byte \(byte), which is not an answer of the binary protocol; "
                        + "check that host and port are not those of the feedback service or of HTTP/2"))
        }
    }

    package func channelClosed(_ end: ChannelEnd) { self.end = self.end ?? .failure(end) }
}
