internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability
internal import PushRecords

/// Says in log lines what the parts below report as events.
struct EventLog {
    let logger: Logger
    /// Of the apps, by `AppIndex`.
    var names: [String]

    /// What librdkafka says about itself: its debug lines only at `debug`.
    static func write(_ event: ClientEvent, of client: String, to logger: Logger) {
        switch event {
        case .log(let severity, let facility, let text):
            // What FAIL says comes as an error event too.
            let isSaidTwice = facility == "FAIL"
            let level: Level = isSaidTwice ? .debug : severity <= 3 ? .warning : severity <= 5 ? .info : .debug
            logger.log(
                level, .kafka, "librdkafka", about: "\(client) \(facility)",
                ["client": "\(client)", "facility": "\(facility)", "text": "\(text)"])
        case .error(let error):
            logger.warning(
                .kafka, "Kafka has a problem; trying on", about: "\(client) \(error.code.name)",
                ["client": "\(client)", "error": "\(error.text)"])
        case .fatal(let error):
            logger.error(.kafka, "fatal error", ["client": "\(client)", "error": "\(error.text)"])
        case .statistics:
            break
        }
    }

    func write(_ event: DeliveryEvent, partitionName: (PartitionID) -> String) {
        switch event {
        case .metadataIgnored(let id):
            logger.warning(
                .delivery, "the commit's metadata is not ours or damaged: what it named is not known to be settled",
                about: partitionName(id), ["partition": "\(partitionName(id))"])
        case .offsetReset(let id, let committed, let offset):
            logger.error(
                .delivery, "records came below the committed offset: it was reset, and they are sent",
                about: partitionName(id),
                ["partition": "\(partitionName(id))", "committed": .count(committed), "offset": .count(offset)])
        case .logChanged(let id, let committed, let start, let end):
            logger.error(
                .delivery, "the partition's log is another one than was committed for: it is read from its beginning",
                about: partitionName(id),
                [
                    "partition": "\(partitionName(id))", "committed": .count(committed),
                    "start": text(of: start), "end": text(of: end),
                ])
        case .overtaken(let id, let committed, let start):
            logger.error(
                .delivery, "retention took records that were never read", about: partitionName(id),
                [
                    "partition": "\(partitionName(id))", "committed": .count(committed), "start": .count(start),
                    "skipped": .count(start - committed),
                ])
        case .commitsRefused(let id, let refusals, _, let isImpossible):
            logger.error(
                .kafka,
                isImpossible
                    ? "a partition's commits are refused: its topic is gone, or the group may not read it"
                    : "a partition's commits are refused; committing again",
                about: partitionName(id), ["partition": "\(partitionName(id))", "refusals": .count(refusals)])
        case .commitsResumed(let id):
            logger.info(
                .kafka, "a partition's commits are taken again", about: partitionName(id),
                ["partition": "\(partitionName(id))"])
        case .suspendedReleased(let id):
            logger.info(
                .delivery, "what a lost partition left behind is given up", about: partitionName(id),
                ["partition": "\(partitionName(id))"])
        case .resumed(let id):
            logger.info(
                .delivery, "a lost partition came back: it goes on with what is known of it", about: partitionName(id),
                ["partition": "\(partitionName(id))"])
        case .mapCut(let id, let dropped):
            logger.info(
                .delivery, "the commit's map was too long and cut: a crash now repeats more", about: partitionName(id),
                ["partition": "\(partitionName(id))", "dropped": .count(dropped)])
        case .metadataRefused(let id, let characters):
            logger.warning(
                .kafka, "the broker refuses commit metadata of this length: raise offset.metadata.max.bytes to 4096",
                about: partitionName(id), ["partition": "\(partitionName(id))", "characters": .count(characters)])
        case .credentialFault(let app, let reason):
            logger.error(
                .apns, "Apple refuses the credential", about: "\(name(of: app)) \(reason)",
                ["app": "\(name(of: app))", "reason": "\(reason.text?.description ?? "unknown")"])
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
            logger.error(
                .delivery,
                "Apple calls most device tokens bad: are they of the other environment? Sending slowly",
                about: name(of: app), ["app": "\(name(of: app))", "held": .boolean(held)])
        case .guardReleased(let app):
            logger.notice(
                .delivery, "most device tokens are good again: sending at full speed", about: name(of: app),
                ["app": "\(name(of: app))"])
        case .held(let app, let cause):
            logger.warning(
                .delivery, "notifications are held in a retry tier", about: "\(name(of: app)) \(cause)",
                ["app": "\(name(of: app))", "cause": "\(text(of: cause))"])
        }
    }

    /// An offset that nobody told: the topic may be gone.
    private func text(of offset: Int64?) -> Fields.Value { offset.map { .integer($0) } ?? "unknown" }

    private func text(of circuit: CircuitName) -> String {
        switch circuit {
        case .credential(let app): "the credential of \(name(of: app))"
        case .topic(let topic, let app): "the topic \(topic) of \(name(of: app))"
        case .connection(let app): "the connections of \(name(of: app))"
        }
    }

