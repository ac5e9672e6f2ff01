import CRdkafka
import Glibc

/// A topic as the brokers describe it.
package struct TopicDescription: Hashable, Sendable {
    package let name: String
    package let partitions: Int
    /// `.none`, or why the topic cannot be used (for example `LEADER_NOT_AVAILABLE`).
    package let code: KafkaCode
    /// The partitions that no broker leads now, which the topic's own `code` does not tell.
    package let leaderless: [Int32]

    package init(name: String, partitions: Int, code: KafkaCode = .none, leaderless: [Int32] = []) {
        self.name = name
        self.partitions = partitions
        self.code = code
        self.leaderless = leaderless
    }
}

/// A topic to be created.
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

/// What of a topic's configuration the promise depends on.
package struct TopicConfiguration: Hashable, Sendable {
    /// `cleanup.policy`, split at its commas: `delete`, `compact`.
    package var cleanupPolicies: [String]
    /// `retention.ms`; `nil`: records are kept forever, as far as time goes.
    package var retentionMs: Int64?
    /// `retention.bytes`, of each partition; `nil`: records are kept, as far as size goes.
    package var retentionBytes: Int64?

    package init(cleanupPolicies: [String], retentionMs: Int64?, retentionBytes: Int64? = nil) {
        self.cleanupPolicies = cleanupPolicies
        self.retentionMs = retentionMs
        self.retentionBytes = retentionBytes
    }

    package var isCompacted: Bool { cleanupPolicies.contains("compact") }
}

/// Asks brokers about topics, and creates some: for start-up and `check`. Every call waits for the brokers, at most
/// `timeoutMs`; not for a thread that does anything else.
@safe package final class Topics {
    let client: ClientHandle

    /// Makes a client of its own; no broker needs to be there.
    package init(_ cluster: ClusterSettings) throws(KafkaError) {
        client = try ClientHandle(
            .producer, cluster.all(ours: [], users: [], fixed: []), events: RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG)
        guard let queue = unsafe rd_kafka_queue_get_main(client.raw) else { throw KafkaError(.wrongState) }
        defer { unsafe rd_kafka_queue_destroy(queue) }
        try unsafe client.sendLog(to: queue)
    }

    /// What the client has to say (why no broker can be reached, above all), since the last call.
    package func events() -> [ClientEvent] {
        guard let queue = unsafe rd_kafka_queue_get_main(client.raw) else { return [] }
        defer { unsafe rd_kafka_queue_destroy(queue) }
        var events: [ClientEvent] = []
        while let event = unsafe QueueEvent(polling: queue, timeoutMs: 0) {
            if let event = event.clientEvent(of: client) { events.append(event) }
        }
        return events
    }

    /// All topics of the cluster. Asking for some by name might create them (`auto.create.topics.enable`).
    package func all(timeoutMs: Int32) throws(KafkaError) -> [String: TopicDescription] {
        try Metadata(of: client, onlyKnown: false, timeoutMs: timeoutMs).topics
    }

    /// All topics of the cluster, once these are among them or the time is over.
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

    /// Creates topics; for each name what became of it: `.none`, `.topicAlreadyExists`, or an error.
    ///
    /// - Parameter onlyTries: nothing is created: the brokers say what would become of it.
    package func create(
        _ topics: [NewTopic], onlyTries: Bool = false, timeoutMs: Int32
    ) throws(KafkaError) -> [String: KafkaError] {
        let request = AdminRequest(client, RD_KAFKA_ADMIN_OP_CREATETOPICS, timeoutMs: timeoutMs)
        if onlyTries { try request.onlyTry() }
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

    /// The configuration of existing topics; those the brokers do not tell about are left out.
    package func configurations(of topics: [String], timeoutMs: Int32) throws(KafkaError) -> [String:
        TopicConfiguration]
    {
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
            case "retention.ms": configuration.retentionMs = Int64(text).flatMap { $0 < 0 ? nil : $0 }
            default: break
            }
        }
        return configuration
    }
}

/// One request to the brokers' administration, with the queue its answer comes to.
///
/// Never one for a group's coordinator (offsets, members): when that is not to be reached within the time limit, the
/// request is dismantled, and librdkafka 2.0.2 aborts as the coordinator comes back: `rd_kafka_admin_coord_request`
/// frees what is left of it and fails, and its failure is answered through the same (rdkafka_coord.c,
/// rd_kafka_coord_req_fsm).
@safe private struct AdminRequest: ~Copyable {
    let queue: OpaquePointer
    let options: OpaquePointer

    init(_ client: ClientHandle, _ kind: rd_kafka_admin_op_t, timeoutMs: Int32) {
        unsafe queue = rd_kafka_queue_new(client.raw)
        unsafe options = rd_kafka_AdminOptions_new(client.raw, kind)
        var text = [CChar](repeating: 0, count: 256)
        // How long the client goes on asking; and, for a creation, how long the controller waits for its replicas.
        _ = unsafe rd_kafka_AdminOptions_set_request_timeout(options, timeoutMs, &text, text.count)
        if kind == RD_KAFKA_ADMIN_OP_CREATETOPICS {
            _ = unsafe rd_kafka_AdminOptions_set_operation_timeout(options, timeoutMs, &text, text.count)
        }
    }

    func onlyTry() throws(KafkaError) {
        var text = [CChar](repeating: 0, count: 256)
        try check(
            unsafe rd_kafka_AdminOptions_set_validate_only(options, 1, &text, text.count), ClientHandle.string(text))
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

/// What the brokers say about topics.
@safe struct Metadata: ~Copyable {
    private let raw: UnsafePointer<rd_kafka_metadata>

    /// `onlyKnown`: of the topics that the client has handles of, which may create them; else of all.
    init(of client: ClientHandle, onlyKnown: Bool, timeoutMs: Int32) throws(KafkaError) {
        var metadata: UnsafePointer<rd_kafka_metadata>?
        try check(unsafe rd_kafka_metadata(client.raw, onlyKnown ? 0 : 1, nil, &metadata, timeoutMs))
        guard let metadata = unsafe metadata else { throw KafkaError(.wrongState) }
        unsafe raw = metadata
    }

    deinit { unsafe rd_kafka_metadata_destroy(raw) }

    var topics: [String: TopicDescription] {
        var topics: [String: TopicDescription] = [:]
        for index in 0..<max(0, Int(unsafe raw.pointee.topic_cnt)) {
            let topic = unsafe raw.pointee.topics[index]
            let name = unsafe String(cString: topic.topic)
            unsafe topics[name] = TopicDescription(
                name: name, partitions: Int(topic.partition_cnt), code: KafkaCode(topic.err),
                leaderless: Self.leaderless(of: topic))
        }
        return topics
    }

    /// A leader whose broker is gone may still be told, with an error.
    private static func leaderless(of topic: rd_kafka_metadata_topic) -> [Int32] {
        var leaderless: [Int32] = []
        for index in 0..<max(0, Int(unsafe topic.partition_cnt)) {
            let partition = unsafe topic.partitions[index]
            if unsafe partition.leader < 0 || partition.err == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE {
                unsafe leaderless.append(partition.id)
            }
        }
        return leaderless
    }

    /// Throws for the first topic that cannot be used.
    func checkTopics() throws(KafkaError) {
        for topic in topics.values where topic.code != .none {
            throw KafkaError(topic.code, "topic \(topic.name): \(topic.code.text)")
        }
    }
}
