internal import Delivery
internal import Kafka
internal import Observability

/// What keeps one group from being joined or read, as its consumer said it, until it is over. Core thread.
///
/// librdkafka says that a fetch failed, and never that one succeeded again: of a partition with no new records nothing
/// else tells. Most errors it says again at every fetch (`fetch.error.backoff.ms`, half a second): such a one is over
/// when it was not said for `namedNs`. That a topic is unknown or denied it says once (rdkafka_fetcher.c,
/// rd_kafka_fetch_reply_handle_partition_error). A partition's is over when records come, or when a fetch tells another
/// end of its log. A topic's is over when it is assigned, or when it is found after a rebalance.
final class ReadingProblems {
    private struct Said {
        var problem: Problem
        /// When it was said last (monotonic).
        var lastNs: Int64
        /// Whether a fetch failed; else it lasts until the group has answered.
        var isOfFetch = false
        /// The end of the partition's log as it was known then, once it was looked for.
        var logEnd: Int64?

        var isSaidOnce: Bool { problem.code == .topicAuthorizationFailed || problem.code.isUnknownTopic }
    }

    /// How long an error is named that is said again at every fetch.
    static let namedNs: Int64 = 20_000_000_000

    /// The group's id.
    private let group: String
    private let logger: Logger
    private var said: [Problem.Subject: Said] = [:]
    private var missingThread = MissingThread()

    init(ofGroup group: String, logger: Logger) {
        self.group = group
        self.logger = logger
    }

    /// What cannot be read now, or is refused though it is there.
    ///
    /// - Parameter logEnd: where a partition's log ends, as the last fetch told; -1 if none did.
    func all(_ now: DeliveryTime, logEnd: (TopicPartition) -> Int64 = { _ in -1 }) -> [Problem] {
        // A fetch that moves the known end of the log was allowed to read it.
        for case (let subject, let one) in said where one.problem.code == .topicAuthorizationFailed && one.isOfFetch {
            guard case .partition(let partition) = subject else { continue }
            let end = logEnd(partition)
            if one.logEnd == nil { said[subject]?.logEnd = end }
            if let before = one.logEnd, end != before { said[subject] = nil }
        }
        return said.values.filter { !isOver($0, now) }.map(\.problem)
            + [missingThread.problem(ofGroup: group, nowNs: now.ns)].compactMap(\.self)
    }

    private func isOver(_ one: Said, _ now: DeliveryTime) -> Bool {
        one.isOfFetch && !one.isSaidOnce && now.ns - one.lastNs >= Self.namedNs
    }

    /// A topic, or a partition of it, cannot be read.
    ///
    /// - Parameter isOfFetch: a fetch failed, which goes on by itself; else it lasts until the group has answered.
    func note(
        _ subject: Problem.Subject, _ code: KafkaCode, of topic: String, isOfFetch: Bool, _ now: DeliveryTime
    ) {
        let advice = Advice.reading(topic, group: group, code)
        let before = said[subject].flatMap { isOver($0, now) ? nil : $0 }
        let problem = Problem(
            subject: subject, kind: .reading, code: code, advice: advice,
            sinceNs: before?.problem.sinceNs ?? now.ns)
        said[subject] = Said(problem: problem, lastNs: now.ns, isOfFetch: isOfFetch)
        logger.debug(
            .kafka, "cannot be read; trying on", about: "\(subject) \(code.name)",
            ["subject": "\(subject)", "error": "\(code.name)", "advice": "\(advice)"])
    }

    /// Takes all topics that the cluster has: one that was missing may be there again.
    func exist(_ topics: Set<String>) {
        guard !said.isEmpty else { return }
        said = said.filter { entry in
            if case .topic(let name) = entry.key { !topics.contains(name) } else { true }
        }
    }

    /// Topics that cannot be read as a whole: nothing is known of their partitions.
    var unavailableTopics: [String] {
        said.keys.compactMap { if case .topic(let name) = $0 { name } else { nil } }
    }

    /// Records of it came.
    func isRead(_ partition: TopicPartition) {
        if !said.isEmpty { said[.partition(partition)] = nil }
    }

    /// It is read from now on.
    func isAssigned(_ partition: TopicPartition) {
        forget(partition)
        said[.topic(partition.topic)] = nil
    }

    /// It is not ours any more.
    func forget(_ partition: TopicPartition) { said[.partition(partition)] = nil }

    /// The trouble of partitions that are not ours any more is nobody's.
    func keepOnly(_ isOurs: (TopicPartition) -> Bool) {
        guard !said.isEmpty else { return }
        said = said.filter { entry in
            if case .partition(let partition) = entry.key { isOurs(partition) } else { true }
        }
    }

    /// These are subscribed to from now on: the trouble of others is over. What a pattern finds, nobody knows here.
    func isSubscribed(to topics: [String]) {
        guard !said.isEmpty, !topics.contains(where: { $0.hasPrefix("^") }) else { return }
        said = said.filter { entry in
            if case .topic(let name) = entry.key { topics.contains(name) } else { true }
        }
    }

    /// The group cannot be joined anew.
    func cannotJoin(_ code: KafkaCode, _ now: DeliveryTime) {
        let problem = Problem(
            subject: .group(group), kind: .rejoining, code: code, advice: Advice.group(group, code),
            sinceNs: said[.group(group)]?.problem.sinceNs ?? now.ns)
        said[.group(group)] = Said(problem: problem, lastNs: now.ns)
    }

    /// The group can be joined.
    func canJoin() { said[.group(group)] = nil }

    /// There was no room for the thread of a broker.
    func missesThread(_ now: DeliveryTime) { missingThread.note(nowNs: now.ns) }

    /// The topic that librdkafka names as one that a subscription cannot have (rdkafka_topic.c,
    /// rd_kafka_propagate_consumer_topic_errors).
    static func unavailableTopic(in text: String) -> String? {
        guard let start = text.firstRange(of: "Subscribed topic not available: ")?.upperBound else { return nil }
        return text[start...].firstIndex(of: ":").map { String(text[start..<$0]) }
    }
}
