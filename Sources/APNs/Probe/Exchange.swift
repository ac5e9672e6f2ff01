internal import EventLoop
package import Network
package import PushRecords
package import PushTransport

/// Sends requests one at a time over one connection, or over a new one after the connection is lost. Needs neither
/// Kafka nor a worker.
package final class Exchange {
    package struct Answer: Sendable {
        package var completion: Completion
        /// The text of Apple's reason, if `ReasonCode` has no name for it.
        package var reasonText: String?
        /// The response header `apns-unique-id` (development only).
        package var uniqueID: String?
        /// The wall-clock time of the answer in milliseconds since the epoch.
        package var answeredAtMs: Int64

        package var status: UInt16 { completion.status }
        package var reason: ReasonCode { completion.reason }
        /// The text of Apple's reason, or `nil` if the answer has none.
        package var text: String? { reasonText ?? completion.reason.text?.description }
    }

    /// The reason why there is no answer. Each case has the connection's last error with host and cause, if there was
    /// one.
    package enum Failure: Error, Sendable {
        /// No connection accepted the request.
        case notSent(String?)
        /// The request was sent, and no answer came before the timeout.
        case unanswered(String?)
        /// The connection was lost, or returned the request unprocessed.
        case lost(String?)
    }

    /// The time until `onDelay` is called first, and the interval of later calls.
    private static let firstDelayNs: Int64 = 2_000_000_000
    private static let laterDelayNs: Int64 = 10_000_000_000

    private let own: ProbeLoop
    private var transport: APNsTransport!
    private var id = NotificationID(number: 0, generation: 0)
    private var isPatient = false
    private var result: Result<Answer, Failure>?
    private var isClosed = false
    /// Whether the transport has the request and has not completed it.
    private var isUnderway = false
    private var capacity = 0
    private var trouble: String?

    package init(_ configuration: APNsConfiguration, token: ProviderToken?) throws(Failure) {
        var configuration = configuration
        configuration.connections.minimum = 1
        configuration.connections.maximum = 1
        do throws(ChannelEnd) {
            own = try ProbeLoop(configuration.connections.target.text)
        } catch {
            throw .notSent(error.text)
        }
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: own.loop, dialer: own.dialer
        ) { [weak self] events in self?.take(events) }
    }

    /// - Parameters:
    /// - request: its bytes must stay valid until `close` has returned. Each request needs a different id.
    /// - isPatient: whether to retry until the time runs out if no connection opens or a connection did not process the
    ///   request.
    /// - onDelay: receives, after two seconds and then every ten seconds, whether the request waits for an answer and
    ///   not for a connection, and the connection's last error.
    package func send(
        _ request: OutgoingRequest, isPatient: Bool, timeoutNs: Int64,
        onDelay: (_ isSent: Bool, _ cause: String?) -> Void = { _, _ in }
    ) throws(Failure) -> Answer {
        id = request.id
        self.isPatient = isPatient
        result = nil
        isUnderway = false
        let startNs = LoopTime.read().monotonicNs
        let deadlineNs = startNs + timeoutNs
        var sayNs = startNs + Self.firstDelayNs
        while true {
            if let result { return try result.get() }
            let nowNs = LoopTime.read().monotonicNs
            if nowNs >= deadlineNs { throw isUnderway ? .unanswered(trouble) : .notSent(trouble) }
            if nowNs >= sayNs {
                onDelay(isUnderway, trouble)
                sayNs += Self.laterDelayNs
            }
            if !isUnderway, capacity > 0 {
                isUnderway = true
                transport.handle(.send([request]))
            }
            own.loop.runOnce(timeoutNs: min(deadlineNs - nowNs, 100_000_000))
        }
    }

    /// Closes the connection, and waits up to a second for the close. Call it once, at the end.
    package func close() {
        // After `closed`, the transport no longer uses the bytes of a request without an answer.
        transport.handle(.close)
        _ = own.wait(timeoutNs: 1_000_000_000) { isClosed ? true : nil }
    }

    // MARK: The transport's events

    private func take(_ events: [TransportEvent]) {
        // Read the notes first, because the note with the reason for a failure is emitted after the completion.
        for case .note(_, let note) in events {
            switch note {
            case .connectFailed(_, let reason, _), .disconnected(_, let reason, _), .peerCloses(_, let reason, _),
                .credentialFault(let reason):
                trouble = reason
            case .noStreams(let host): trouble = "\(host) allows no streams on its connections"
            default: break
            }
        }
        for event in events {
            switch event {
            case .completions(let batch):
                for completion in batch.completions where completion.id == id { take(completion, batch.texts) }
            case .capacity(_, let requests): capacity = requests
            case .note(_, .connectFailed), .note(_, .credentialFault):
                if !isPatient { end(.failure(.notSent(trouble))) }
            case .closed: isClosed = true
            case .note, .reachable, .connections, .credentialRefused, .unanswered: break
            }
        }
    }

    private func take(_ completion: Completion, _ texts: [String]) {
        switch completion.kind {
        case .notProcessed where isPatient:
            // Send the request again over another connection.
            isUnderway = false
        case .notProcessed, .inDoubt: end(.failure(.lost(trouble)))
        case .answered:
            func text(_ index: Int32) -> String? { index >= 0 ? texts[Int(index)] : nil }
            end(
                .success(
                    Answer(
                        completion: completion, reasonText: text(completion.reasonText),
                        uniqueID: text(completion.uniqueIDText), answeredAtMs: LoopTime.read().wallMs)))
        }
    }

    private func end(_ result: Result<Answer, Failure>) { self.result = self.result ?? result }
}

