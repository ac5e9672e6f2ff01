internal import APNs
package import Configuration
internal import Delivery
internal import EventLoop
internal import Network
package import PushRecords

/// Sends one notification straight to APNs, over a connection of its own: no Kafka, no worker, nothing published.
///
/// Runs a loop on the calling thread, so it is not for a thread that has one.
package enum DirectSend {
    /// What APNs said.
    package struct Answer: Sendable, Equatable {
        package var app: String
        package var environment: PushEnvironment
        package var apnsTopic: String
        package var apnsID: NotificationUUID
        /// Development only.
        package var apnsUniqueID: String?
        package var status: Int
        package var reason: Reason?
        /// Of a 410; milliseconds since the epoch.
        package var unregisteredAtMs: Int64?
        package var sentAtMs: Int64
        package var answeredAtMs: Int64
    }

    /// There is no answer; one line that says why.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }

    /// Sends the notification of a record in payload form, which was checked.
    ///
    /// - Throws: `Failure` when no app fits, its credential cannot be read, or APNs did not answer in time.
    package static func run(
        _ record: RequestRecord, with configuration: WorkerConfiguration, timeoutNs: Int64
    ) throws(Failure) -> Answer {
        let order = try DirectOrder(record, configuration)
        let app: LoadedApp
        let loop: Loop
        let resolver: Resolver
        do {
            app = try LoadedApp(order.settings)
            loop = try Loop()
            resolver = try Resolver()
        } catch {
            throw Failure("\(error)")
        }
        defer { resolver.stop() }
        let errand = Errand(order)
        var transportConfiguration = app.transportConfiguration(timeoutNs)
        transportConfiguration.minimumConnections = 1
        transportConfiguration.maximumConnections = 1
        let transport = APNsTransport(
            app: AppIndex(0), configuration: transportConfiguration, token: ProviderTokens().token(of: app), loop: loop,
            dialer: Dialer(loop: loop, resolver: resolver), emit: { errand.take($0) })
        let deadlineNs = loop.now.monotonicNs + timeoutNs
        while errand.fate == nil, loop.now.monotonicNs < deadlineNs {
            if errand.mayGo {
                errand.isUnderway = true
                transport.handle(.send([order.request]))
            }
            loop.runOnce(timeoutNs: min(max(deadlineNs - LoopTime.read().monotonicNs, 0), 100_000_000))
        }
        let answer = errand.answer(to: order, nowMs: LoopTime.read().wallMs)
        transport.handle(.close)
        let closedNs = LoopTime.read().monotonicNs + 1_000_000_000
        while !errand.isClosed, LoopTime.read().monotonicNs < closedNs { loop.runOnce(timeoutNs: 50_000_000) }
        return try answer.get()
    }
}

/// What a transport's events come to.
private final class Errand {
    private let place: String
    private(set) var fate: Fate?
    private(set) var isClosed = false
    /// Handed to the transport, and not given back.
    var isUnderway = false
    private var texts: [String] = []
    private var capacity = 0
    /// Why there is no connection.
    private var trouble: String?

    init(_ order: DirectOrder) { place = "\(order.settings.host):\(order.settings.port)" }

    var mayGo: Bool { !isUnderway && capacity > 0 && fate == nil }

    func take(_ events: [TransportEvent]) {
        for event in events {
            switch event {
            case .fates(let batch):
                for fate in batch.fates {
                    if fate.kind == .notProcessed {
                        // Once more, on another connection.
                        isUnderway = false
                    } else if self.fate == nil {
                        self.fate = fate
                        texts = batch.texts
                    }
                }
            case .capacity(_, let requests): capacity = requests
            case .note(_, .connectFailed(_, let reason, _)): trouble = reason
            case .note(_, .disconnected(_, let reason, _)), .note(_, .goAway(_, let reason, _)): trouble = reason
            case .closed: isClosed = true
            default: break
            }
        }
    }

    func answer(to order: DirectOrder, nowMs: Int64) -> Result<DirectSend.Answer, DirectSend.Failure> {
        let cause = trouble.map { ": \($0)" } ?? ""
        guard let fate else {
            return .failure(
                DirectSend.Failure(
                    isUnderway
                        ? "\(place) did not answer in time\(cause); it may have been delivered"
                        : "\(place) could not be reached in time\(cause)"))
        }
        guard fate.kind == .answered else {
            return .failure(
                DirectSend.Failure("the connection to \(place) was lost\(cause); it may have been delivered"))
        }
        func text(_ index: Int32) -> String? { index >= 0 ? texts[Int(index)] : nil }
        return .success(
            DirectSend.Answer(
                app: order.settings.name, environment: order.settings.environment, apnsTopic: order.topic,
                apnsID: fate.apnsID == .none ? order.request.apnsID : fate.apnsID,
                apnsUniqueID: text(fate.uniqueIDText), status: Int(fate.status),
                reason: fate.reason.reason ?? text(fate.reasonText).map { Reason(rawValue: $0) },
                unregisteredAtMs: fate.unregisteredAtMs == 0 ? nil : fate.unregisteredAtMs, sentAtMs: fate.sentAtMs,
                answeredAtMs: nowMs))
    }
}
