internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

struct EventLog {
    let logger: Logger
    var names: [String]

    /// Logs an event of a Kafka client, at level `warning` or below.
    static func write(_ event: ClientEvent, of client: String, to logger: Logger) {
        switch event {
        case .log(let severity, let facility, let text):
            // librdkafka also reports each FAIL log line as an error event.
            let isSaidTwice = facility == "FAIL"
            let level: Level = isSaidTwice ? .debug : severity <= 3 ? .warning : severity <= 5 ? .info : .debug
            logger.log(
                level, .kafka, "librdkafka", about: "\(client) \(facility)",
                ["client": "\(client)", "facility": "\(facility)", "text": "\(text)"])
        case .error(let error):
            logger.warning(
                .kafka, "Kafka client error, retrying", about: "\(client) \(error.code.name)",
                ["client": "\(client)", "error": "\(error.text)"])
        // The owners of the Kafka clients handle fatal errors and statistics.
        case .fatal, .statistics: break
        }
    }

    func writeResumed(_ partitions: [String]) {
        logger.notice(
            .delivery, "lost partitions assigned again, continuing at their previous positions",
            ["count": .sum(partitions.count), "partitions": .text(partitions.sorted().joined(separator: ","))])
    }

    func write(_ event: DeliveryEvent, partitionName: (PartitionID) -> String) {
        func log(_ level: Level, _ part: Part, _ id: PartitionID, _ message: StaticString, _ more: Fields = [:]) {
            let name = partitionName(id)
            logger.log(level, part, message, about: name, Fields("partition", .text(name), more))
        }
        func log(
            _ level: Level, _ part: Part, _ app: AppIndex, _ message: StaticString, about subject: String = "",
            _ more: Fields = [:]
        ) {
            let name = name(of: app)
            logger.log(level, part, message, about: name + subject, Fields("app", .text(name), more))
        }
        switch event {
        case .foreignCommit(let id, let committed, let end):
            log(
                .warning, .delivery, id,
                "committed offset was set by another program; records below it are skipped, later ones are in doubt",
                ["committed": .count(committed), "in_doubt": .count(max(0, end - committed))])
        case .startedWithoutOffset(let id, let offset, let records, let ageMs):
            log(
                .warning, .delivery, id,
                "no committed offset, reading from the beginning; existing records are marked in doubt",
                [
                    "offset": .count(offset), "records": .count(records),
                    "oldest_age_s": text(of: ageMs.map { $0 / 1_000 }),
                ])
        case .logChanged(let id, let committed, let start, let end):
            log(
                .error, .delivery, id,
                "topic was recreated or its log truncated, reading records again",
                ["committed": .count(committed), "start": text(of: start), "end": text(of: end)])
        case .overtaken(let id, let committed, let start):
            log(
                .error, .delivery, id, "records were deleted before they were read",
                ["committed": .count(committed), "start": .count(start), "skipped": .sum(start - committed)])
        case .commitsRefused(let id, let refusals, let isImpossible):
            log(
                .error, .kafka, id,
                isImpossible
                    ? "commits refused: the topic was deleted, or the group may not read it"
                    : "commits refused, retrying", ["refusals": .count(refusals)])
        case .commitsResumed(let id):
            log(.info, .kafka, id, "commits accepted again")
        // `writeResumed` writes one line for all partitions of a turn.
        case .resumed: break
        case .mapCut(let id):
            log(.info, .delivery, id, "commit metadata truncated; a crash now would repeat more notifications")
        case .metadataRefused(let id, let characters):
            log(
                .warning, .kafka, id,
                "the broker refuses commit metadata of this length: raise offset.metadata.max.bytes to 4096",
                ["characters": .count(characters)])
        case .circuitOpened(let circuit, let reason):
            var word: StaticString = "no known reason"
            if case .connection = circuit { word = "no usable connection" }
            logger.error(
                .delivery, "circuit breaker opened, deferring its notifications to the retry topics",
                about: text(of: circuit),
                ["circuit": "\(text(of: circuit))", "reason": "\(reason.text?.description ?? word.description)"])
        case .circuitClosed(let circuit):
            logger.notice(
                .delivery, "circuit breaker closed, sending its notifications again", about: text(of: circuit),
                ["circuit": "\(text(of: circuit))"])
        case .guardTripped(let app, let held):
            log(
                .error, .delivery, app,
                "APNs rejects most device tokens, sending slowly; check whether they belong to the other environment",
                ["held": .boolean(held)])
        case .guardReleased(let app):
            log(.notice, .delivery, app, "APNs accepts most device tokens again, sending at full speed")
        case .held(let app, let cause):
            log(
                .warning, .delivery, app, "notifications deferred to a retry topic", about: " \(cause.word)",
                ["cause": .text(cause.word)])
        }
    }

