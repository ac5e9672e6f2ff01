internal import Delivery
internal import EventLoop
package import Network
package import PushRecords

/// Sends one request for a device token of zeros, as an app would: what APNs answers proves the credential or names its
/// fault, and no device gets anything.
///
/// Runs a loop of its own on the calling thread, so it is not for a thread that has one.
package final class CredentialProbe {
    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        package var reason: ReasonCode
        /// Apple's word, known or not; `nil`: none came.
        package var text: String?
    }

    private var capacity = 0
    private var result: Result<Answer, ChannelEnd>?
    private var isClosed = false
    /// What the connection said last.
    private var lastReason = "no answer"
    private let name: String

    private init(name: String) { self.name = name }

    /// - Parameter topic: a bundle id of the app's.
    /// - Throws: `ChannelEnd`, whose text names host and cause: no connection, or none that gave an answer.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topic: String, timeoutNs: Int64 = 15_000_000_000
    ) throws(ChannelEnd) -> Answer {
        let probe = CredentialProbe(name: "\(configuration.host):\(configuration.port)")
        var configuration = configuration
        configuration.minimumConnections = 1
        configuration.maximumConnections = 1
        let loop: Loop
        let resolver: Resolver
        do {
            loop = try Loop()
            resolver = try Resolver()
        } catch {
            throw ChannelEnd(.unreachable, "\(probe.name): \(error)")
        }
        defer { resolver.stop() }
        // Lent to the request, until its fate.
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 + 10 + topic.utf8.count, alignment: 1)
        defer { bytes.deallocate() }
        let transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop,
            dialer: Dialer(loop: loop, resolver: resolver)
        ) { probe.take($0) }
        let deadlineNs = LoopTime.read().monotonicNs + timeoutNs
        var isSent = false
        while probe.result == nil {
            loop.runOnce(timeoutNs: 50_000_000)
            if probe.capacity > 0, !isSent {
                isSent = true
                transport.handle(.send([request(topic: topic, in: bytes)]))
            }
            if LoopTime.read().monotonicNs >= deadlineNs {
                probe.end(
                    .failure(
                        ChannelEnd(
                            .lost, "\(probe.name): no answer within \(timeoutNs / 1_000_000) ms: \(probe.lastReason)")))
            }
        }
        // The request's fate comes before the end, unless its time is over anyway.
        transport.handle(.close)
        let closingNs = LoopTime.read().monotonicNs + 1_000_000_000
        while !probe.isClosed, LoopTime.read().monotonicNs < closingNs { loop.runOnce(timeoutNs: 50_000_000) }
        return try probe.result!.get()
    }

    private static func request(topic: String, in bytes: UnsafeMutableRawBufferPointer) -> OutgoingRequest {
        bytes.copyBytes(from: Array((String(repeating: "0", count: 64) + #"{"aps":{}}"# + topic).utf8))
        func part(_ range: Range<Int>) -> UnsafeRawBufferPointer {
            UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(bytes)[range])
        }
        return OutgoingRequest(
            id: NotificationID(slot: 0, generation: 0), token: part(0..<64), payload: part(64..<74),
            topic: part(74..<bytes.count), collapseID: UnsafeRawBufferPointer(start: nil, count: 0), apnsID: .none,
            expiration: 0, pushType: .alert, priority: 0)
    }

    private func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .fates(let batch):
                guard let fate = batch.fates.first else { continue }
                guard fate.kind == .answered else {
                    end(.failure(ChannelEnd(.lost, "\(name): no answer: \(reason(in: events))")))
                    continue
                }
                let text = fate.reasonText >= 0 ? batch.texts[Int(fate.reasonText)] : fate.reason.text?.description
                end(.success(Answer(status: fate.status, reason: fate.reason, text: text)))
            case .capacity(_, let requests): capacity = requests
            case .note(_, .connectFailed(_, let reason, _)): end(.failure(ChannelEnd(.unreachable, reason)))
            case .note(_, let note): lastReason = Self.reason(note) ?? lastReason
            case .closed: isClosed = true
            case .reachable, .connections: break
            }
        }
    }

    /// The fate comes before the note that says why.
    private func reason(in events: [TransportEvent]) -> String {
        for case .note(_, let note) in events { lastReason = Self.reason(note) ?? lastReason }
        return lastReason
    }

    private static func reason(_ note: TransportNote) -> String? {
        switch note {
        case .disconnected(_, let reason, _): reason
        case .goAway(_, let reason, _): "GOAWAY \(reason)"
        case .connected, .connectFailed, .providerTokenRenewed, .credentialFault, .warning: nil
        }
    }

    private func end(_ result: Result<Answer, ChannelEnd>) {
        if self.result == nil { self.result = result }
    }
}