    private func text(of cause: HeldCause) -> String {
        switch cause {
        case .span: "too much is settled above them"
        case .device: "one device has too many"
        case .share: "the app has too many"
        case .paused: "the app is paused"
        case .removed: "the app was removed"
        case .credential: "Apple refuses the credential"
        case .topic: "Apple refuses the credential for the topic"
        case .unreachable: "no connection can be made, or none is of use"
        case .unprocessed: "APNs refuses to process them"
        case .unwritable: "the dead-token topic cannot be written"
        case .scheduled: "they are not due yet"
        }
    }

    /// - Parameter isReminder: nothing happened: it is so still.
    func write(_ note: TransportNote, of app: AppIndex, isReminder: Bool = false) {
        let name = name(of: app)
        func warn(_ message: StaticString, about host: String, _ fields: Fields) {
            let subject = "\(name) \(host)"
            if isReminder {
                logger.remind(.apns, message, about: subject, fields)
            } else {
                logger.warning(.apns, message, about: subject, fields)
            }
        }
        /// What is behind the name that it begins with, which has a field of its own.
        func cause(_ reason: String, of place: String) -> Fields.Value {
            .text(reason.hasPrefix("\(place): ") ? String(reason.dropFirst(place.count + 2)) : reason)
        }
        switch note {
        case .connected(let address, let streams):
            var fields: Fields = ["app": "\(name)", "address": "\(address)"]
            if let streams { fields.append("streams", .count(streams)) }
            logger.info(.apns, "connected", fields)
        case .connectFailed(let host, let reason, let retryInMs):
            warn(
                "cannot connect; trying again", about: host,
                [
                    "app": "\(name)", "host": "\(host)", "reason": cause(reason, of: host),
                    "retry_in_ms": .count(retryInMs),
                ])
        case .noStreams(let host):
            warn(
                "connected, but no stream is allowed; waiting", about: host,
                ["app": "\(name)", "host": "\(host)"])
        case .disconnected(let address, let reason, let unanswered):
            logger.log(
                unanswered == 0 ? .info : .warning, .apns, "disconnected", about: "\(name) \(reason)",
                [
                    "app": "\(name)", "address": "\(address)", "reason": cause(reason, of: address),
                    "unanswered": .count(unanswered),
                ])
        case .peerCloses(let address, let reason, let unprocessed):
            logger.info(
                .apns, "the server asks for a new connection", about: name,
                [
                    "app": "\(name)", "address": "\(address)", "reason": cause(reason, of: address),
                    "resent": .count(unprocessed),
                ])
        case .windowTooShort(let address, let status, let lostAtMost, let windowMs):
            logger.error(
                .apns, "an error came after its window had closed: what was written after it is lost",
                about: name,
                [
                    "app": "\(name)", "address": "\(address)", "status": .count(Int(status)),
                    "lost_at_most": .count(lostAtMost), "window_ms": .count(windowMs),
                ])
        case .answered(let address, let status, let isOfFence, let accepted, let discarded):
            logger.debug(
                .apns, "the gateway answered", about: "\(name) \(status) \(isOfFence)",
                [
                    "app": "\(name)", "address": "\(address)", "status": .count(Int(status)),
                    "to_a_fence": .boolean(isOfFence), "accepted_before": .count(accepted),
                    "discarded_after": .count(discarded),
                ])
        case .silent(let address, let accepted, let open):
            logger.debug(
                .apns, "the window passed, and the gateway said nothing",
                [
                    "app": "\(name)", "address": "\(address)", "accepted": .count(accepted), "open": .count(open),
                ])
        case .windowLengthened(let windowMs):
            logger.warning(
                .apns, "the window is longer from now on: set binary.window.duration to it", about: name,
                ["app": "\(name)", "window_ms": .count(windowMs)])
        case .providerTokenRenewed(let keyID, _):
            logger.debug(.apns, "provider token renewed", ["app": "\(name)", "key_id": "\(keyID)"])
        case .credentialFault(let reason):
            logger.error(
                .apns, "Apple refuses the credential", about: "\(name) \(reason)",
                ["app": "\(name)", "reason": "\(reason)"])
        case .replacing(let text):
            logger.warning(
                .apns, "connections are replaced", about: "\(name) \(text)", ["app": "\(name)", "text": "\(text)"])
        case .certificate(let text):
            logger.warning(
                .apns, "a certificate needs attention", about: "\(name) \(text)",
                ["app": "\(name)", "text": "\(text)"])
        case .frame(let address, let isSent, let type, let flags, let stream, let length):
            logger.log(
                .trace, .apns, isSent ? "frame sent" : "frame received",
                [
                    "app": "\(name)", "address": "\(address)", "type": .text(type), "flags": .text(flags),
                    "stream": .count(stream), "length": .count(length),
                ])
        }
    }

    private func name(of app: AppIndex) -> String { names[app.value] }
}
