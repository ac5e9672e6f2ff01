internal import Delivery
internal import Kafka

/// What keeps a group's topics and partitions from being read, by the errors of its consumer.
///
/// librdkafka reports that a fetch failed, and never that one succeeded again. It repeats most errors at every fetch
/// (`fetch.error.backoff.ms`, half a second): such a problem is over after `namedNs` without a report. That a topic is
/// unknown or denied it reports once (rdkafka_fetcher.c, rd_kafka_fetch_reply_handle_partition_error): a partition's is
/// over when records come, and a topic's when it is assigned, or exists after a rebalance.
struct ReadingProblems {
    static let namedNs: Int64 = 20_000_000_000

    private let group: String
    /// The problems, and when each is over unless it is reported again (monotonic).
    private var entries: [Problem.Subject: (problem: Problem, endNs: Int64)] = [:]

    init(ofGroup group: String) { self.group = group }

    /// Returns the current problems, and drops those that are over or of a subject that does not count any more.
    mutating func all(
        _ now: DeliveryTime, where counts: (Problem.Subject) -> Bool = { _ in true }
    ) -> [Problem] {
        if !entries.isEmpty { entries = entries.filter { $0.value.endNs > now.ns && counts($0.key) } }
        return entries.values.map(\.problem)
    }

    /// Notes that a topic or partition cannot be read.
    ///
    /// - Parameter isOfFetch: a fetch failed, which is repeated; otherwise the problem lasts until it is forgotten.
    mutating func note(_ subject: Problem.Subject, _ code: KafkaCode, isOfFetch: Bool, _ now: DeliveryTime) {
        let topic =
            switch subject {
            case .partition(let partition): partition.topic
            case .topic(let name): name
            default: "\(subject)"
            }
        let advice = Advice.reading(topic, group: group, code)
        let isRepeated = isOfFetch && code != .topicAuthorizationFailed && !code.isUnknownTopic
        entries[subject] = (Problem(subject, .reading, code, advice), isRepeated ? now.ns + Self.namedNs : .max)
    }

    mutating func forget(_ subject: Problem.Subject) {
        if !entries.isEmpty { entries[subject] = nil }
    }

    /// Takes all topics that the cluster has: the problems of those are over.
    mutating func exist(_ topics: Set<String>) {
        for topic in unavailableTopics where topics.contains(topic) { entries[.topic(topic)] = nil }
    }

    /// Topics that cannot be read as a whole: nothing is known of their partitions.
    var unavailableTopics: [String] {
        entries.keys.compactMap { if case .topic(let name) = $0 { name } else { nil } }
    }

    /// The topic that librdkafka names as one that a subscription cannot have (rdkafka_topic.c,
    /// rd_kafka_propagate_consumer_topic_errors).
    static func unavailableTopic(in text: String) -> String? {
        guard let start = text.firstRange(of: "Subscribed topic not available: ")?.upperBound else { return nil }
        return text[start...].firstIndex(of: ":").map { String(text[start..<$0]) }
    }
}
