internal import Delivery
internal import Kafka
internal import Observability

/// What keeps one group from being joined or read, as its consumer said it. Core thread.
final class ReadingProblems {
    /// The group's id.
    private let group: String
    private let logger: Logger
    private var standing: [KafkaProblem.Subject: KafkaProblem] = [:]
    private var falseRefusals = FalseRefusals()
    private var missingThread = MissingThread()

    init(ofGroup group: String, logger: Logger) {
        self.group = group
        self.logger = logger
    }

    /// What cannot be read now, or is refused though it is there.
    func all(_ now: DeliveryTime) -> [KafkaProblem] {
        Array(standing.values) + falseRefusals.problems(nowNs: now.ns)
            + [missingThread.problem(ofGroup: group, nowNs: now.ns)].compactMap(\.self)
    }

    /// A topic, or a partition of it, cannot be read.
    func note(_ subject: KafkaProblem.Subject, _ code: KafkaCode, of topic: String, _ now: DeliveryTime) {
        let advice = Advice.reading(topic, group: group, code)
        standing[subject] = KafkaProblem(
            subject: subject, trouble: .reading, code: code, advice: advice,
            sinceNs: standing[subject]?.sinceNs ?? now.ns)
        logger.debug(
            .kafka, "cannot be read; trying on", about: "\(subject) \(code.name)",
            ["subject": "\(subject)", "error": "\(code.name)", "advice": "\(advice)"])
    }

    /// Records of it came.
    func isRead(_ partition: TopicPartition) {
        if !standing.isEmpty { standing[.partition(partition)] = nil }
    }

    /// It is read from now on.
    func isAssigned(_ partition: TopicPartition) {
        forget(partition)
        standing[.topic(partition.topic)] = nil
    }

    /// It is not ours any more.
    func forget(_ partition: TopicPartition) { standing[.partition(partition)] = nil }

    /// The group cannot be joined anew.
    func cannotJoin(_ code: KafkaCode, _ now: DeliveryTime) {
        standing[.group(group)] = KafkaProblem(
            subject: .group(group), trouble: .joining, code: code, advice: Advice.group(group, code),
            sinceNs: standing[.group(group)]?.sinceNs ?? now.ns)
    }

    /// The group can be joined.
    func canJoin() { standing[.group(group)] = nil }

    /// A broker refused an offset although the log has it.
    func refusedFalsely(_ partition: TopicPartition, _ now: DeliveryTime) {
        falseRefusals.note(partition, nowNs: now.ns)
    }

    /// There was no room for the thread of a broker.
    func missesThread(_ now: DeliveryTime) { missingThread.note(nowNs: now.ns) }

    /// The topic that librdkafka names as one that a subscription cannot have (rdkafka_topic.c,
    /// rd_kafka_propagate_consumer_topic_errors).
    static func unavailableTopic(in text: String) -> String? {
        guard let start = text.firstRange(of: "Subscribed topic not available: ")?.upperBound else { return nil }
        return text[start...].firstIndex(of: ":").map { String(text[start..<$0]) }
    }
}