    /// Returns the value of a log field: the number, or `unknown` for `nil`, as for the offsets of a deleted topic.
    private func text(of offset: Int64?) -> Fields.Value { offset.map { .integer($0) } ?? "unknown" }

    private func text(of circuit: CircuitName) -> String {
        switch circuit {
        case .credential(let app): "the credential of \(name(of: app))"
        case .topic(let topic, let app): "the topic \(topic) of \(name(of: app))"
        case .connection(let app): "the connections of \(name(of: app))"
        }
    }

    func write(_ note: TransportNote, of app: AppIndex) {
        let name = name(of: app)
        func log(
            _ level: Level, _ message: StaticString, about subject: String? = nil, at address: String? = nil,
            _ more: @autoclosure () -> Fields
        ) {
            guard logger.writes(level, of: .apns) else { return }
            let others = address.map { Fields("address", .text($0), more()) } ?? more()
            let fields = Fields("app", .text(name), others)
            let subject = subject.map { $0.isEmpty ? name : "\(name) \($0)" }
            logger.log(level, .apns, message, about: subject, fields)
        }
        /// Returns a reason without the host or address at its beginning, which the log line has in a separate field.
        func cause(_ reason: String, of place: String) -> Fields.Value {
            .text(reason.hasPrefix("\(place): ") ? String(reason.dropFirst(place.count + 2)) : reason)
        }
        switch note {
        case .connected(let address, let streams):
            log(.info, "connected", at: address, streams.map { ["streams": .count($0)] } ?? [:])
        case .connectFailed(let host, let reason, let retryInMs):
            log(
                .warning, "cannot connect, retrying", about: host,
                ["host": .text(host), "reason": cause(reason, of: host), "retry_in_ms": .count(retryInMs)])
        case .noStreams:
            // A server may briefly allow no streams (RFC 9113, 6.5.2). If the condition lasts, `AppHealth` reports a
            // problem.
            break
        case .disconnected(let address, let reason, let unanswered):
            log(
                unanswered == 0 ? .info : .warning, "disconnected", about: reason, at: address,
                ["reason": cause(reason, of: address), "unanswered": .sum(unanswered)])
        case .peerCloses(let address, let reason, let unprocessed):
            log(
                .info, "server is closing the connection", about: "", at: address,
                ["reason": cause(reason, of: address), "resent": .sum(unprocessed)])
        case .peerErrors: break
        case .windowTooShort(let address, let status, let lostAtMost, let windowMs):
            log(
                .error, "error arrived after its resend window closed; later notifications are lost", about: "",
                at: address,
                ["status": .count(Int(status)), "lost_at_most": .sum(lostAtMost), "window_ms": .count(windowMs)])
        case .presumedUnread(let address, let lostAtMost):
            log(
                .error, "the gateway read nothing; notifications presumed accepted may be lost", about: "", at: address,
                ["lost_at_most": .count(lostAtMost)])
        case .answered(let address, let status, let isOfFence, let accepted, let discarded):
            log(
                .debug, "the gateway answered", about: "\(status) \(isOfFence)", at: address,
                [
                    "status": .count(Int(status)), "to_a_fence": .boolean(isOfFence),
                    "accepted_before": .sum(accepted), "discarded_after": .sum(discarded),
                ])
        case .silent(let address, let accepted, let open):
            log(
                .debug, "resend window closed without an error from the gateway", at: address,
                ["accepted": .sum(accepted), "open": .count(open)])
        case .windowLengthened(let windowMs):
            log(
                .warning, "resend window lengthened; set binary.window.duration to this value", about: "",
                ["window_ms": .count(windowMs)])
        case .providerTokenRenewed(let keyID, _):
            log(.debug, "provider token renewed", ["key_id": .text(keyID)])
        case .credentialFault(let reason):
            log(.error, "Apple refuses the credential", about: "\(reason)", ["reason": "\(reason)"])
        case .replacing(let text):
            log(.warning, "connections are replaced", about: text, ["text": .text(text)])
        case .certificate(let text):
            log(.warning, "a certificate needs attention", about: text, ["text": .text(text)])
        case .frame(let address, let isSent, let type, let flags, let stream, let length):
            log(
                .trace, isSent ? "frame sent" : "frame received", at: address,
                [
                    "type": .text(type), "flags": .text(flags), "stream": .count(stream), "length": .count(length),
                ])
        }
    }

    private func name(of app: AppIndex) -> String { names[app.value] }
}

extension Fields {
    fileprivate init(_ name: StaticString, _ value: Value, _ others: Fields) {
        self = [name: value]
        for (name, value) in others.pairs { append(name, value) }
    }
}
