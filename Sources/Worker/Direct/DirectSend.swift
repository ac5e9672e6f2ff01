package import APNs
package import Configuration
internal import Delivery
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
        /// What a refusal means, and what to do.
        package var advice: String?
        /// Of a 410; milliseconds since the epoch.
        package var unregisteredAtMs: Int64?
        package var sentAtMs: Int64
        package var answeredAtMs: Int64

        /// As a worker says it in its result, but that a worker would try some again.
        package var outcome: Outcome {
            switch VerdictTable().row(
                reason: reason.flatMap { ReasonCode($0.rawValue) } ?? .none,
                text: reason?.rawValue, status: UInt16(clamping: status)
            ).verdict {
            case .accept: .accepted
            case .unregister: .unregistered
            case .reject, .resend, .retry, .credentialFault: .rejected
            }
        }
    }

    /// There is no answer; one line that says why.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }

    /// Sends the notification of a record in payload form, which was checked; `trace` keeps what passes on the connection.
    ///
    /// - Throws: `Failure` when no app fits, its credential cannot be read, or APNs did not answer in time.
    package static func run(
        _ record: RequestRecord, with configuration: WorkerConfiguration, timeoutNs: Int64, trace: TraceFile? = nil
    ) throws(Failure) -> Answer {
        let order = try DirectOrder(record, configuration)
        let app: LoadedApp
        do {
            app = try LoadedApp(order.settings)
        } catch {
            throw Failure("\(error)")
        }
        var transport = app.transportConfiguration(timeoutNs)
        transport.trace = trace.map { Trace($0, app: order.settings.name) }
        do {
            return Answer(
                try SingleRequest.send(
                    order.request, transport, token: ProviderTokens().token(of: app),
                    isPatient: true, timeoutNs: timeoutNs), to: order)
        } catch {
            throw Failure(error, at: DialTarget.text(order.settings.host, UInt16(clamping: order.settings.port)))
        }
    }
}

extension DirectSend.Answer {
    fileprivate init(_ answer: SingleRequest.Answer, to order: DirectOrder) {
        let completion = answer.completion
        let reason = completion.reason.reason ?? answer.reasonText.map { Reason(rawValue: $0) }
        let status = Int(completion.status)
        self.init(
            app: order.settings.name, environment: order.settings.environment, apnsTopic: order.topic,
            apnsID: completion.apnsID == .none ? order.request.headers.apnsID : completion.apnsID,
            apnsUniqueID: answer.uniqueID,
            status: status, reason: reason,
            advice: status == 200
                ? nil : RefusalAdvice.text(reason, status: status, topic: order.topic, of: order.settings),
            unregisteredAtMs: completion.unregisteredAtMs == 0 ? nil : completion.unregisteredAtMs,
            sentAtMs: completion.sentAtMs,
            answeredAtMs: answer.answeredAtMs)
    }
}

extension DirectSend.Failure {
    fileprivate init(_ failure: SingleRequest.Failure, at place: String) {
        func cause(_ reason: String?) -> String { reason.map { ": \($0)" } ?? "" }
        switch failure {
        case .notSent(let reason): self.init("\(place) could not be reached in time\(cause(reason))")
        case .unanswered(let reason):
            self.init("\(place) did not answer in time\(cause(reason)); it may have been delivered")
        case .lost(let reason):
            self.init("the connection to \(place) was lost\(cause(reason)); it may have been delivered")
        }
    }
}
