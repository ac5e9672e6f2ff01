package import Configuration
internal import EventLoop
internal import Glibc
package import Kafka
internal import Observability

/// Waits until Kafka can be reached and has every topic as it must be.
package struct ClusterReadiness {
    private let configuration: WorkerConfiguration
    private let cluster: ClusterSettings
    private let topics: Topics
    private let check: TopicCheck
    /// The reason why no broker answered. librdkafka does not repeat it.
    private var lastReason: String?
    /// Makes missing topics where `kafka.create_topics` says so; otherwise asks the brokers whether they could be made.
    private let makesTopics: Bool

    package init(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, makesTopics: Bool = true
    ) throws(StartFailure) {
        self.configuration = configuration
        self.cluster = cluster
        self.makesTopics = makesTopics
        check = TopicCheck(configuration)
        do throws(KafkaError) {
            topics = try Topics(cluster)
        } catch {
            throw StartFailure([configuration.line(of: error)], isPassing: error.code == .noResources)
        }
    }

    package enum Outcome {
        /// - `requestPartitions`: the partitions of request topics, with those that patterns find now.
        /// - `startingAtEnd`: those of them that are read from their end (`delivery.start: latest`).
        /// - `denied`: a line for each group that lacks permissions.
        /// - `warnings`: lines about what may lose records one day.
        /// - `toBeMade`: missing topics that a worker would make, where this one does not.
        case ready(
            requestPartitions: Int, startingAtEnd: Set<TopicPartition>, denied: [String], warnings: [String],
            toBeMade: [String])
        case unreachable(String)
        /// The brokers do not make the missing topics; the lines say why. They may later, once all have started.
        case uncreated([String])
    }

    /// One try, which waits at most `timeoutMs` for each of its questions.
    ///
    /// - Throws: `StartFailure` when Kafka answered and something is missing or unsafe.
    package mutating func attempt(timeoutMs: Int32) throws(StartFailure) -> Outcome {
        var found: [String: TopicDescription]
        do throws(KafkaError) {
            found = try topics.all(timeoutMs: timeoutMs)
        } catch {
            for case .error(let error) in topics.events() { lastReason = error.text }
            return .unreachable(lastReason ?? "\(error)")
        }
        // What was made a moment ago may not be known everywhere yet.
        if configuration.kafka.createTopics == nil, !check.missing(in: found).isEmpty {
            let names = check.missing(in: found).map(\.name)
            if let later = try? topics.all(showing: names, withinMs: 3_000, timeoutMs: timeoutMs) { found = later }
        }
        var toBeMade: [String] = []
        var doubts: [String] = []
        if let how = configuration.kafka.createTopics, !check.missing(in: found).isEmpty {
            let new = check.creations(in: found, how)
            do throws(KafkaError) {
                let refused = check.uncreatedLines(
                    try topics.create(new, onlyTries: !makesTopics, timeoutMs: timeoutMs))
                guard refused.isEmpty else { return .uncreated(refused) }
                if makesTopics {
                    found = try topics.all(showing: new.map(\.name), withinMs: 10_000, timeoutMs: timeoutMs)
                    // A broker may know what its controller made a moment later.
                    guard check.missing(in: found).isEmpty else {
                        return .unreachable("the topics that were just made do not show yet")
                    }
                }
            } catch {
                guard !makesTopics else { return .unreachable("\(error)") }
                doubts = ["the brokers do not say whether the missing topics can be made: \(error)"]
            }
            if !makesTopics { toBeMade = new.map(\.name) }
        }
        if toBeMade.isEmpty, let missing = check.missingLine(in: found) { throw StartFailure([missing]) }
        let there = check.expected.map(\.name).filter { !toBeMade.contains($0) }
        let configurations = try? topics.configurations(of: there, timeoutMs: timeoutMs)
        let unsafeLines = check.unsafeLines(configurations ?? [:])
        guard unsafeLines.isEmpty else { throw StartFailure(unsafeLines) }
        var requests: Set<String> = []
        for entry in configuration.requestTopics {
            requests.formUnion(entry.isPattern ? entry.matching(found.keys) : [entry.name])
        }
        requests.subtract(configuration.outputTopics.map(\.name))
        let partitions = requests.reduce(0) { $0 + (found[$1]?.partitions ?? 0) }
        let warnings = check.warningLines(configurations, of: there)
        let readable = requests.filter { found[$0]?.code == KafkaCode.none }
        var startingAtEnd: Set<TopicPartition> = []
        do throws(KafkaError) {
            startingAtEnd = try partitionsWithoutStart(of: readable, found, timeoutMs: timeoutMs)
        } catch {
            return .unreachable("the offsets of group \(configuration.kafka.groupID): \(error)")
        }
        if configuration.delivery.start == .fail, !startingAtEnd.isEmpty {
            let names = Set(startingAtEnd.map(\.topic)).sorted().joined(separator: ", ")
            throw StartFailure([
                "group \(configuration.kafka.groupID) has no committed offset in \(names), and delivery.start is fail: "
                    + "set it to earliest to send everything there, or to latest to skip it"
            ])
        }
        return .ready(
            requestPartitions: partitions, startingAtEnd: startingAtEnd,
            denied: missingRights(to: readable, found, timeoutMs: timeoutMs),
            warnings: doubts + warnings, toBeMade: toBeMade)
    }

    /// Returns the partitions of topics in which the group has committed nothing, unless all are read from their
    /// beginning anyway. A new partition of a known topic is none of them.
    private func partitionsWithoutStart(
        of topics: Set<String>, _ found: [String: TopicDescription], timeoutMs: Int32
    ) throws(KafkaError) -> Set<TopicPartition> {
        let partitions = topics.flatMap { topic in
            (0..<Int32(clamping: found[topic]?.partitions ?? 0)).map { TopicPartition(topic, $0) }
        }
        guard configuration.delivery.start != .earliest, !partitions.isEmpty else { return [] }
        // Joins nothing.
        let consumer = try Consumer(configuration.consumer(.requests, of: cluster))
        let committed = try consumer.committed(partitions, timeoutMs: timeoutMs)
        let known = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
        return Set(partitions.filter { !known.contains($0.topic) })
    }

    /// Returns a line for each group that may not be used, or may not read its topics. Rights that the brokers do not
    /// tell in time are taken for granted.
    private func missingRights(
        to requests: Set<String>, _ found: [String: TopicDescription], timeoutMs: Int32
    ) -> [String] {
        let tiers = configuration.retry.tiers.map(\.topic).filter { found[$0]?.code == KafkaCode.none }
        return [(ConsumerSettings.Role.requests, requests.sorted()), (.retries, tiers)].compactMap { role, topics in
            let group = configuration.consumer(role, of: cluster).memberGroupID
            // Without a topic to ask about, any topic tells of the group. Each is a question of its own.
            let names = topics.isEmpty ? [configuration.results.topic] : Array(topics.prefix(100))
            let reader = try? OffsetReader(cluster, group: group, fetchKilobytes: 64)
            return switch reader?.missingRights(to: names, timeoutMs: timeoutMs) {
            case nil: nil
            case .group?:
                "group \(group) may not be used: allow Read on the group (kafka.group_id) to the worker's user"
            case .topics(let names)?:
                "group \(group) may not read \(Denial.naming(names)): allow Read on it to the worker's user"
            }
        }
    }
}

/// Why a worker cannot start: each line names a thing and says what to do. `run` exits with 78, or with 1 where the
/// configuration is not at fault.
package struct StartFailure: Error, CustomStringConvertible {
    package let lines: [String]
    /// Whether a start at another time may succeed: the system had no room for a thread.
    package let isPassing: Bool

    package init(_ lines: [String], isPassing: Bool = false) {
        self.lines = lines.map(namesOnce)
        self.isPassing = isPassing
    }

    package var description: String { lines.joined(separator: "\n") }

    init(of error: any Error) {
        if let error = error as? SystemError, error.call == "pthread_create", error.code == EAGAIN {
            self.init(["\(error); \(KafkaCode.roomForThreads)"], isPassing: true)
        } else {
            self.init(["\(error)"], isPassing: (error as? KafkaError)?.code == .noResources)
        }
    }
}
