import CRdkafka
import Foundation
package import Kafka

/// What `User:worker` may do at a broker's protected listener, and topics that change or are taken away.
extension KafkaBroker {
    /// What a right is about.
    package enum Resource: Hashable, Sendable {
        case topic(String)
        case group(String)
        case cluster

        fileprivate var type: rd_kafka_ResourceType_t {
            switch self {
            case .topic: RD_KAFKA_RESOURCE_TOPIC
            case .group: RD_KAFKA_RESOURCE_GROUP
            case .cluster: RD_KAFKA_RESOURCE_BROKER
            }
        }

        fileprivate var name: String {
            switch self {
            case .topic(let name), .group(let name): name
            case .cluster: "kafka-cluster"
            }
        }
    }

    /// What is done with it.
    package enum Operation: Sendable {
        case all, read, write, describe, describeConfigs

        fileprivate var c: rd_kafka_AclOperation_t {
            switch self {
            case .all: RD_KAFKA_ACL_OPERATION_ALL
            case .read: RD_KAFKA_ACL_OPERATION_READ
            case .write: RD_KAFKA_ACL_OPERATION_WRITE
            case .describe: RD_KAFKA_ACL_OPERATION_DESCRIBE
            case .describeConfigs: RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS
            }
        }
    }

    /// How to be `User:worker` at `protectedServers`, as librdkafka's properties.
    package static let workerProperties = [
        KafkaProperty("security.protocol", "SASL_PLAINTEXT"), KafkaProperty("sasl.mechanism", "PLAIN"),
        KafkaProperty("sasl.username", "worker"), KafkaProperty("sasl.password", "worker-secret"),
    ]

    /// The same as a flow mapping of YAML.
    package static let workerPropertiesText =
        "{" + workerProperties.map { "\($0.name): \($0.value)" }.joined(separator: ", ") + "}"

    /// The part of server.properties that brings rights: everyone on the plain listener is a super user.
    static let rights = """
        authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
        super.users=User:ANONYMOUS
        allow.everyone.if.no.acl.found=false
        sasl.enabled.mechanisms=PLAIN
        listener.name.worker.sasl.enabled.mechanisms=PLAIN
        listener.name.worker.plain.sasl.jaas.config=\
        org.apache.kafka.common.security.plain.PlainLoginModule required user_worker="worker-secret";
        """

    /// Every right, by rules for all names (`*`).
    func grantAll() throws {
        for resource in [Resource.topic("*"), .group("*"), .cluster] { try allow(.all, resource) }
    }

    /// Gives a right; a denial of it, if there is one, goes on winning.
    package func allow(_ operation: Operation, _ resource: Resource) throws {
        try create(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW)
    }

    /// Takes a right away, whatever else is allowed; it holds for open connections, too.
    package func deny(_ operation: Operation, _ resource: Resource) throws {
        try create(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_DENY)
    }

    /// Takes a denial back.
    package func lift(_ operation: Operation, _ resource: Resource) throws {
        var text = [CChar](repeating: 0, count: 256)
        var filter: OpaquePointer? = rd_kafka_AclBindingFilter_new(
            resource.type, resource.name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:worker", "*", operation.c,
            RD_KAFKA_ACL_PERMISSION_TYPE_DENY, &text, text.count)
        defer { rd_kafka_AclBinding_destroy(filter) }
        try administer { client, queue in rd_kafka_DeleteAcls(client, &filter, 1, nil, queue) }
        try awaitRule(operation, resource, RD_KAFKA_ACL_PERMISSION_TYPE_DENY, isThere: false)
    }

    private func create(
        _ operation: Operation, _ resource: Resource, _ permission: rd_kafka_AclPermissionType_t
    ) throws {
        var text = [CChar](repeating: 0, count: 256)
        var binding: OpaquePointer? = rd_kafka_AclBinding_new(
            resource.type, resource.name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:worker", "*", operation.c,
            permission, &text, text.count)
        defer { rd_kafka_AclBinding_destroy(binding) }
        try administer { client, queue in rd_kafka_CreateAcls(client, &binding, 1, nil, queue) }
        try awaitRule(operation, resource, permission, isThere: true)
    }

    /// Waits until the broker goes by a change of its rules: the controller answers when it has stored the change, and
    /// the broker reads of it a moment later.
    private func awaitRule(
        _ operation: Operation, _ resource: Resource, _ permission: rd_kafka_AclPermissionType_t, isThere: Bool
    ) throws {
        var text = [CChar](repeating: 0, count: 256)
        let filter = rd_kafka_AclBindingFilter_new(
            resource.type, resource.name, RD_KAFKA_RESOURCE_PATTERN_LITERAL, "User:worker", "*", operation.c,
            permission,
            &text, text.count)
        defer { rd_kafka_AclBinding_destroy(filter) }
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        while try (administer { client, queue in rd_kafka_DescribeAcls(client, filter, nil, queue) } > 0) != isThere {
            guard Date() < deadline else { throw Failure.refused("the broker does not learn of a rule") }
            usleep(20_000)
        }
    }

