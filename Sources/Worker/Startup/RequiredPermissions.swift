package import Configuration
internal import Kafka

/// The Kafka permissions that `run` needs with a configuration. `check` asks the brokers for these permissions, and
/// `check --acl` prints commands that grant them.
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
    /// The request topics that are given as a pattern.
    private let patterns: [String]

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
        // Each pattern is printed in a comment, which a line break would end.
        patterns = configuration.requestTopics.filter(\.isPattern).map { String($0.name.filter { !$0.isNewline }) }
    }

    /// Returns the lines of a shell script: a command that grants READ on each group, a command that grants all
    /// operations on each topic, and for each pattern a comment with a command to complete.
    package func commands(grantedTo principal: String, servers: String) -> [String] {
        func command(_ operations: [Operation], _ resource: String) -> String {
            "kafka-acls.sh --bootstrap-server \(shellWord(servers)) --add --allow-principal \(shellWord(principal)) "
                + operations.map { "--operation \($0.rawValue) " }.joined() + resource
        }
        return groups.map { command([.read], "--group \(shellWord($0.name))") }
            + topics.map { command($0.operations, "--topic \($0.name)") }
            + patterns.flatMap { pattern in
                [
                    "# An ACL cannot contain the pattern \(pattern). Grant these operations on each topic that the "
                        + "worker shall read, or on a prefix of their names:",
                    "# " + command([.read, .describeConfigs], "--resource-pattern-type prefixed --topic PREFIX"),
                ]
            }
    }
}

/// Returns a word of a shell command, in quotes if it contains more than letters, digits and harmless punctuation.
private func shellWord(_ text: String) -> String {
    let isPlain = text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) || "._-:,=@/".contains($0) }
    return isPlain ? text : "'\(text.replacing("'", with: #"'\''"#))'"
}
