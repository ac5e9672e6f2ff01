import CRdkafka
package import Kafka

/// ACLs of `User:worker` at the broker's protected listener, and changes to topics.
extension KafkaBroker {
    package enum Resource: Hashable, Sendable {
        case topic(String)
        case group(String)
        case cluster

        fileprivate var pattern: (type: rd_kafka_ResourceType_t, name: String) {
            switch self {
            case .topic(let name): (RD_KAFKA_RESOURCE_TOPIC, name)
            case .group(let name): (RD_KAFKA_RESOURCE_GROUP, name)
            case .cluster: (RD_KAFKA_RESOURCE_BROKER, "kafka-cluster")
            }
        }
    }

    package enum Operation: String, Sendable {
        case all, describe
        case read = "Read"
        case write = "Write"
        case create = "Create"
        case describeConfigs = "DescribeConfigs"

        fileprivate var c: rd_kafka_AclOperation_t {
            switch self {
            case .all: RD_KAFKA_ACL_OPERATION_ALL
            case .read: RD_KAFKA_ACL_OPERATION_READ
            case .write: RD_KAFKA_ACL_OPERATION_WRITE
            case .describe: RD_KAFKA_ACL_OPERATION_DESCRIBE
            case .create: RD_KAFKA_ACL_OPERATION_CREATE
            case .describeConfigs: RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS
            }
        }
    }

    /// The librdkafka properties of a client that authenticates as `User:worker` at `protectedServers`.
    package static let workerProperties = [
        KafkaProperty("security.protocol", "SASL_PLAINTEXT"), KafkaProperty("sasl.mechanism", "PLAIN"),
        KafkaProperty("sasl.username", "worker"), KafkaProperty("sasl.password", "worker-secret"),
    ]

    /// The same properties as a YAML flow mapping.
    package static let workerPropertiesText =
        "{" + workerProperties.map { "\($0.name): \($0.value)" }.joined(separator: ", ") + "}"

    package func allow(_ operation: Operation, _ resource: Resource) throws {
        try setRule(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, exists: true)
    }

    /// Removes a permission.
    package func revoke(_ operation: Operation, _ resource: Resource) throws {
        try setRule(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, exists: false)
    }

    /// Denies a permission, also for open connections. A denial takes precedence over every permission.
    package func deny(_ operation: Operation, _ resource: Resource) throws {
        try setRule(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_DENY, exists: true)
    }

    /// Removes a denial.
    package func lift(_ operation: Operation, _ resource: Resource) throws {
        try setRule(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_DENY, exists: false)
    }

    /// Creates or deletes an ACL, and waits until the broker applies the change. The controller answers when it has
    /// stored the change, before the broker has read it.
    private func setRule(
        _ operation: Operation, _ resource: Resource, _ permission: rd_kafka_AclPermissionType_t, exists: Bool
    ) throws {
        var binding = Self.rule(operation, resource, permission, rd_kafka_AclBinding_new)
        var filter = Self.rule(operation, resource, permission, rd_kafka_AclBindingFilter_new)
        defer { for rule in [binding, filter] { rd_kafka_AclBinding_destroy(rule) } }
        try administer {
            if exists {
                rd_kafka_CreateAcls($0, &binding, 1, nil, $1)
            } else {
                rd_kafka_DeleteAcls($0, &filter, 1, nil, $1)
            }
        }
        let isDone = try waitUntil(everyMs: 20) {
            try administer { rd_kafka_DescribeAcls($0, filter, nil, $1) } == (exists ? 1 : 0)
        }
        guard isDone else { throw Failure.refused("the broker does not apply an ACL") }
    }

    private typealias MakeRule = (
        rd_kafka_ResourceType_t, UnsafePointer<CChar>?, rd_kafka_ResourcePatternType_t, UnsafePointer<CChar>?,
        UnsafePointer<CChar>?, rd_kafka_AclOperation_t, rd_kafka_AclPermissionType_t, UnsafeMutablePointer<CChar>?, Int
    ) -> OpaquePointer?

    private static func rule(
        _ operation: Operation, _ resource: Resource, _ permission: rd_kafka_AclPermissionType_t, _ make: MakeRule
    ) -> OpaquePointer? {
        var text = [CChar](repeating: 0, count: 256)
        let (type, name) = resource.pattern
        return make(
            type, name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:worker", "*", operation.c, permission, &text,
            text.count)
    }

    /// Allows `User:worker` to use every transactional id. Kafka's own program creates the ACL, because librdkafka
    /// 2.0.2 does not support this resource type.
    package func allowTransactions() throws {
        let ended = try ChildProcess.run(
            "java",
            [
                "-cp", "\(Self.home ?? "")/libs/*", "org.apache.kafka.tools.AclCommand", "--bootstrap-server",
                bootstrapServers, "--add", "--allow-principal", "User:worker", "--operation", "All",
                "--transactional-id", "*", "--force",
            ])
        guard ended.ending == .exited(0) else { throw Failure.refused(ended.text) }
    }

    /// Increases a topic's number of partitions.
    package func setPartitions(of topic: String, to count: Int) throws {
        var text = [CChar](repeating: 0, count: 256)
        var list: [OpaquePointer?] = [rd_kafka_NewPartitions_new(topic, count, &text, text.count)]
        defer { rd_kafka_NewPartitions_destroy_array(&list, list.count) }
        try administer { rd_kafka_CreatePartitions($0, &list, list.count, nil, $1) }
        try awaitTopics("\(topic) does not get partitions") { $0[topic]?.partitions == count }
    }

    /// Deletes topics, and waits until the broker lists none of them.
    package func delete(_ topics: [String]) throws {
        var list: [OpaquePointer?] = topics.map { rd_kafka_DeleteTopic_new($0) }
        defer { rd_kafka_DeleteTopic_destroy_array(&list, list.count) }
        try administer { rd_kafka_DeleteTopics($0, &list, list.count, nil, $1) }
        try awaitTopics("topics are not deleted: \(topics)") { all in topics.allSatisfy { all[$0] == nil } }
    }

    /// Sends an admin request and waits for its answer. It ignores single results, because callers wait for the effect.
    ///
    /// - Returns: The number of ACLs in the answer.
    @discardableResult
    private func administer(_ request: (OpaquePointer, OpaquePointer) -> Void) throws -> Int {
        let configuration = rd_kafka_conf_new()
        var text = [CChar](repeating: 0, count: 256)
        for (name, value) in [("bootstrap.servers", bootstrapServers), ("log_level", "0")] {
            rd_kafka_conf_set(configuration, name, value, &text, text.count)
        }
        guard let client = rd_kafka_new(RD_KAFKA_PRODUCER, configuration, &text, text.count),
            let queue = rd_kafka_queue_new(client)
        else { throw Failure.refused("no client") }
        defer {
            rd_kafka_queue_destroy(queue)
            rd_kafka_destroy(client)
        }
        request(client, queue)
        guard let event = rd_kafka_queue_poll(queue, 120_000) else { throw Failure.refused("no answer in 120 s") }
        defer { rd_kafka_event_destroy(event) }
        guard rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw Failure.refused(String(cString: rd_kafka_event_error_string(event)))
        }
        var count = 0
        if let result = rd_kafka_event_DescribeAcls_result(event) {
            _ = rd_kafka_DescribeAcls_result_acls(result, &count)
        }
        return count
    }
}
