package import Configuration
internal import Kafka

/// The Kafka permissions that `run` needs with a configuration. `check` asks the brokers for these permissions.
///
/// `run` uses no transactions. An idempotent producer needs only WRITE on its topics (Kafka 2.8 and newer).
package struct RequiredPermissions {
    /// An operation of Kafka's ACLs. READ and WRITE include DESCRIBE.
    enum Operation: String {
        case read = "Read"
        case write = "Write"
        case create = "Create"
        case describeConfigs = "DescribeConfigs"
    }

    struct Topic {
        /// The configuration key of the topic.
        var path: String
        var name: String
        /// The consumer group that reads the topic, or `nil` if the worker only writes to the topic.
        var reader: ConsumerSettings.Role?
        var operations: [Operation]
    }

    /// The worker's consumer groups, which both need READ.
    let groups: [(role: ConsumerSettings.Role, name: String)]
    /// The topics that the configuration names.
    let topics: [Topic]

    package init(_ configuration: WorkerConfiguration) {
        let cluster = ClusterSettings(bootstrapServers: configuration.kafka.bootstrapServers)
        groups = [.requests, .retries].map { ($0, configuration.consumer($0, of: cluster).memberGroupID) }
        let ofAll: [Operation] =
            configuration.kafka.createTopics == nil ? [.describeConfigs] : [.describeConfigs, .create]
        let requests = configuration.requestTopics.filter { !$0.isPattern }.map {
            Topic(path: "requests.topics", name: $0.name, reader: .requests, operations: [.read] + ofAll)
        }
        let retries = Set(configuration.retry.tiers.map(\.topic))
        let outputs = configuration.outputTopics.map { path, name in
            retries.contains(name)
                ? Topic(path: path, name: name, reader: .retries, operations: [.read, .write] + ofAll)
                : Topic(path: path, name: name, operations: [.write] + ofAll)
        }
        topics = requests + outputs
    }
}
