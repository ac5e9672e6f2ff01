internal import Configuration
internal import Kafka
internal import Observability

/// Checks that Kafka can be reached and that every topic exists with safe settings. Creates missing topics if
/// `kafka.create_topics` is set.
struct ClusterReadiness {
    private let configuration: WorkerConfiguration
    private let cluster: ClusterSettings
    private let topics: Topics
    private let check: TopicCheck
    /// Whether to ask the brokers whether missing topics could be created, instead of creating them, and to test WRITE
    /// on topics. For the command `check`.
    private let onlyChecks: Bool
    /// Queries committed offsets. Kept between attempts, because its first login may take longer than one attempt
    /// (`kafka.oauth.command`).
    private var consumer: Consumer?
    /// The topics that an earlier attempt asked the brokers to create, possibly without an answer.
    private var requested: Set<String> = []

    init(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, onlyChecks: Bool = false
    ) throws(StartFailure) {
        self.configuration = configuration
        self.cluster = cluster
        self.onlyChecks = onlyChecks
        check = TopicCheck(configuration)
        do throws(KafkaError) { topics = try Topics(cluster) } catch { throw StartFailure(of: error, configuration) }
    }

    enum Outcome {
        /// - `requestPartitions`: the number of partitions of all request topics, also of those that match a pattern.
        /// - `topics`: the topics that existed before missing topics were created.
        /// - `startingAtEnd`: the partitions to read from their log end (`delivery.start: latest`).
        /// - `denied`: a line for each group for which the worker lacks permissions.
        /// - `warnings`: lines about settings that may lose records later, and about failed checks.
        /// - `toBeMade`: missing topics that `run` would create, if `onlyChecks` is true.
        case ready(
            requestPartitions: Int, startingAtEnd: Set<TopicPartition>, topics: Set<String>, denied: [String],
            warnings: [String], toBeMade: [String])
        /// The reasons why the cluster is not ready. Another attempt may succeed.
        case waiting(Problem.Kind, [String], advice: String)
    }

    private func unreachable(_ error: KafkaError) -> Outcome {
        let (cause, advice) = Advice.connecting(error)
        let servers = configuration.kafka.bootstrapServers
        return .waiting(.kafkaUnreachable, ["Kafka cannot be reached at \(servers): \(cause)"], advice: advice)
    }

    /// Makes one attempt to get the cluster ready, which waits up to `timeoutMs` for each request.
    ///
    /// - Throws: `StartFailure` if Kafka answered, but a topic is missing or cannot be described, a topic's setting is
    ///   unsafe, or `delivery.start` is `fail` and a request topic has no committed offset.
    mutating func attempt(timeoutMs: Int32) throws(StartFailure) -> Outcome {
        var found: [String: TopicDescription]
        do throws(KafkaError) { found = try topics.all(timeoutMs: timeoutMs) } catch { return unreachable(error) }
        // A topic that was just created may be missing, because some brokers do not have its metadata yet.
        let absent = check.missing(in: found).map(\.name)
        if configuration.kafka.createTopics == nil, !absent.isEmpty,
            let later = try? topics.all(showing: absent, withinMs: 3_000, timeoutMs: timeoutMs)
        {
            found = later
        }
        let hidden = hiddenTopics(among: check.missing(in: found).map(\.name), timeoutMs: timeoutMs)
        guard hidden.isEmpty else { throw StartFailure(hidden) }
        let topicsAtStart = Set(found.keys).subtracting(requested)
        var toBeMade: [String] = []
        var doubts: [String] = []
        if let how = configuration.kafka.createTopics, !check.missing(in: found).isEmpty {
            let new = check.creations(in: found, how)
            requested.formUnion(new.map(\.name))
            do throws(KafkaError) {
                let refused = check.uncreatedLines(
                    try topics.create(new, onlyTries: onlyChecks, timeoutMs: timeoutMs))
                guard refused.isEmpty else {
                    return .waiting(
                        .topicsMissing, refused,
                        advice: "correct kafka.create_topics, or create the topics yourself")
                }
                if !onlyChecks {
                    found = try topics.all(showing: new.map(\.name), withinMs: 10_000, timeoutMs: timeoutMs)
                    // A broker may receive the metadata of new topics with a delay.
                    guard check.missing(in: found).isEmpty else {
                        return .waiting(
                            .topicsMissing, ["the newly created topics are not visible yet"],
                            advice: "if this lasts, grant Describe on the topics to the worker's user")
                    }
                }
            } catch {
                guard onlyChecks else { return unreachable(error) }
                doubts = ["it is unknown whether the brokers would create the missing topics: \(error)"]
            }
            if onlyChecks { toBeMade = new.map(\.name) }
        }
        if toBeMade.isEmpty, let missing = check.missingLine(in: found) { throw StartFailure([missing]) }
        let matched = check.matched(in: found.keys)
        let there = (check.expected + matched).map(\.name).filter { !toBeMade.contains($0) }
        let configurations = try? topics.configurations(of: there, timeoutMs: timeoutMs)
        let unsafeLines = check.unsafeLines(configurations ?? [:])
        guard unsafeLines.isEmpty else { throw StartFailure(unsafeLines) }
        let named = configuration.requestTopics.filter { !$0.isPattern }.map(\.name)
        let requests = Set(named + matched.map(\.name))
        let partitions = requests.reduce(0) { $0 + (found[$1]?.partitions ?? 0) }
        let warnings = check.warningLines(configurations, in: found, matched: matched, unmade: toBeMade)
        let readable = requests.filter { found[$0]?.code == KafkaCode.none }
        var startingAtEnd: Set<TopicPartition> = []
        do throws(KafkaError) {
            startingAtEnd = try partitionsWithoutStart(of: readable, found, timeoutMs: timeoutMs)
        } catch {
            let group = configuration.kafka.groupID
            return .waiting(
                error.code == .groupAuthorizationFailed ? .groupDenied : .kafkaUnreachable,
                ["the committed offsets of group \(group) cannot be read: \(error)"],
                advice: Advice.group(group, error.code))
        }
        if configuration.delivery.start == .fail, !startingAtEnd.isEmpty {
            let names = Set(startingAtEnd.map(\.topic)).sorted().joined(separator: ", ")
            throw StartFailure([
                "group \(configuration.kafka.groupID) has no committed offset in \(names), and delivery.start is fail: "
                    + "set delivery.start to earliest to send all existing requests, or to latest to skip them"
            ])
        }
        return .ready(
            requestPartitions: partitions, startingAtEnd: startingAtEnd, topics: topicsAtStart,
            denied: missingRights(matched.map(\.name), found, timeoutMs: timeoutMs),
            warnings: doubts + warnings, toBeMade: toBeMade)
    }