/// Sends requests for a device token of zeros with an app's credential. The answer shows whether the credential is
/// valid for a topic, or what is wrong. No device receives anything.
package enum CredentialProbe {
    private static let timeoutNs: Int64 = 15_000_000_000

    /// Sends one request for each topic, one at a time. Usually all use one connection, because Apple treats frequent
    /// reconnects as an attack. If the connection ends after an answer, the unanswered request is sent once more over
    /// the next connection.
    ///
    /// - Parameter take: receives each answer, or the reason why there is none, with host and cause. Returns `false` to
    ///   stop.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topics: [String],
        take: (_ topic: String, Result<Exchange.Answer, ChannelEnd>) -> Bool
    ) {
        let deviceToken = UnsafeRawBufferPointer.lasting(String(repeating: "0", count: 64).utf8)
        let payload = UnsafeRawBufferPointer.lasting(#"{"aps":{}}"#.utf8)
        let exchange: Exchange
        do throws(Exchange.Failure) {
            exchange = try Exchange(configuration, token: token)
        } catch {
            if let first = topics.first { _ = take(first, .failure(end(error, of: configuration))) }
            return
        }
        defer { exchange.close() }
        var number: UInt32 = 0
        for topic in topics {
            let headers = ParsedRequest.Headers(topic: .lasting(topic.utf8), expiration: 0)
            func send() -> Result<Exchange.Answer, Exchange.Failure> {
                number += 1
                let request = OutgoingRequest(
                    id: NotificationID(number: number, generation: 0), token: deviceToken, payload: payload,
                    headers: headers)
                return Result { () throws(Exchange.Failure) in
                    try exchange.send(request, isPatient: false, timeoutNs: timeoutNs)
                }
            }
            var result = send()
            if case .failure(.lost) = result, topic != topics.first { result = send() }
            guard take(topic, result.mapError { end($0, of: configuration) }) else { return }
        }
    }

    private static func end(_ failure: Exchange.Failure, of configuration: APNsConfiguration) -> ChannelEnd {
        let name = configuration.connections.target.text
        switch failure {
        case .notSent(let reason): return ChannelEnd(reason ?? "\(name): no connection in time")
        case .lost(let reason): return ChannelEnd("\(name): no answer\(reason.map { ": \($0)" } ?? "")")
        case .unanswered(let reason):
            let time = "within \(timeoutNs / 1_000_000) ms"
            return ChannelEnd("\(name): no answer \(time)\(reason.map { ": \($0)" } ?? "")")
        }
    }
}