    /// Lets `User:worker` write in transactions, whatever their ids: of these librdkafka 2.0.2 knows no rules, so it is
    /// not among what everyone is granted.
    package func allowTransactions() throws {
        try administer(
            "org.apache.kafka.tools.AclCommand",
            ["--add", "--allow-principal", "User:worker", "--operation", "All", "--transactional-id", "*", "--force"])
    }

    /// Lets a topic have so many partitions.
    package func setPartitions(of topic: String, to count: Int) throws {
        var text = [CChar](repeating: 0, count: 256)
        var list: [OpaquePointer?] = [rd_kafka_NewPartitions_new(topic, count, &text, text.count)]
        defer { rd_kafka_NewPartitions_destroy_array(&list, list.count) }
        try administer { client, queue in rd_kafka_CreatePartitions(client, &list, list.count, nil, queue) }
    }

    /// Deletes topics and waits until none of them shows any more.
    package func delete(_ topics: [String]) throws {
        var list: [OpaquePointer?] = topics.map { rd_kafka_DeleteTopic_new($0) }
        defer { rd_kafka_DeleteTopic_destroy_array(&list, list.count) }
        try administer { client, queue in rd_kafka_DeleteTopics(client, &list, list.count, nil, queue) }
        let asking = try Topics(ClusterSettings(bootstrapServers: bootstrapServers))
        let deadline = Date(timeIntervalSinceNow: ChildProcess.patience)
        while try asking.all(timeoutMs: 5_000).keys.contains(where: { topics.contains($0) }) {
            guard Date() < deadline else { throw Failure.refused("topics do not go: \(topics)") }
            usleep(20_000)
        }
    }

    /// Sends one request of the administrator's, and throws what the answer refuses. Returns the number of rules that
    /// the answer describes.
    @discardableResult
    private func administer(_ request: (OpaquePointer, OpaquePointer) -> Void) throws -> Int {
        let configuration = rd_kafka_conf_new()
        var text = [CChar](repeating: 0, count: 256)
        for (name, value) in [("bootstrap.servers", bootstrapServers), ("log_level", "0")] {
            rd_kafka_conf_set(configuration, name, value, &text, text.count)
        }
        guard let client = rd_kafka_new(RD_KAFKA_PRODUCER, configuration, &text, text.count) else {
            throw Failure.refused("no client")
        }
        defer { rd_kafka_destroy(client) }
        guard let queue = rd_kafka_queue_new(client) else { throw Failure.refused("no queue") }
        defer { rd_kafka_queue_destroy(queue) }
        request(client, queue)
        guard let event = rd_kafka_queue_poll(queue, 120_000) else { throw Failure.refused("no answer in 120 s") }
        defer { rd_kafka_event_destroy(event) }
        guard rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR else {
            throw Failure.refused(String(cString: rd_kafka_event_error_string(event)))
        }
        var count = 0
        if let result = rd_kafka_event_CreateAcls_result(event),
            let each = rd_kafka_CreateAcls_result_acls(result, &count)
        {
            for index in 0..<count {
                if let error = rd_kafka_acl_result_error(each[index]) {
                    throw Failure.refused(String(cString: rd_kafka_error_string(error)))
                }
            }
        }
        if let result = rd_kafka_event_DeleteAcls_result(event),
            let responses = rd_kafka_DeleteAcls_result_responses(result, &count)
        {
            for index in 0..<count {
                if let error = rd_kafka_DeleteAcls_result_response_error(responses[index]) {
                    throw Failure.refused(String(cString: rd_kafka_error_string(error)))
                }
                var matching = 0
                _ = rd_kafka_DeleteAcls_result_response_matching_acls(responses[index], &matching)
                guard matching > 0 else { throw Failure.refused("there was no such rule") }
            }
        }
        if let result = rd_kafka_event_DescribeAcls_result(event) {
            _ = rd_kafka_DescribeAcls_result_acls(result, &count)
            return count
        }
        let topics =
            rd_kafka_event_DeleteTopics_result(event).flatMap { rd_kafka_DeleteTopics_result_topics($0, &count) }
            ?? rd_kafka_event_CreatePartitions_result(event).flatMap {
                rd_kafka_CreatePartitions_result_topics($0, &count)
            }
        if let topics {
            for index in 0..<count {
                let code = rd_kafka_topic_result_error(topics[index])
                guard code == RD_KAFKA_RESP_ERR_NO_ERROR else {
                    throw Failure.refused(String(cString: rd_kafka_err2str(code)))
                }
            }
        }
        return 0
    }
}
