internal import Delivery
internal import Kafka

enum Advice {
    static func writing(_ topic: String, _ code: KafkaCode) -> String {
        switch code {
        case .topicAuthorizationFailed: "grant WRITE on topic \(topic)"
        case .clusterAuthorizationFailed: "grant IDEMPOTENT_WRITE on the cluster, or WRITE on topic \(topic)"
        case .noResources: KafkaCode.roomForThreads
        case .invalidTimestamp: "compare this machine's clock with the brokers'"
        case .messageTooLarge: "raise max.message.bytes of topic \(topic) to 2048 at least"
        case .policyViolation, .invalidRecord: "look which policy of the brokers topic \(topic) breaks"
        case _ where code.isUnknownTopic: "create topic \(topic)"
        default: "look at topic \(topic) and at the brokers' logs"
        }
    }

    static func reading(_ topic: String, group: String, _ code: KafkaCode) -> String {
        switch code {
        case .topicAuthorizationFailed: "grant READ on topic \(topic)"
        case .badCompression, .badMessage, .notImplemented:
            "look what the producer wrote to topic \(topic); delete the partition's records up to the batch that cannot "
                + "be read (kafka-delete-records.sh) to read on behind it"
        case _ where code.isUnknownTopic: "create topic \(topic), or take it out of the configuration"
        default: self.group(group, code)
        }
    }

    static func group(_ name: String, _ code: KafkaCode) -> String {
        switch code {
        case .noResources: KafkaCode.roomForThreads
        case .groupAuthorizationFailed: "grant READ on group \(name)"
        case .coordinatorNotAvailable, .notCoordinator, .waitingForCoordinator, .timedOut, .transport:
            "look at the broker that coordinates group \(name)"
        default: "look at group \(name) and at the brokers' logs"
        }
    }
}

/// Records that were deleted before the worker read them, by retention or by a person. They stay lost, so each
/// partition is reported for some time after its last loss. Decides only; no clock, no I/O.
struct LostRecords {
    private var losses: [TopicPartition: (offsets: Int64, lastNs: Int64)] = [:]

    /// Counts the offsets that reading skipped. They include transaction markers and compacted records.
    mutating func note(_ partition: TopicPartition, offsets: Int64, nowNs: Int64) {
        guard offsets > 0 else { return }
        let before = losses[partition].flatMap { nowNs - $0.lastNs < Problem.lossNs ? $0.offsets : nil }
        losses[partition] = ((before ?? 0) &+ offsets, nowNs)
    }

    func problems(nowNs: Int64) -> [Problem] {
        losses.filter { nowNs - $0.value.lastNs < Problem.lossNs }.sorted { "\($0.key)" < "\($1.key)" }.map { loss in
            Problem(
                .partition(loss.key), .recordsLost,
                "\(loss.value.offsets) offsets were deleted before they were read: their records are lost",
                "raise retention.ms of topic \(loss.key.topic), and set its retention.bytes to -1")
        }
    }
}
