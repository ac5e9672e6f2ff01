import Configuration
import Kafka
import PushRecords

func tail(_ arguments: [String]) throws -> ExitCode {
    let (kind, options): (TailKind, TailOptions) = try parsed(
        TailOptions.table, arguments, TailOptions(), "kind of record")
    try options.check(kind)
    var cluster = ClusterSettings(bootstrapServers: options.servers ?? "", clientID: "apns-worker-tail")
    var (topic, requestTopics) = (options.topic ?? "", [String]())
    var sessionTimeoutMs: Int?
    if options.file != nil {
        let configuration: WorkerConfiguration
        (configuration, cluster) = try loaded(options.file)
        topic = options.topic ?? kind.topic(in: configuration)
        requestTopics = configuration.requestTopics.map(\.name)
        sessionTimeoutMs = Int(configuration.kafka.sessionTimeout.milliseconds)
        let group = configuration.kafka.groupID
        if options.group == group || options.group == "\(group).retry" {
            throw UsageError(
                "--group: the workers use the groups \(group) and \(group).retry themselves; choose another group")
        }
    }
    // The signals are blocked before librdkafka creates its threads, because threads inherit the signal mask.
    let signals = StopSignals()
    let deadline = Deadline(after: options.deadline)
    guard let group = options.group, let command = options.command else {
        return try follow(kind, cluster, topic, requestTopics, options, deadline, signals)
    }
    let feeder = try GroupFeeder(
        kind, cluster, topic: topic, group: group, sessionTimeoutMs: sessionTimeoutMs,
        from: options.from ?? .beginning, until: deadline)
    return try feeder.run(
        command, batch: options.batch, total: options.count ?? .max, until: deadline, signals) ? .fine : .failed
}

private func follow(
    _ kind: TailKind, _ cluster: ClusterSettings, _ topic: String, _ requestTopics: [String], _ options: TailOptions,
    _ deadline: Deadline, _ signals: borrowing StopSignals
) throws -> ExitCode {
    let search = options.search
    if let text = search?.explanation(requestTopics) { complain(text) }
    let plan = search?.plan(kind, cluster, requestTopics)
    let wanted = plan?.wanted ?? options.count
    let reader = try TopicReader(cluster, topic: topic, BrokerWait(cluster, until: deadline))
    try reader.start(at: options.from ?? plan?.start ?? .end)
    var hasReported = false
    var printed = 0
    var isRead = true
    while isRead, printed < wanted ?? .max {
        if signals.take() { return wanted == nil ? .fine : .failed }
        if deadline.hasPassed {
            // `Int.max` means that the number of the request's notifications is unknown.
            guard let wanted, wanted != .max || printed == 0 else { return .fine }
            let count = printed == 0 ? "no records" : "\(printed) of \(wanted) records"
            complain("apns-worker tail: \(count) \(search == nil ? "arrived" : "were found") before the deadline")
            return .failed
        }
        try reader.followTopic()
        try reader.read(timeoutMs: deadline.leftMs(atMost: 200)) { partition, message in
            do throws(RecordError) {
                guard let record = try PublishedRecord(kind, message), search?.matches(record) ?? true else {
                    return true
                }
                isRead = say((options.format == .json ? record.json : record.line) + "\n")
                printed += 1
            } catch {
                complain("\(partition)/\(message.offset) cannot be read: \(error)")
            }
            return isRead && printed < wanted ?? .max
        }
        if search != nil, !hasReported, reader.isCaughtUp, isRead, printed < wanted ?? .max {
            complain("\(printed == 0 ? "no" : "\(printed)") matching records found so far; waiting for new records")
            hasReported = true
        }
    }
    return .fine
}
