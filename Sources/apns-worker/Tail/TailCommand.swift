import Configuration
import EventLoop
import Kafka
import PushRecords

/// `apns-worker tail`.
func tail(_ arguments: [String]) -> ExitCode {
    let (word, rest) = operand(arguments)
    return parsed(TailOptions.table, rest, TailOptions()).flatMap { options in
        choice(word, of: TailOptions.table.command, " to follow", "what is to be followed?", TailKind.self).flatMap {
            kind in
            if let complaint = options.complaint(kind) {
                complain("apns-worker tail: \(complaint) (see apns-worker tail --help)")
                return .failure(Exit(code: .wrongUsage))
            }
            return tailPlace(kind, options).map { follow(kind, $0, options) }
        }
    }.code
}

/// Where the records are.
private struct TailPlace {
    var cluster: ClusterSettings
    var topic: String
    /// Topics of requests that the configuration names.
    var requests: [String] = []
}

private func tailPlace(_ kind: TailKind, _ options: TailOptions) -> Result<TailPlace, Exit> {
    guard let file = options.file else {
        let cluster = ClusterSettings(bootstrapServers: options.servers ?? "", clientID: "apns-worker-tail")
        return .success(TailPlace(cluster: cluster, topic: options.topic ?? ""))
    }
    return loaded(file).map { configuration, cluster in
        TailPlace(
            cluster: cluster, topic: options.topic ?? kind.topic(in: configuration),
            requests: configuration.requestTopics.map(\.name))
    }
}

private func follow(_ kind: TailKind, _ place: TailPlace, _ options: TailOptions) -> ExitCode {
    // Before librdkafka's threads, which inherit the mask.
    let signals = StopSignals()
    let start: ReadingStart? =
        switch options.from {
        case .beginning: .beginning
        case .end: .end
        case .ago(let age): .time(max(0, LoopTime.read().wallMs - age.milliseconds))
        case nil: nil
        }
    do throws(CommandFailure) {
        guard let group = options.group, let command = options.command else {
            return try print(kind, place, start, options, signals)
        }
        let deadline = Deadline(after: options.deadline)
        let feeder = try GroupFeeder(
            kind, place.cluster, topic: place.topic, group: group, from: start ?? .beginning, until: deadline)
        let limits = BatchLimits(records: options.batch, total: options.count ?? .max)
        return try feeder.run(command, limits, until: deadline, signals) ? .fine : .failed
    } catch {
        complain("apns-worker tail: \(error)")
        return .failed
    }
}

/// Prints records until there is nothing more to print.
private func print(
    _ kind: TailKind, _ place: TailPlace, _ start: ReadingStart?, _ options: TailOptions,
    _ signals: borrowing StopSignals
) throws(CommandFailure) -> ExitCode {
    let deadline = Deadline(after: options.deadline)
    let wait = BrokerWait(place.cluster, until: deadline)
    if let text = options.sought?.explanation(place.requests) { complain(text) }
    let search = options.sought.map { Search($0, kind, place.cluster, requestTopics: place.requests) }
    let wanted = search?.wanted ?? options.count
    var reader = try TopicReader(place.cluster, topic: place.topic, wait)
    try reader.start(at: start ?? search?.start ?? .end)
    // A clock may have been wrong.
    var mayLookEarlier = start == nil && search.map { $0.start != .beginning } ?? false
    var hasSaidSo = false
    var printed = 0
    var isHeard = true
    while isHeard, printed < wanted ?? .max {
        if signals.came(withinMs: 0) { return wanted == nil ? .fine : .failed }
        if deadline.hasPassed {
            if wanted == nil, printed > 0 || search?.mustFind != true { return .fine }
            complain(
                search.map { "apns-worker tail: \($0.count(printed)) found before the deadline" }
                    ?? "apns-worker tail: \(printed) of \(wanted ?? 0) records came before the deadline")
            return .failed
        }
        try reader.followTopic()
        try reader.read(timeoutMs: deadline.leftMs(atMost: 200)) { partition, message in
            let record = ReadRecord(message, of: partition)
            guard search?.mayBe(record, of: kind) ?? true,
                let line = kind.printable(record, options.format ?? .json, options.sought)
            else { return true }
            isHeard = say(line + "\n")
            printed += 1
            return isHeard && printed < wanted ?? .max
        }
        guard let search, reader.isCaughtUp, isHeard, printed < wanted ?? .max, !hasSaidSo else { continue }
        if printed == 0, mayLookEarlier {
            mayLookEarlier = false
            reader = try TopicReader(place.cluster, topic: place.topic, wait)
            try reader.start(at: .beginning)
        } else {
            complain("\(search.count(printed)) found so far; waiting for what comes")
            hasSaidSo = true
        }
    }
    return .fine
}

extension TailKind {
    /// Returns the record's line; `nil` if it is not what is looked for or has no value, or cannot be read, which is
    /// reported.
    fileprivate func printable(_ record: ReadRecord, _ format: OutputFormat, _ sought: Sought?) -> String? {
        do throws(RecordError) {
            if let sought, !(try matches(record, sought)) { return nil }
            return try line(record, format)
        } catch {
            complain("\(record.place) cannot be read: \(error)")
            return nil
        }
    }

    private func matches(_ record: ReadRecord, _ sought: Sought) throws(RecordError) -> Bool {
        if self == .deadLetters { return sought.matches(try DeadLetter(record)) }
        guard let value = record.record.value else { return false }
        return self == .results
            ? sought.matches(try DeliveryResult(json: value)) : sought.matches(try UnregisteredToken(json: value))
    }
}
