import Configuration
import EventLoop
import Kafka
import PushRecords
import Worker

/// `apns-worker tail`.
func tail(_ arguments: [String]) -> ExitCode {
    let (word, rest) = operand(arguments)
    switch parsed(TailOptions.table, rest, TailOptions()) {
    case .failure(let exit): return exit.code
    case .success(let options):
        let kinds = TailKind.allCases.map(\.rawValue)
        guard let kind = word.flatMap({ TailKind(rawValue: $0) }) else {
            let problem = word.map { "there is no \(printable($0)) to follow" } ?? "what is to be followed?"
            let suggestion =
                word.flatMap { nearest(to: $0, among: kinds) }.map { "did you mean \($0)?" }
                ?? "say one of \(kinds.joined(separator: ", ")) first"
            complain("apns-worker tail: \(problem); \(suggestion) (see apns-worker tail --help)")
            return .wrongUsage
        }
        if let complaint = options.complaint(kind) {
            complain("apns-worker tail: \(complaint) (see apns-worker tail --help)")
            return .wrongUsage
        }
        switch tailPlace(kind, options) {
        case .failure(let exit): return exit.code
        case .success(let place): return follow(kind, place, options)
        }
    }
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
    let isPointed = options.id != nil || options.group != nil
    let start: ReadingStart
    switch options.from ?? (isPointed ? .beginning : .end) {
    case .beginning: start = .beginning
    case .end: start = .end
    case .ago(let age): start = .time(max(0, LoopTime.read().wallMs - age.milliseconds))
    }
    do throws(CommandFailure) {
        if let group = options.group, let command = options.command {
            let feeder = try GroupFeeder(kind, place.cluster, topic: place.topic, group: group, from: start)
            let batches = BatchLimits(records: options.batch, total: options.count)
            return try feeder.run(command, batches, until: Deadline(after: options.deadline), signals)
        }
        return try print(kind, place, start, options, signals)
    } catch {
        complain("apns-worker tail: \(error.line)")
        return .failed
    }
}

/// Prints records until there is nothing more to print.
private func print(
    _ kind: TailKind, _ place: TailPlace, _ start: ReadingStart, _ options: TailOptions,
    _ signals: borrowing StopSignals
) throws(CommandFailure) -> ExitCode {
    let sought = options.id.map { SoughtID($0) }
    if let text = sought?.explanation(place.requests) { complain(text) }
    let deadline = Deadline(after: options.deadline)
    let reader = try TopicReader(place.cluster, topic: place.topic, from: start)
    let wanted = sought == nil ? options.count : 1
    var printed = 0
    var isHeard = true
    var hasSaidSo = false
    while isHeard, printed < wanted ?? .max {
        if signals.came(withinMs: 0) { return wanted == nil ? .fine : .failed }
        if deadline.hasPassed {
            guard let wanted else { return .fine }
            complain(
                sought == nil
                    ? "apns-worker tail: \(printed) of \(wanted) records came before the deadline"
                    : "apns-worker tail: the notification was not found before the deadline")
            return .failed
        }
        try reader.read(timeoutMs: deadline.leftMs(atMost: 200)) { record in
            guard let line = line(of: record, kind, options.format, sought) else { return true }
            isHeard = say(line + "\n")
            printed += 1
            return isHeard && printed < wanted ?? .max
        }
        if sought != nil, !hasSaidSo, printed == 0, reader.isCaughtUp {
            complain("not found so far; waiting for it to come")
            hasSaidSo = true
        }
    }
    return .fine
}

/// The record's line; `nil`: it is none of what is looked for, says nothing, or cannot be read, which is said.
private func line(of record: ReadRecord, _ kind: TailKind, _ format: OutputFormat, _ sought: SoughtID?) -> String? {
    do throws(RecordError) {
        if let sought, !(try kind.matches(record, sought)) { return nil }
        return try kind.line(record, format)
    } catch {
        complain("\(record.place) cannot be read: \(error)")
        return nil
    }
}

extension TailKind {
    fileprivate func matches(_ record: ReadRecord, _ sought: SoughtID) throws(RecordError) -> Bool {
        switch self {
        case .results:
            guard let value = record.value else { return false }
            return sought.matches(try DeliveryResult(json: value))
        case .deadLetters: return sought.matches(try DeadLetter(record))
        case .unregistered: return false
        }
    }
}
