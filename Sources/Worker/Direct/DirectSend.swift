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
    /// What became of it, in a result's words.
    package struct Answer: Sendable, Equatable {
        /// As a worker says it in its result, but that a worker would try some again; `invalid`: it was not sent, since
        /// no app fits.
        package var outcome: Outcome
        /// `nil`: no app fits, and neither of the following is known.
        package var app: String?
        package var environment: PushEnvironment?
        package var apnsID: NotificationUUID?
        /// `nil`: the request names none.
        package var apnsTopic: String?
        /// Development only.
        package var apnsUniqueID: String?
        /// `nil`: it was not sent.
        package var status: Int?
        package var reason: Reason?
        /// In words, for people.
        package var detail: String?
        /// What a refusal means, and what to do.
        package var advice: String?
        /// Of a 410; milliseconds since the epoch.
        package var unregisteredAtMs: Int64?
        package var requestedAtMs: Int64
        package var sentAtMs: Int64?
        package var settledAtMs: Int64
    }

    /// There is no answer; one line that says why.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String

        init(_ description: String) { self.description = description }
    }

    /// Sends the notification of a record in payload form, which was checked.
    ///
    /// - Parameter onDelay: is told in a line what is waited for, after two seconds and then every ten.
    /// - Throws: `Failure` when the credential cannot be read, or APNs did not answer in time.
    package static func run(
        _ record: RequestRecord, with configuration: WorkerConfiguration, timeoutNs: Int64,
        onDelay: (String) -> Void = { _ in }
    ) throws(Failure) -> Answer {
        let requestedAtMs = LoopTime.read().wallMs
        let order: DirectOrder
        do throws(DirectOrder.Refusal) {
            order = try DirectOrder(record, configuration)
        } catch {
            switch error {
            case .failure(let failure): throw failure
            case .invalid(let reason, let detail, let topic):
                return Answer(
                    outcome: .invalid, apnsTopic: topic.isEmpty ? nil : topic, reason: reason, detail: detail,
                    requestedAtMs: requestedAtMs, settledAtMs: requestedAtMs)
            }
        }
        let app: LoadedApp
        do {
            app = try LoadedApp(order.settings)
        } catch {
            throw Failure("\(error)")
        }
        let place = DialTarget.text(order.settings.host, UInt16(clamping: order.settings.port))
        do {
            return Answer(
                try SingleRequest.send(
                    order.request, app.transportConfiguration(timeoutNs), token: ProviderTokens().token(of: app),
                    isPatient: true,
                    timeoutNs: timeoutNs,
                    onDelay: { onDelay("\(text(of: $0, at: place)) (\(timeoutNs / 1_000_000_000) s at most)") }),
                to: order, requestedAtMs: requestedAtMs)
        } catch {
            throw Failure(error, at: place)
        }
    }

    private static func text(of delay: Exchange.Delay, at place: String) -> String {
        switch delay {
        case .connection(let cause?): "still trying to reach \(place): \(cause)"
        case .connection(nil): "still waiting for a connection to \(place)"
        case .answer: "still waiting for the answer of \(place)"
        }
    }
}

extension DirectSend.Answer {
    fileprivate init(_ answer: SingleRequest.Answer, to order: DirectOrder, requestedAtMs: Int64) {
        let completion = answer.completion
        let reason = completion.reason.reason ?? answer.reasonText.map { Reason(rawValue: $0) }
        let status = Int(completion.status)
        self.init(
            outcome: Self.outcome(completion, answer.reasonText), app: order.settings.name,
            environment: order.settings.environment,
            apnsID: completion.apnsID == .none ? order.request.headers.apnsID : completion.apnsID,
            apnsTopic: order.topic, apnsUniqueID: answer.uniqueID, status: status, reason: reason,
            advice: status == 200
                ? nil : RefusalAdvice.text(reason, status: status, topic: order.topic, of: order.settings),
            unregisteredAtMs: completion.unregisteredAtMs == 0 ? nil : completion.unregisteredAtMs,
            requestedAtMs: requestedAtMs, sentAtMs: completion.sentAtMs, settledAtMs: answer.answeredAtMs)
    }

    private static func outcome(_ completion: Completion, _ reasonText: String?) -> Outcome {
        switch VerdictTable().row(reason: completion.reason, text: reasonText, status: completion.status).verdict {
        case .accept: .accepted
        case .unregister: .unregistered
        case .reject, .resend, .retry, .credentialFault: .rejected
        }
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
