internal import Kafka

/// Something of Kafka that keeps a part of the worker from its work; the rest goes on.
struct KafkaProblem: Equatable {
    enum Subject: Hashable {
        case topic(String)
        case partition(TopicPartition)
        case group(String)
    }

    enum Trouble: String {
        case unreported = "what was written to it by itself is not reported"
        case unacknowledged =
            "a record was written to it more than 10 s ago and has no acknowledgement; the producer tries on, and what waits for it stays open"
        case refusingSingle = "it refuses single records while it takes others; they are tried again"
        case writing = "it cannot be written; what needs it waits"
        case reading = "it cannot be read"
        case unthreaded = "the system had no thread for one of its brokers; what that one leads may not be read"
        case committing = "commits are refused"
        case joining = "the group cannot be joined anew; trying again"

        var kind: Fault.Kind {
            switch self {
            case .writing, .unreported, .unacknowledged, .refusingSingle: .unwritable
            case .reading, .unthreaded: .unreadable
            case .committing: .uncommitted
            case .joining: .unjoined
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
