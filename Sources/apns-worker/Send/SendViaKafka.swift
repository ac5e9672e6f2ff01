import Configuration
import EventLoop
import JSON
import Kafka
import Observability
import PushRecords
import Replay
import Worker

/// Produces a request, as any producer would, and waits for the worker's result.
func sendViaKafka(_ record: RequestRecord, _ token: DeviceToken, _ options: SendOptions) throws -> ExitCode {
    let (configuration, cluster) = try loaded(options.file)
    guard configuration.results.publish == .all else {
        throw StartFailure([
            "apns-worker send: results.publish is failures, so an accepted notification would have no result to wait for; use --direct"
        ])
    }
    guard let topic = options.requests ?? configuration.requestTopics.first(where: { !$0.isPattern })?.name else {
        throw UsageError("requests.topics has only patterns: give --request-topic NAME")
    }
    let deadline = Deadline(after: options.deadline)
    let wait = BrokerWait(cluster, until: deadline)
    // The reader starts before the request is produced, so that it cannot miss the result.
    let results = try TopicReader(cluster, topic: configuration.results.topic, wait)
    try results.start(at: .end)
    _ = try wait.partitions(of: topic, from: results.client) { Denial.writing([$0], $1) }
    let sentMs = LoopTime.read().wallMs
    let request = try produce(record, to: topic, cluster, until: deadline)
    let id = options.notification.apnsID ?? derivedID(request.topic, request.partition, request.offset, 0)
    let command = "apns-worker tail results --config \(options.file ?? "") --apns-id \(id)"
    // If the notification is due after the deadline, this command ends once a worker has moved the request to a retry
    // topic.
    let dueMs = options.notification.notBefore.map { $0.secondsSinceEpoch.multipliedReportingOverflow(by: 1_000) }
        .map { $0.overflow ? .max : $0.partialValue }
    let isLater = dueMs ?? 0 > sentMs + options.deadline.milliseconds
    var place: PutOff?
    var unread: [String] = []
    repeat {
        let turn = isLater ? Deadline(after: .seconds(1)) : deadline
        if let value = try results.result(of: request, key: Array(token.hex.utf8), until: turn) {
            return try report(value, configuration, options.format)
        }
        (place, unread) = PutOff.find(request, sentMs: sentMs, configuration, cluster)
        if isLater, let place, let dueMs, place.isScheduled {
            let due = Timestamp(wallMs: dueMs).text
            switch options.format {
            case .text: say("\(request) waits in \(place.topic) until \(due); to see its result: \(command)\n")
            case .json: say(place.json(of: request, dueMs: dueMs) + "\n")
            }
            return .fine
        }
    } while place == nil && !deadline.hasPassed
    complain(
        "apns-worker send: no result for \(request) within \(options.deadline.components.seconds) s; "
            + (place.map { "\($0.text); to see its result:" } ?? "check that a worker is running; to see a late result:")
            + " \(command)")
    for line in unread + workerProblems(configuration) { complain("apns-worker send: \(line)") }
    return .failed
}

private func report(
    _ value: [UInt8], _ configuration: WorkerConfiguration, _ format: OutputFormat
) throws -> ExitCode {
    let result = try DeliveryResult(json: value)
    let advice = advice(on: result, configuration)
    // The command prints the published result, with the advice as an additional last member.
    let text = String(decoding: value, as: UTF8.self)
    let members = text[..<(text.lastIndex(of: "}") ?? text.endIndex)]
    let last = advice.map { advice in jsonObject { $0.member("advice", advice) }.dropFirst() }
    return result.show(
        format, line: result.line, json: last.map { "\(members),\($0)" } ?? text, advice: advice)
}

/// Returns an explanation of Apple's refusal, or `nil` for other results. `detail` explains `invalid` and `expired`.
private func advice(on result: DeliveryResult, _ configuration: WorkerConfiguration) -> String? {
    switch result.outcome {
    case .accepted, .invalid, .expired: return nil
    case .unregistered, .rejected, .abandoned: break
    }
    guard let status = result.status, let app = configuration.apps.first(where: { $0.name == result.app }) else {
        return nil
    }
    return RefusalAdvice.text(
        result.reason, status: status, topic: result.apnsTopic ?? "", of: app,
        isOtherTried: configuration.apps.contains { $0.otherEnvironment == app.name })
}

private func produce(
    _ record: RequestRecord, to topic: String, _ cluster: ClusterSettings, until deadline: Deadline
) throws -> DeliveryResult.Request {
    let producer = try Producer(ProducerSettings(cluster: cluster))
    let owned = OwnedRecord(
        key: record.key, value: record.value,
        headers: record.headers.map { OwnedRecord.Header(Array($0.name.utf8), $0.value) })
    var code = producer.produce(owned, to: try producer.topic(topic))
    var written: DeliveryResult.Request?
    var trouble = ""
    while written == nil, code == .none, !deadline.hasPassed {
        producer.serve(timeoutMs: deadline.leftMs(atMost: 200)) { report in
            code = report.code
            written = .init(topic: topic, partition: report.partition, offset: report.offset, index: 0)
        } event: { event in
            switch event {
            case .fatal(let error): code = error.code
            case .error(let error): trouble = ": \(error.text)"
            case .log, .statistics: break
            }
        }
    }
    guard code == .none else {
        throw CommandFailure(Denial.writing([topic], code) ?? "\(topic): \(KafkaError(code))")
    }
    guard let written else { throw CommandFailure("\(topic): the request was not acknowledged in time\(trouble)") }
    return written
}

extension TopicReader {
    /// Returns the result record's value, or `nil` at the deadline. Prints a notice only after five seconds, because a
    /// result of the binary protocol normally takes two seconds.
    fileprivate func result(
        of request: DeliveryResult.Request, key: [UInt8], until deadline: Deadline
    ) throws -> [UInt8]? {
        var notice: Deadline? = Deadline(after: .seconds(5))
        var found: [UInt8]?
        while found == nil, !deadline.hasPassed {
            try followTopic()
            try read(timeoutMs: deadline.leftMs(atMost: 200)) { _, message in
                // A result's key is its device token, so results with other keys are not parsed.
                guard message.key.elementsEqual(key), let result = try? DeliveryResult(json: message.value),
                    result.request.description == request.description
                else { return true }
                found = Array(message.value)
                return false
            }
            if notice?.hasPassed == true, found == nil {
                notice = nil
                complain("apns-worker send: still waiting for the result of \(request)")
            }
        }
        return found
    }
}