    /// Returns the partitions of topics for which the group has committed no offset, or none if all topics are read
    /// from their log start offsets anyway. New partitions of a topic that has committed offsets are not included.
    private mutating func partitionsWithoutStart(
        of topics: Set<String>, _ found: [String: TopicDescription], timeoutMs: Int32
    ) throws(KafkaError) -> Set<TopicPartition> {
        let partitions = topics.flatMap { found[$0]?.all ?? [] }
        guard configuration.delivery.start != .earliest, !partitions.isEmpty else { return [] }
        // The consumer only queries committed offsets and does not join the group.
        if consumer == nil { consumer = try Consumer(configuration.consumer(.requests, of: cluster)) }
        guard let consumer else { return [] }
        let committed = try consumer.committed(partitions, timeoutMs: timeoutMs)
        let known = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
        return Set(partitions.filter { !known.contains($0.topic) })
    }

    /// Returns lines about the topics that the brokers do not list because the user lacks READ and WRITE on them. Only
    /// a request for a topic's name distinguishes such a topic from one that does not exist.
    private func hiddenTopics(among names: [String], timeoutMs: Int32) -> [String] {
        guard !names.isEmpty, let reader = try? OffsetReader(cluster, fetchKilobytes: 64) else { return [] }
        let described = (try? reader.topics(named: names, timeoutMs: timeoutMs)) ?? [:]
        let hidden = check.permissions.topics.filter { described[$0.name]?.code == .topicAuthorizationFailed }
        return Self.lines(
            unreadable: hidden.filter { $0.operations.contains(.read) }.map(\.name),
            unwritable: hidden.filter { $0.operations.contains(.write) }.map(\.name))
    }

    /// Returns a line for each group on which the worker lacks READ, and a line for the topics on which it lacks READ.
    /// For the command `check`, also returns a line for the topics on which it lacks WRITE. If the brokers do not
    /// answer in time, the worker assumes that it has the permissions.
    ///
    /// - Parameter matched: the topics that match a pattern.
    private func missingRights(
        _ matched: [String], _ found: [String: TopicDescription], timeoutMs: Int32
    ) -> [String] {
        let required = check.permissions
        var lines: [String] = []
        var unreadable: [String] = []
        for (role, group) in required.groups {
            let topics = required.topics.filter { $0.reader == role }.map(\.name) + (role == .requests ? matched : [])
            // If there are no topics, any topic name shows whether the worker has access to the group. Each topic costs
            // a request, so at most 100 topics are checked.
            let names = topics.isEmpty ? [configuration.results.topic] : Array(topics.prefix(100))
            let reader = try? OffsetReader(cluster, group: group, fetchKilobytes: 64)
            guard let missing = reader?.missingRights(to: names, timeoutMs: timeoutMs) else { continue }
            if missing.group {
                lines.append(
                    "the worker's user has no access to group \(group): grant Read on the group (kafka.group_id)")
            } else if !topics.isEmpty {
                unreadable += missing.topics
            }
        }
        var unwritable: [String] = []
        // `run` does not test WRITE, so that its start depends on fewer requests. It reports a topic that it cannot
        // write when it writes to the topic.
        if onlyChecks {
            let written = required.topics.filter { $0.operations.contains(.write) }.map(\.name)
            let existing = written.filter { found[$0]?.code == KafkaCode.none }
            unwritable = (try? Producer.topicsDenied(cluster, among: existing, timeoutMs: timeoutMs)) ?? []
        }
        return lines + Self.lines(unreadable: unreadable, unwritable: unwritable)
    }

    private static func lines(unreadable: [String], unwritable: [String]) -> [String] {
        [(unreadable, "read", "Read"), (unwritable, "write", "Write")].filter { !$0.0.isEmpty }.map {
            "the worker's user cannot \($1) \(Denial.naming($0)): grant \($2)"
        }
    }
}
