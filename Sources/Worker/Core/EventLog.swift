internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

struct EventLog {
    let logger: Logger
    var names: [String]

    /// Logs an event of a Kafka client; librdkafka's debug lines only at `debug`.
    static func write(_ event: ClientEvent, of client: String, to logger: Logger) {
        switch event {
        case .log(let severity, let facility, let text):
            // A FAIL line comes as an error event, too.
            let isSaidTwice = facility == "FAIL"
            let level: Level = isSaidTwice ? .debug : severity <= 3 ? .warning : severity <= 5 ? .info : .debug
            logger.log(
                level, .kafka, "librdkafka", about: "\(client) \(facility)",
                ["client": "\(client)", "facility": "\(facility)", "text": "\(text)"])
        case .error(let error):
            logger.warning(
                .kafka, "Kafka has a problem; trying on", about: "\(client) \(error.code.name)",
                ["client": "\(client)", "error": "\(error.text)"])
        // Each caller takes these itself.
        case .fatal, .statistics: break
        }
    }

    func write(_ event: DeliveryEvent, partitionName: (PartitionID) -> String) {
        /// Logs what happened to a partition.
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
                "the committed offset is not by a worker, what follows it is marked in doubt",
                ["committed": .count(committed), "records": .count(max(0, end - committed))])
        case .startedWithoutOffset(let id, let offset, let records, let ageMs):
            log(
                .warning, .delivery, id,
                "the group has no committed offset, reading from the beginning and marking what is there in doubt",
                [
                    "offset": .count(offset), "records": .count(records),
                    "oldest_age_s": text(of: ageMs.map { $0 / 1_000 }),
                ])
        case .logChanged(let id, let committed, let start, let end):
            log(
                .error, .delivery, id,
                "the partition's log is another one than was committed for: it is read from its beginning",
                ["committed": .count(committed), "start": text(of: start), "end": text(of: end)])
        case .overtaken(let id, let committed, let start):
            log(
                .error, .delivery, id, "retention took records that were never read",
                ["committed": .count(committed), "start": .count(start), "skipped": .sum(start - committed)])
        case .commitsRefused(let id, let refusals, let isImpossible):
            log(
                .error, .kafka, id,
                isImpossible
                    ? "a partition's commits are refused: its topic is gone, or the group may not read it"
                    : "a partition's commits are refused; committing again", ["refusals": .count(refusals)])
        case .commitsResumed(let id):
            log(.info, .kafka, id, "a partition's commits are taken again")
        case .resumed(let id):
            log(.notice, .delivery, id, "a lost partition came back, continuing where it was")
        case .suspendedReleased: break
        case .mapCut(let id):
            log(.info, .delivery, id, "the commit's map was too long and cut: a crash now repeats more")
        case .metadataRefused(let id, let characters):
            log(
                .warning, .kafka, id,
                "the broker refuses commit metadata of this length: raise offset.metadata.max.bytes to 4096",
                ["characters": .count(characters)])
        case .circuitOpened(let circuit, let reason):
            var word: StaticString = "no known reason"
            if case .connection = circuit { word = "no connection of use" }
            logger.error(
                .delivery, "a circuit opened: what is behind it is held in the retry tiers",
                about: text(of: circuit),
                ["circuit": "\(text(of: circuit))", "reason": "\(reason.text?.description ?? word.description)"])
        case .circuitClosed(let circuit):
            logger.notice(
                .delivery, "a circuit closed: its notifications are sent again", about: text(of: circuit),
                ["circuit": "\(text(of: circuit))"])
        case .guardTripped(let app, let held):
            log(
                .error, .delivery, app,
                "Apple calls most device tokens bad: are they of the other environment? Sending slowly",
                ["held": .boolean(held)])
        case .guardReleased(let app):
            log(.notice, .delivery, app, "most device tokens are good again: sending at full speed")
        case .held(let app, let cause):
            log(
                .warning, .delivery, app, "notifications are held in a retry tier", about: " \(cause.word)",
                ["cause": .text(cause.word)])
        }
    }

    /// An offset may be unknown: the topic may be gone.
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
            _ level: Level, _ message: StaticString, about subject: String? = nil, _ more: @autoclosure () -> Fields
        ) {
            guard logger.writes(level, of: .apns) else { return }
            let fields = Fields("app", .text(name), more())
            let subject = subject.map { $0.isEmpty ? name : "\(name) \($0)" }
            logger.log(level, .apns, message, about: subject, fields)
        }
        /// A reason without the place that it begins with, which has a field of its own.
        func cause(_ reason: String, of place: String) -> Fields.Value {
            .text(reason.hasPrefix("\(place): ") ? String(reason.dropFirst(place.count + 2)) : reason)
        }
        switch note {
        case .connected(let address, let streams):
            log(
                .info, "connected",
                Fields("address", .text(address), streams.map { ["streams": .count($0)] } ?? [:]))
        case .connectFailed(let host, let reason, let retryInMs):
            log(
                .warning, "cannot connect; trying again", about: host,
                ["host": .text(host), "reason": cause(reason, of: host), "retry_in_ms": .count(retryInMs)])
        case .noStreams:
            // It may be for a moment (RFC 9113, 6.5.2). What lasts is a problem of the app.
            break
        case .disconnected(let address, let reason, let unanswered):
            log(
                unanswered == 0 ? .info : .warning, "disconnected", about: reason,
                [
                    "address": .text(address), "reason": cause(reason, of: address),
                    "unanswered": .sum(unanswered),
                ])
        case .peerCloses(let address, let reason, let unprocessed):
            log(
                .info, "the server asks for a new connection", about: "",
                ["address": .text(address), "reason": cause(reason, of: address), "resent": .sum(unprocessed)])
        case .windowTooShort(let address, let status, let lostAtMost, let windowMs):
            log(
                .error, "an error came after its window had closed: what was written after it is lost", about: "",
                [
                    "address": .text(address), "status": .count(Int(status)), "lost_at_most": .sum(lostAtMost),
                    "window_ms": .count(windowMs),
                ])
        case .presumedUnread(let address, let lostAtMost):
            log(
                .error, "the gateway read nothing: notifications that its silence accepted may be lost", about: "",
                ["address": .text(address), "lost_at_most": .count(lostAtMost)])
        case .answered(let address, let status, let isOfFence, let accepted, let discarded):
            log(
                .debug, "the gateway answered", about: "\(status) \(isOfFence)",
                [
                    "address": .text(address), "status": .count(Int(status)), "to_a_fence": .boolean(isOfFence),
                    "accepted_before": .sum(accepted), "discarded_after": .sum(discarded),
                ])
        case .silent(let address, let accepted, let open):
            log(
                .debug, "the window passed, and the gateway said nothing",
                ["address": .text(address), "accepted": .sum(accepted), "open": .count(open)])
        case .windowLengthened(let windowMs):
            log(
                .warning, "the window is longer from now on: set binary.window.duration to it", about: "",
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
                .trace, isSent ? "frame sent" : "frame received",
                [
                    "address": .text(address), "type": .text(type), "flags": .text(flags),
                    "stream": .count(stream), "length": .count(length),
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
