internal import EventLoop
internal import Network
package import PushRecords
package import PushTransport

/// Sends requests one after the other over one connection and its successors, without Kafka and a worker.
package final class Exchange {
    package struct Answer: Sendable {
        package var completion: Completion
        /// Apple's reason where it is not known by name.
        package var reasonText: String?
        /// `apns-unique-id` (development only).
        package var uniqueID: String?
        /// Wall clock, in milliseconds since the epoch.
        package var answeredAtMs: Int64

        package var status: UInt16 { completion.status }
        package var reason: ReasonCode { completion.reason }
        /// Apple's word, known or not, or `nil` if none came.
        package var text: String? { reasonText ?? completion.reason.text?.description }
    }

    /// There is no answer. Each has the reason that the connection gave last, with host and cause, where there is one.
    package enum Failure: Error, Sendable {
        /// No connection took it.
        case notSent(String?)
        /// It was sent, and its time is over.
        case unanswered(String?)
        /// Its connection was lost, or gave it back.
        case lost(String?)
    }

    /// The phase that an exchange waits for, with the last error of its connection.
    package enum Delay: Sendable {
        /// A connection that takes the request.
        case connection(String?)
        case answer(String?)
    }

    /// How long a caller waits until `onDelay` is called, first and then each time after that.
    private static let firstDelayNs: Int64 = 2_000_000_000
    private static let laterDelayNs: Int64 = 10_000_000_000

    private let own: ProbeLoop
    private var transport: APNsTransport!
    private var id = NotificationID(number: 0, generation: 0)
    private var isPatient = false
    private var result: Result<Answer, Failure>?
    private var isClosed = false
    /// Handed to the transport, and not given back.
    private var isUnderway = false
    private var capacity = 0
    private var trouble: String?

    /// One request over a connection of its own; the parameters are those of `send`.
    package static func sendOne(
        _ request: OutgoingRequest, _ configuration: APNsConfiguration, token: ProviderToken?, isPatient: Bool,
        timeoutNs: Int64, onDelay: (Delay) -> Void = { _ in }
    ) throws(Failure) -> Answer {
        let exchange = try Exchange(configuration, token: token)
        defer { exchange.close() }
        return try exchange.send(request, isPatient: isPatient, timeoutNs: timeoutNs, onDelay: onDelay)
    }

    package init(_ configuration: APNsConfiguration, token: ProviderToken?) throws(Failure) {
        var configuration = configuration
        configuration.minimumConnections = 1
        configuration.maximumConnections = 1
        do throws(ChannelEnd) {
            own = try ProbeLoop(DialTarget.text(configuration.host, configuration.port))
        } catch {
            throw .notSent(error.text)
        }
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: own.loop, dialer: own.dialer
        ) { [weak self] events in self?.take(events) }
    }

    /// - Parameters:
    ///   - request: its bytes stay until `close` has returned. No two have the same id.
    ///   - isPatient: try again, until the time is over, if no connection can be made, or one did not process it.
    ///   - onDelay: is told what the caller waits for, after two seconds and then every ten.
    package func send(
        _ request: OutgoingRequest, isPatient: Bool, timeoutNs: Int64, onDelay: (Delay) -> Void = { _ in }
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
                onDelay(isUnderway ? .answer(trouble) : .connection(trouble))
                sayNs += Self.laterDelayNs
            }
            if !isUnderway, capacity > 0 {
                isUnderway = true
                transport.handle(.send([request]))
            }
            own.loop.runOnce(timeoutNs: min(deadlineNs - nowNs, 100_000_000))
        }
    }

    /// Waits a second at most for the connection to end. To be called once, last.
    package func close() {
        // A request's completion comes before the end, unless its time was over anyway.
        transport.handle(.close)
        _ = own.wait(timeoutNs: 1_000_000_000) { isClosed ? true : nil }
    }

    // MARK: The transport's events

    private func take(_ events: [TransportEvent]) {
        // A completion comes before the note that says why.
        for case .note(_, let note) in events {
            switch note {
            case .connectFailed(_, let reason, _), .disconnected(_, let reason, _), .peerCloses(_, let reason, _),
                .credentialFault(let reason):
                trouble = reason
            case .noStreams(let host): trouble = "\(host) allows no stream on its connections"
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
            // Once more, on another connection.
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
