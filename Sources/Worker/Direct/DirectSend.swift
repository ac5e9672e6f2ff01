internal import APNs
package import Configuration
internal import Delivery
internal import EventLoop
package import Kafka
internal import Network
package import PushRecords

/// Sends one notification directly to APNs over a new connection, without Kafka or a worker, and publishes no records.
///
/// `run` uses an event loop on the calling thread. Do not call `run` on a thread that already runs a loop.
package enum DirectSend {
    /// The result of a direct send, with advice if APNs refused the notification. Unlike a worker's result, the result
    /// names no request record. The outcome `invalid` means that no app matched and nothing was sent.
    package struct Answer: Sendable {
        package var result: DeliveryResult
        package var advice: String?
    }

    /// Sends the notification of a validated record in payload form.
    ///
    /// - Parameter onDelay: A function that is called with the reason for the wait, after two seconds and then every
    ///   ten seconds.
    package static func run(
        _ record: RequestRecord, with configuration: WorkerConfiguration, timeoutNs: Int64,
        onDelay: (String) -> Void = { _ in }
    ) throws(CommandFailure) -> Answer {
        let requestedAtMs = LoopTime.read().wallMs
        let request = try KeptRequest(record)
        let settings: AppSettings
        let topic: String
        let parsed = request.parsed
        // A direct send selects the app by the same rules as a worker.
        var directory = AppDirectory(configuration.apps.map(\.route))
        switch directory.find(
            name: parsed.app, environment: parsed.environment, topic: parsed.headers.topic,
            pushType: parsed.headers.pushType)
        {
        case .failure(let reason, let detail):
            let topic = String(decoding: parsed.headers.topic, as: UTF8.self)
            let about = detail.subject.isEmpty ? "" : ": \(String(decoding: detail.subject, as: UTF8.self))"
            var result = DeliveryResult(.invalid, requestedAtMs: requestedAtMs, settledAtMs: requestedAtMs)
            result.apnsTopic = topic.isEmpty ? nil : topic
            result.reason = reason.reason
            result.detail = "\(detail.text)\(about)"
            return Answer(result: result)
        case .app(let app, let defaultTopic):
            settings = configuration.apps[app.value]
            // The bytes of the default topic belong to the directory, so this statement copies them.
            topic = String(decoding: parsed.headers.topic.isEmpty ? defaultTopic : parsed.headers.topic, as: UTF8.self)
        }
        guard settings.binary == nil else {
            throw CommandFailure(
                "app \(settings.name) has transport: binary, but --direct needs HTTP/2; send without --direct")
        }
        let app: LoadedApp
        do throws(StartFailure) { app = try LoadedApp(settings) } catch { throw CommandFailure("\(error)") }
        let place = app.target.text
        let outgoing = request.outgoing(topic)
        do {
            let exchange = try Exchange(app.transportConfiguration(timeoutNs), token: ProviderTokens().token(of: app))
            defer { exchange.close() }
            let answer = try exchange.send(outgoing, isPatient: true, timeoutNs: timeoutNs) { isSent, cause in
                let text =
                    isSent
                    ? "still waiting for an answer from \(place)"
                    : cause.map { "still trying to reach \(place): \($0)" }
                        ?? "still waiting for a connection to \(place)"
                onDelay("\(text) (\(timeoutNs / 1_000_000_000) s at most)")
            }
            return Answer(answer, to: outgoing, topic, settings, requestedAtMs: requestedAtMs)
        } catch {
            throw CommandFailure(error, at: place)
        }
    }
}

/// A parsed request whose bytes are never freed, because a transport may still use them after the caller's wait has
/// ended.
private struct KeptRequest {
    let parsed: ParsedRequest

    init(_ record: RequestRecord) throws(CommandFailure) {
        let headers = record.headers.map {
            RecordHeader(name: .lasting($0.name.utf8), value: .lasting($0.value))
        }
        let key = record.key.map { UnsafeRawBufferPointer.lasting($0) } ?? .nothing
        var parser = RequestParser()
        parsed = headers.withUnsafeBufferPointer {
            parser.parse(key: key, value: .lasting(record.value), headers: $0, role: .request)
        }
        guard parsed.target == .device, !parsed.isInvalid else {
            throw CommandFailure("the record is not a valid request for one device: \(parsed.detail.text)")
        }
    }

    func outgoing(_ topic: String) -> OutgoingRequest {
        var headers = parsed.headers
        headers.topic = .lasting(topic.utf8)
        if headers.apnsID == .none { headers.apnsID = .random() }
        return OutgoingRequest(
            id: NotificationID(slot: NotificationSlot(0), generation: 0), token: parsed.token, payload: parsed.payload,
            headers: headers)
    }
}

extension DirectSend.Answer {
    fileprivate init(
        _ answer: Exchange.Answer, to request: OutgoingRequest, _ topic: String, _ app: AppSettings,
        requestedAtMs: Int64
    ) {
        let completion = answer.completion
        let reason = completion.reason.reason ?? answer.reasonText.map { Reason(rawValue: $0) }
        let status = Int(completion.status)
        let row = VerdictTable().row(reason: completion.reason, text: answer.reasonText, status: completion.status)
        let outcome: Outcome =
            switch row.verdict {
            case .accept: .accepted
            case .unregister: .unregistered
            case .reject, .resend, .retry, .credentialFault: .rejected
            }
        result = DeliveryResult(outcome, requestedAtMs: requestedAtMs, settledAtMs: answer.answeredAtMs)
        result.app = app.name
        result.environment = app.environment
        result.apnsID = completion.apnsID == .none ? request.headers.apnsID : completion.apnsID
        result.apnsTopic = topic
        result.apnsUniqueID = answer.uniqueID
        result.status = status
        result.reason = reason
        result.attempts = 1
        result.unregisteredAtMs = completion.unregisteredAtMs == 0 ? nil : completion.unregisteredAtMs
        result.sentAtMs = completion.sentAtMs
        advice = status == 200 ? nil : RefusalAdvice.text(reason, status: status, topic: topic, of: app)
    }
}

extension CommandFailure {
    fileprivate init(_ failure: Exchange.Failure, at place: String) {
        func cause(_ reason: String?) -> String { reason.map { ": \($0)" } ?? "" }
        switch failure {
        case .notSent(let reason): self.init("\(place) could not be reached in time\(cause(reason))")
        case .unanswered(let reason):
            self.init("\(place) did not answer in time\(cause(reason)); the notification may have been delivered")
        case .lost(let reason):
            self.init("the connection to \(place) was lost\(cause(reason)); the notification may have been delivered")
        }
    }
}
