/// What it means that a right is missing, and which one to grant: one line for whoever runs a command.
///
/// `nil` of each: the code is about something else.
package enum Denial {
    package static func reading(_ topic: String, _ code: KafkaCode) -> String? {
        code == .topicAuthorizationFailed ? "topic \(topic) cannot be read: grant READ on topic \(topic)" : nil
    }

    /// `topic a`, or `topics a, b`.
    package static func naming(_ topics: [String]) -> String {
        "\(topics.count == 1 ? "topic" : "topics") \(topics.joined(separator: ", "))"
    }

    package static func writing(_ topics: [String], _ code: KafkaCode) -> String? {
        let these = naming(topics)
        return switch code {
        case .topicAuthorizationFailed: "\(these) cannot be written: grant WRITE on \(these)"
        case .clusterAuthorizationFailed:
            "\(these) cannot be written: grant WRITE on \(these), or IDEMPOTENT_WRITE on the cluster"
        default: nil
        }
    }

    /// Of a group that is joined, or that commits are made for.
    package static func using(group: String, _ code: KafkaCode) -> String? {
        code == .groupAuthorizationFailed ? "group \(group) cannot be used: grant READ on group \(group)" : nil
    }

    package static func writing(transactionalID id: String, _ code: KafkaCode) -> String? {
        code == .transactionalIDAuthorizationFailed
            ? "nothing can be written in transactions: grant WRITE and DESCRIBE on transactional id \(id)" : nil
    }
}
