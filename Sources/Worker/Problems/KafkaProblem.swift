internal import Delivery
internal import Kafka

/// Something of Kafka that keeps a part of the worker from its work; the rest goes on.
struct KafkaProblem: Equatable {
    enum Subject: Hashable {
        case topic(String)
        case partition(TopicPartition)
        case group(String)
    }

    enum Trouble: String {
        case unacknowledged =
            "a record was written to it more than 10 s ago and has no acknowledgement; the producer tries on, and what waits for it stays open"
        case refusingSingle = "it refuses single records while it takes others; they are tried again"
        case writing = "it cannot be written; what needs it waits"
        case reading = "it cannot be read"
        case committing = "commits are refused"

        var kind: Fault.Kind {
            switch self {
            case .writing, .unacknowledged, .refusingSingle: .unwritable
            case .reading: .unreadable
            case .committing: .uncommitted
            }
        }
    }

    var subject: Subject
    var trouble: Trouble
    var code: KafkaCode
    /// What a person can do about it.
    var advice: String
    /// Since when (monotonic).
    var sinceNs: Int64

    var text: String { "\(trouble.rawValue): \(code.name)" }
}

extension KafkaProblem.Subject: CustomStringConvertible {
    var description: String {
        switch self {
        case .topic(let name): "topic \(name)"
        case .partition(let partition): "partition \(partition)"
        case .group(let name): "group \(name)"
        }
    }
}

/// What to do about an error of Kafka's.
enum Advice {
    /// - Parameter topic: that cannot be written.
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

    /// - Parameter topic: of which a record has no acknowledgement; nobody says why.
    static func unacknowledged(_ topic: String) -> String {
        "nothing is lost meanwhile; look at the brokers' logs, and at topic \(topic): a partition with fewer replicas in sync "
            + "than its min.insync.replicas takes nothing"
    }

    /// - Parameter topic: that cannot be read, or whose offsets cannot be committed.
    static func reading(_ topic: String, group: String, _ code: KafkaCode) -> String {
        switch code {
        case .topicAuthorizationFailed: "grant READ on topic \(topic)"
        case .badCompression, .badMessage, .notImplemented:
            "a batch of topic \(topic) cannot be read: look what its producer wrote there; delete the partition's records up to it "
                + "(kafka-delete-records.sh) to read on behind it"
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

/// Records that were gone before they were read: retention took them, or somebody deleted them. What is lost stays
/// lost, so each partition is named for some time after the last such loss. Decides only; no clock, no I/O.
struct LostRecords {
    private struct Loss {
        var partition: TopicPartition
        var offsets: Int64
        var lastNs: Int64
    }

    private var losses: [Loss] = []

    /// How long a loss is named.
    static let namedNs: Int64 = 10 * 60 * 1_000_000_000
    /// Of partitions; the losses longest ago make room.
    static let limit = 1_000

    /// Reading went on beyond so many offsets; those of transactions' marks and of what compaction took count, too.
    mutating func note(_ partition: TopicPartition, offsets: Int64, nowNs: Int64) {
        guard offsets > 0 else { return }
        var loss = Loss(partition: partition, offsets: 0, lastNs: nowNs)
        if let index = losses.firstIndex(where: { $0.partition == partition }) { loss = losses.remove(at: index) }
        if nowNs - loss.lastNs >= Self.namedNs { loss.offsets = 0 }
        let (sum, isOver) = loss.offsets.addingReportingOverflow(offsets)
        loss.offsets = isOver ? .max : sum
        loss.lastNs = nowNs
        losses.append(loss)
        if losses.count > Self.limit { losses.removeFirst() }
    }

    func faults(nowNs: Int64) -> [Fault] {
        losses.filter { nowNs - $0.lastNs < Self.namedNs }.map { loss in
            Fault(
                "partition \(loss.partition)", .lost,
                "\(loss.offsets) offsets were gone before they were read: their records are lost",
                "raise retention.ms of topic \(loss.partition.topic), and set its retention.bytes to -1")
        }
    }
}
