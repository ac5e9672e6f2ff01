import Configuration
import EventLoop
import JSON
import Kafka
import Observability
import PushRecords
import Worker

/// Asks a worker for the notification, as any producer would, and waits for its result.
func sendViaKafka(
    _ record: RequestRecord, _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, _ options: SendOptions
) -> ExitCode {
    guard configuration.results.publish == .all else {
        complain(
            "apns-worker send: results.publish is failures, so an accepted notification would have no result to wait for; use --direct"
        )
        return .wrongConfiguration
    }
    guard let requests = options.requests ?? configuration.requestTopics.first(where: { !$0.isPattern })?.name else {
        complain("apns-worker send: requests.topics has patterns only; say --request-topic NAME")
        return .wrongUsage
    }
    do throws(CommandFailure) {
        let deadline = Deadline(after: options.deadline)
        // First, so that the result cannot have come before.
        let results = try TopicReader(
            cluster, topic: configuration.results.topic, from: .end, until: deadline)
        let sentMs = LoopTime.read().wallMs
        let request = try produce(record, to: requests, cluster, until: deadline)
        let key = options.token.map { Array($0.hex.utf8) }
        if let dueMs = options.notBeforeMs, dueMs > sentMs + options.deadline.milliseconds {
            let later = ScheduledRequest(
                request: request, key: key, dueMs: dueMs, sentMs: sentMs, configuration: configuration, cluster: cluster
            )
            return try later.follow(results, options, until: deadline)
        }
        guard let value = try results.result(of: request, key: key, until: deadline) else {
            let (place, unread) = PutOff.find(request, sentMs: sentMs, configuration, cluster)
            complain(
                "apns-worker send: no result of \(request) within \(options.deadline.components.seconds) s; "
                    + (place.map { "\($0.text); its result will come:" } ?? "is a worker running? It may still come:")
                    + " \(resultCommand(of: request, options))")
            for line in unread { complain(line) }
            for line in WorkerPage.lines(of: configuration) { complain("apns-worker send: \(line)") }
            return .failed
        }
        return try report(value, configuration, options.format)
    } catch {
        complain("apns-worker send: \(error.line)")
        return .failed
    }
}

/// The command that finds the request's result.
func resultCommand(of request: DeliveryResult.Request, _ options: SendOptions) -> String {
    let id = options.id ?? derivedID(request.topic, request.partition, request.offset, 0)
    return "apns-worker tail results --config \(shellWord(options.file ?? "FILE")) --apns-id \(id)"
}

/// A word as a shell takes it.
private func shellWord(_ text: String) -> String {
    let isPlain = text.utf8.allSatisfy { byte in
        byte >= 0x80 || "/._-+=:@%".utf8.contains(byte) || Unicode.Scalar(byte).properties.isAlphabetic
            || (0x30...0x39).contains(byte)
    }
    return isPlain && !text.isEmpty
        ? text : "'\(text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
}

/// Prints a result; whether it was accepted.
func report(
    _ value: [UInt8], _ configuration: WorkerConfiguration, _ format: OutputFormat
) throws(CommandFailure) -> ExitCode {
    do throws(RecordError) {
        let result = try DeliveryResult(json: value)
        let advice = advice(on: result, configuration)
        switch format {
        case .json: say(withAdvice(value, advice) + "\n")
        case .text:
            say(result.line + "\n")
            if let advice { complain("apns-worker send: \(advice)") }
        }
        return result.outcome == .accepted ? .fine : .failed
    } catch {
        throw CommandFailure("the result cannot be read: \(error)")
    }
}

/// What the worker itself refused or gave up says why in its detail.
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

/// The result as it was published, with the advice as its last member.
private func withAdvice(_ result: [UInt8], _ advice: String?) -> String {
    let text = String(decoding: result, as: UTF8.self)
    guard let advice, let end = text.lastIndex(of: "}") else { return text }
    var json = JSONWriter()
    json.value(advice)
    return text[..<end] + ",\"advice\":\(json.text)}"
}

/// Where the record was written.
private func produce(
    _ record: RequestRecord, to topic: String, _ cluster: ClusterSettings, until deadline: Deadline
) throws(CommandFailure) -> DeliveryResult.Request {
    let question: TopicQuestion
    do throws(KafkaError) {
        question = try TopicQuestion(cluster, until: deadline)
    } catch {
        throw CommandFailure("\(topic): \(error)")
    }
    _ = try question.partitions(of: topic) { Denial.writing([$0], $1) }
    do throws(KafkaError) {
        let producer = try Producer(ProducerSettings(cluster: cluster))
        let handle = try producer.topic(topic)
        let code = producer.produce(record, to: handle)
        guard code == .none else { throw KafkaError(code) }
        var written: DeliveryResult.Request?
        var failure: KafkaError?
        var trouble = ""
        while written == nil, failure == nil {
            guard !deadline.hasPassed else {
                throw KafkaError(
                    .timedOut, "the request was not acknowledged in time\(trouble.isEmpty ? "" : ": \(trouble)")")
            }
            producer.serve(
                timeoutMs: deadline.leftMs(atMost: 200),
                report: { report in
                    if report.code == .none {
                        written = DeliveryResult.Request(
                            topic: topic, partition: report.partition, offset: report.offset, index: 0)
                    } else {
                        failure = KafkaError(report.code)
                    }
                },
                event: { event in
                    switch event {
                    case .fatal(let error): failure = error
                    case .error(let error): trouble = error.text
                    case .log, .statistics: break
                    }
                })
        }
        guard let written else { throw failure ?? KafkaError(.timedOut) }
        return written
    } catch {
        throw CommandFailure(Denial.writing([topic], error.code) ?? "\(topic): \(error)")
    }
}

extension Producer {
    /// Queues a request; everything is copied before this returns.
    fileprivate func produce(_ record: RequestRecord, to topic: ProducerTopic) -> KafkaCode {
        var text: [UInt8] = []
        var ends: [(name: Int, value: Int)] = []
        for header in record.headers {
            text += header.name.utf8
            let name = text.count
            text += header.value
            ends.append((name: name, value: text.count))
        }
        // Never empty, so that an empty value has an address: without one it would be null.
        text.append(0)
        return text.withUnsafeBytes { text in
            var start = 0
            let headers = ends.map { end in
                defer { start = end.value }
                return MessageHeader(
                    name: UnsafeRawBufferPointer(rebasing: text[start..<end.name]),
                    value: UnsafeRawBufferPointer(rebasing: text[end.name..<end.value]))
            }
            return (record.key ?? []).withUnsafeBytes { key in
                record.value.withUnsafeBytes { value in
                    produce(to: topic, key: key, value: value, headers: headers, tag: 0)
                }
            }
        }
    }
}

extension TopicReader {
    /// The value of the request's result; `nil`: it did not come in time. Says after five seconds that it is waited
    /// for: a gateway's silence takes two.
    func result(
        of request: DeliveryResult.Request, key: [UInt8]?, until deadline: Deadline
    ) throws(CommandFailure) -> [UInt8]? {
        var notice: Deadline? = Deadline(after: .seconds(5))
        var found: [UInt8]?
        while found == nil, !deadline.hasPassed {
            try read(timeoutMs: deadline.leftMs(atMost: 200)) { record in
                // Results have their device's token as the key: others need not be parsed.
                guard record.key == key, let value = record.value, let result = try? DeliveryResult(json: value),
                    result.request.description == request.description
                else { return true }
                found = value
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
