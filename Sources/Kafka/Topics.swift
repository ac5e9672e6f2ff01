import CRdkafka
import Glibc

package struct TopicDescription: Hashable, Sendable {
    package var name: String
    package var partitions: Int
    /// The reason why the topic cannot be used (for example `LEADER_NOT_AVAILABLE`), or `.none`.
    package var code = KafkaCode.none
    /// The smallest number of replicas of a partition, or `nil` if the cluster has fewer than three brokers.
    package var replicas: Int?

    package var all: [TopicPartition] { (0..<Int32(clamping: partitions)).map { TopicPartition(name, $0) } }
}

package struct NewTopic: Hashable, Sendable {
    package var name: String
    package var partitions: Int
    package var replicationFactor: Int
    package var configuration: [KafkaProperty]

    package init(_ name: String, partitions: Int, replicationFactor: Int, configuration: [KafkaProperty] = []) {
        self.name = name
        self.partitions = partitions
        self.replicationFactor = replicationFactor
        self.configuration = configuration
    }
}

/// The settings of a topic on which the worker's delivery guarantees depend.
package struct TopicConfiguration: Hashable, Sendable {
    /// The values of `cleanup.policy`, such as `delete` and `compact`.
    package var cleanupPolicies: [String]
    /// The value of `retention.ms`, or `nil` for no limit.
    package var retentionMs: Int64?
    /// The value of `retention.bytes` (per partition), or `nil` for no limit.
    package var retentionBytes: Int64?
    /// The value of `unclean.leader.election.enable`: whether a replica that lacks records may become the leader.
    package var electsUncleanLeaders = false
    /// Whether producers set the records' timestamps (`message.timestamp.type=CreateTime`).
    package var hasProducersTime = false
    /// The value of `min.insync.replicas`, or `nil` if unknown.
    package var minInSyncReplicas: Int?
    /// The value of `max.message.bytes`: the maximum size of a batch, or `nil` if unknown.
    package var maxMessageBytes: Int64?

    package var isCompacted: Bool { cleanupPolicies.contains("compact") }
}

/// Describes and creates topics, for the worker's start and the command `check`. Calls wait for the brokers, so use a
/// thread without other work.
@safe package final class Topics {
    let client: ClientHandle
    /// The last reason why no broker answered, stored because librdkafka reports the reason only once.
    private var lastError: KafkaError?

    /// Creates an instance with its own librdkafka client. No broker needs to be reachable.
    package init(_ cluster: ClusterSettings) throws(KafkaError) {
        client = try ClientHandle(RD_KAFKA_PRODUCER, cluster.all(users: []))
    }

    /// Returns all topics of the cluster, because a request by name could create topics (`auto.create.topics.enable`).
    ///
    /// - Throws: If no broker answers, the reason that librdkafka last reported, such as a refused password.
    package func all(timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        do throws(KafkaError) {
            let topics = try client.describeTopics(onlyKnown: false, timeoutMs: timeoutMs)
            lastError = nil
            return topics
        } catch {
            for case .error(let cause) in client.clientEvents() { lastError = cause }
            throw lastError ?? error
        }
    }

    package func all(
        showing names: [String], withinMs: Int64, timeoutMs: Int32
    ) throws(KafkaError) -> [String: TopicDescription] {
        let deadlineMs = Stopwatch.nowMs + withinMs
        while true {
            let found = try all(timeoutMs: timeoutMs)
            if names.allSatisfy({ found[$0]?.code == KafkaCode.none }) || Stopwatch.nowMs >= deadlineMs { return found }
            usleep(50_000)
        }
    }

    /// Creates topics. Returns the result for each name, with the code `.none` if the topic was created.
    ///
    /// - Parameter onlyTries: whether the brokers only validate the request and create nothing.
    package func create(
        _ topics: [NewTopic], onlyTries: Bool = false, timeoutMs: Int32
    ) throws(KafkaError) -> [String: KafkaError] {
        let request = AdminRequest(
            client, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeoutMs: timeoutMs, onlyTries: onlyTries)
        var list: [OpaquePointer?] = unsafe []
        defer { unsafe rd_kafka_NewTopic_destroy_array(&list, list.count) }
        for topic in topics {
            var text = [CChar](repeating: 0, count: 256)
            let new = unsafe rd_kafka_NewTopic_new(
                topic.name, Int32(clamping: topic.partitions), Int32(clamping: topic.replicationFactor), &text,
                text.count)
            guard let new = unsafe new else {
                throw KafkaError(.invalidArgument, "topic \(topic.name): \(ClientHandle.string(text))")
            }
            unsafe list.append(new)
            for property in topic.configuration {
                try check(unsafe rd_kafka_NewTopic_set_config(new, property.name, property.value))
            }
        }
        unsafe rd_kafka_CreateTopics(client.raw, &list, list.count, request.options, request.queue)
        let event = try request.wait(timeoutMs: timeoutMs)
        var count = 0
        var results: [String: KafkaError] = [:]
        guard
            let topics = unsafe rd_kafka_CreateTopics_result_topics(
                rd_kafka_event_CreateTopics_result(event.raw), &count)
        else { return [:] }
        for index in 0..<count {
            let result = unsafe topics[index]
            let code = unsafe KafkaCode(rd_kafka_topic_result_error(result))
            let text = unsafe rd_kafka_topic_result_error_string(result).map { unsafe String(cString: $0) } ?? ""
            results[unsafe String(cString: rd_kafka_topic_result_name(result))] = KafkaError(code, text)
        }
        return results
    }

    /// Returns the configuration of existing topics. Omits topics for which the brokers return no configuration.
    package func configurations(
        of topics: [String], timeoutMs: Int32
    ) throws(KafkaError) -> [String: TopicConfiguration] {
        let request = AdminRequest(client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, timeoutMs: timeoutMs)
        var list: [OpaquePointer?] = unsafe topics.map {
            unsafe rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, $0)
        }
        defer { unsafe rd_kafka_ConfigResource_destroy_array(&list, list.count) }
        unsafe rd_kafka_DescribeConfigs(client.raw, &list, list.count, request.options, request.queue)
        let event = try request.wait(timeoutMs: timeoutMs)
        var count = 0
        var results: [String: TopicConfiguration] = [:]
        let resources = unsafe rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(event.raw), &count)
        for index in 0..<count {
            guard let resource = unsafe resources?[index],
                unsafe rd_kafka_ConfigResource_error(resource) == RD_KAFKA_RESP_ERR_NO_ERROR
            else { continue }
            results[unsafe String(cString: rd_kafka_ConfigResource_name(resource))] = unsafe configuration(resource)
        }
        return results
    }

    private func configuration(_ resource: OpaquePointer) -> TopicConfiguration {
        var configuration = TopicConfiguration(cleanupPolicies: ["delete"], retentionMs: nil)
        var count = 0
        let entries = unsafe rd_kafka_ConfigResource_configs(resource, &count)
        for index in 0..<count {
            guard let entry = unsafe entries?[index], let name = unsafe rd_kafka_ConfigEntry_name(entry),
                let value = unsafe rd_kafka_ConfigEntry_value(entry)
            else { continue }
            let text = unsafe String(cString: value)
            switch unsafe String(cString: name) {
            case "cleanup.policy": configuration.cleanupPolicies = text.split(separator: ",").map { String($0) }
            case "retention.bytes": configuration.retentionBytes = Int64(text).flatMap { $0 < 0 ? nil : $0 }
            case "unclean.leader.election.enable": configuration.electsUncleanLeaders = text == "true"
            case "message.timestamp.type": configuration.hasProducersTime = text == "CreateTime"
            case "min.insync.replicas": configuration.minInSyncReplicas = Int(text)
            case "max.message.bytes": configuration.maxMessageBytes = Int64(text)
            case "retention.ms": configuration.retentionMs = Int64(text).flatMap { $0 < 0 ? nil : $0 }
            default: break
            }
        }
        return configuration
    }
}

