internal import EventLoop
internal import Network
package import PushTransport

/// Requests one after the other over one connection (and the ones after it, where that ends), without Kafka and without
/// a worker.
///
/// Runs a loop on the calling thread, so it is not for a thread that has one.
package final class Exchange {
    /// What APNs said.
    package struct Answer: Sendable {
        /// `.answered`.
        package var completion: Completion
        /// Apple's reason where it is not known by name; `nil`: it is, or there is none.
        package var reasonText: String?
        /// `apns-unique-id` (development only).
        package var uniqueID: String?
        /// Wall clock, in milliseconds since the epoch.
        package var answeredAtMs: Int64
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

    /// What is waited for, and what the connection said last.
    package enum Delay: Sendable {
        /// A connection that takes it.
        case connection(String?)
        /// The answer.
        case answer(String?)
    }

    private let loop: Loop
    private let resolver: Resolver
    private let errand = Errand()
    /// After so long a caller hears what is waited for, and then each time after that.
    private static let firstDelayNs: Int64 = 2_000_000_000
    private static let laterDelayNs: Int64 = 10_000_000_000
    private let transport: APNsTransport

    /// Dials at once.
    package init(_ configuration: APNsConfiguration, token: ProviderToken?) throws(Failure) {
        var configuration = configuration
        configuration.minimumConnections = 1
        configuration.maximumConnections = 1
        do {
            loop = try Loop()
            resolver = try Resolver()
        } catch {
            throw .notSent("\(error)")
        }
        transport = APNsTransport(
            app: AppIndex(0), configuration: configuration, token: token, loop: loop,
            dialer: Dialer(loop: loop, resolver: resolver),
            emit: { [errand] in errand.take($0) })
    }

    /// - Parameters:
    ///   - request: its bytes stay until `close` has returned. No two have the same id.
    ///   - isPatient: whether it tries again, until its time is over, when no connection can be made, or the connection
    ///     says that it did not process the request. Otherwise either is the end.
    ///   - onDelay: is told what is waited for, after two seconds and then every ten.
    package func send(
        _ request: OutgoingRequest, isPatient: Bool, timeoutNs: Int64, onDelay: (Delay) -> Void = { _ in }
    ) throws(Failure) -> Answer {
        errand.begin(request.id, isPatient: isPatient)
        let startNs = LoopTime.read().monotonicNs
        let deadlineNs = startNs + timeoutNs
        var sayNs = startNs + Self.firstDelayNs
        while errand.result == nil {
            if LoopTime.read().monotonicNs >= sayNs {
                onDelay(errand.delay)
                sayNs += Self.laterDelayNs
            }
            if errand.mayGo {
                errand.isUnderway = true
                transport.handle(.send([request]))
            }
            let leftNs = deadlineNs - LoopTime.read().monotonicNs
            if leftNs <= 0 { errand.timeIsOver() } else { loop.runOnce(timeoutNs: min(leftNs, 100_000_000)) }
        }
        return try errand.result!.get()
    }

    /// Waits a second at most for the connection to end. To be called once, last.
    package func close() {
        // A request's completion comes before the end, unless its time was over anyway.
        transport.handle(.close)
        let closedNs = LoopTime.read().monotonicNs + 1_000_000_000
        while !errand.isClosed, LoopTime.read().monotonicNs < closedNs { loop.runOnce(timeoutNs: 50_000_000) }
        resolver.stop()
    }

    /// What a transport's events come to.
    private final class Errand {
        private var id = NotificationID(number: 0, generation: 0)
        private var isPatient = false
        private(set) var result: Result<Answer, Failure>?
        private(set) var isClosed = false
        /// Handed to the transport, and not given back.
        var isUnderway = false
        private var capacity = 0
        /// What the connection said last.
        private var trouble: String?

        func begin(_ id: NotificationID, isPatient: Bool) {
            self.id = id
            self.isPatient = isPatient
            result = nil
            isUnderway = false
        }

        var mayGo: Bool { !isUnderway && capacity > 0 }

        var delay: Delay { isUnderway ? .answer(trouble) : .connection(trouble) }

        func take(_ events: [TransportEvent]) {
            // A completion comes before the note that says why.
            for case .note(_, let note) in events { heed(note) }
            for event in events {
                switch event {
                case .completions(let batch):
                    for completion in batch.completions where completion.id == id { take(completion, batch.texts) }
                case .capacity(_, let requests): capacity = requests
                case .note(_, .connectFailed): if !isPatient { end(.failure(.notSent(trouble))) }
                case .closed: isClosed = true
                case .note, .reachable, .connections, .credentialRefused, .unanswered: break
                }
            }
        }

        private func heed(_ note: TransportNote) {
            switch note {
            case .connectFailed(_, let reason, _), .disconnected(_, let reason, _): trouble = reason
            case .noStreams(let host): trouble = "\(host) allows no stream on its connections"
            case .peerCloses(_, let reason, _): trouble = reason
            case .connected, .answered, .silent, .windowTooShort, .windowLengthened, .providerTokenRenewed,
                .credentialFault, .replacing, .certificate, .frame:
                break
            }
        }

        private func take(_ completion: Completion, _ texts: [String]) {
            switch completion.kind {
            case .notProcessed where isPatient:
                // Once more, on another connection.
                isUnderway = false
            case .notProcessed, .inDoubt:
                end(.failure(.lost(trouble)))
            case .answered:
                func text(_ index: Int32) -> String? { index >= 0 ? texts[Int(index)] : nil }
                end(
                    .success(
                        Answer(
                            completion: completion, reasonText: text(completion.reasonText),
                            uniqueID: text(completion.uniqueIDText),
                            answeredAtMs: LoopTime.read().wallMs)))
            }
        }

        func timeIsOver() { end(.failure(isUnderway ? .unanswered(trouble) : .notSent(trouble))) }

        private func end(_ result: Result<Answer, Failure>) {
            if self.result == nil { self.result = result }
        }
    }
}