/// One admin request, with the queue for its answer.
///
/// Do not use it for requests to a group's coordinator (offsets, members). If the coordinator cannot be reached within
/// the time limit, librdkafka destroys the request, and version 2.0.2 aborts the process when the coordinator comes
/// back: `rd_kafka_admin_coord_request` answers through the freed request (rdkafka_coord.c, rd_kafka_coord_req_fsm).
@safe private struct AdminRequest: ~Copyable {
    let queue: OpaquePointer
    let options: OpaquePointer

    init(_ client: ClientHandle, _ kind: rd_kafka_admin_op_t, timeoutMs: Int32, onlyTries: Bool = false) {
        unsafe queue = rd_kafka_queue_new(client.raw)
        unsafe options = rd_kafka_AdminOptions_new(client.raw, kind)
        var text = [CChar](repeating: 0, count: 256)
        // The request timeout limits how long the client retries. The operation timeout limits how long the controller
        // waits for the replicas of new topics.
        unsafe rd_kafka_AdminOptions_set_request_timeout(options, timeoutMs, &text, text.count)
        if kind == RD_KAFKA_ADMIN_OP_CREATETOPICS {
            unsafe rd_kafka_AdminOptions_set_operation_timeout(options, timeoutMs, &text, text.count)
        }
        if onlyTries { unsafe rd_kafka_AdminOptions_set_validate_only(options, 1, &text, text.count) }
    }

    deinit {
        unsafe rd_kafka_AdminOptions_destroy(options)
        unsafe rd_kafka_queue_destroy(queue)
    }

    func wait(timeoutMs: Int32) throws(KafkaError) -> QueueEvent {
        guard let event = unsafe QueueEvent(polling: queue, timeoutMs: timeoutMs + 1000) else {
            throw KafkaError(.timedOut, "the brokers did not answer within \(timeoutMs) ms")
        }
        guard event.code == .none else { throw event.error }
        return event
    }
}

extension ClientHandle {
    /// Returns descriptions of all topics. With `onlyKnown`, returns only the topics for which the client has a handle,
    /// and the brokers may create those that are missing.
    func describeTopics(onlyKnown: Bool, timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        try check(unsafe rd_kafka_metadata(raw, onlyKnown ? 0 : 1, nil, &metadata, timeoutMs))
        defer { unsafe rd_kafka_metadata_destroy(metadata) }
        var topics: [String: TopicDescription] = [:]
        for index in 0..<max(0, Int(unsafe metadata!.pointee.topic_cnt)) {
            let topic = unsafe metadata!.pointee.topics[index]
            let name = unsafe String(cString: topic.topic)
            let partitions = unsafe UnsafeBufferPointer(start: topic.partitions, count: Int(topic.partition_cnt))
            let replicas = unsafe partitions.map { Int(unsafe $0.replica_cnt) }.min()
            topics[name] = unsafe TopicDescription(
                name: name, partitions: partitions.count, code: KafkaCode(topic.err),
                replicas: metadata!.pointee.broker_cnt < 3 ? nil : replicas)
        }
        return topics
    }
}
