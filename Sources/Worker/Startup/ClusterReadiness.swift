package import Configuration
package import Kafka

/// Waits until Kafka can be reached and has every topic as it must be.
package struct ClusterReadiness {
    private let configuration: WorkerConfiguration
    private let cluster: ClusterSettings
    private var topics: Topics
    private let check: TopicCheck
    /// Why no broker answered, as told last: librdkafka does not repeat itself.
    private var lastReason: String?
    /// The client lacks a thread of its own, and will for ever.
    private var isLame = false

    /// Makes what is missing where `kafka.create_topics` says so; else asks the brokers whether it could be made.
    private let makesTopics: Bool

    /// How long brokers may take to know a topic that was just made.
    private static let showingMs: Int64 = 10_000

    /// - Throws: `StartFailure` for properties that librdkafka does not take.
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
        /// With so many partitions of request topics, those that patterns find now included, a line for each group with
        /// rights that it lacks, lines about what may lose records one day, and the topics that a worker would make,
        /// where this one does not.
        case ready(requestPartitions: Int, denied: [String], warnings: [String], toBeMade: [String])
        /// No broker answered; the text says why.
        case unreachable(String)
        /// The brokers do not make the topics that are missing; the lines say why. Later they may: some of them are
        /// still starting.
        case uncreated([String])
    }

    /// One try, which waits at most `timeoutMs` for each of its questions.
    ///
    /// - Throws: `StartFailure` when Kafka answered and something is missing or unsafe.
    package mutating func attempt(timeoutMs: Int32) throws(StartFailure) -> Outcome {
        if isLame {
            do throws(KafkaError) {
                topics = try Topics(cluster)
                isLame = false
            } catch {
                return .unreachable("\(error)")
            }
        }
        var found: [String: TopicDescription]
        do throws(KafkaError) {
            found = try topics.all(timeoutMs: timeoutMs)
        } catch {
            lastReason = lastClientError() ?? lastReason
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
                    found = try topics.all(showing: new.map(\.name), withinMs: Self.showingMs, timeoutMs: timeoutMs)
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
        return .ready(
            requestPartitions: partitions,
            denied: missingRights(
                to: requests.filter { found[$0]?.code == KafkaCode.none }, found, timeoutMs: timeoutMs),
            warnings: doubts + warnings, toBeMade: toBeMade)
    }

    /// Returns a line for each group that may not be used, or may not read its topics. What the brokers do not say in
    /// time is taken for granted.
    private func missingRights(
        to requests: Set<String>, _ found: [String: TopicDescription], timeoutMs: Int32
    ) -> [String] {
        let tiers = configuration.retry.tiers.map(\.topic).filter { found[$0]?.code == KafkaCode.none }
        let asked: [(group: String, rights: GroupRights?)] =
            [(ConsumerSettings.Role.requests, requests.sorted()), (.retries, tiers)].map { role, topics in
                let group = configuration.consumer(role, of: cluster).memberGroupID
                // Without a topic to ask about, any topic tells of the group.
                let names = topics.isEmpty ? [configuration.results.topic] : Array(topics.prefix(Self.rightsLimit))
                return (group, try? GroupRights(cluster, groupID: group, topics: names))
            }
        return asked.compactMap { group, rights in
            switch rights?.missing(timeoutMs: timeoutMs) {
            case nil: nil
            case .group?:
                "group \(group) may not be used: allow Read on the group (kafka.group_id) to the worker's user"
            case .topics(let names)?:
                "group \(group) may not read \(Denial.naming(names)): allow Read on it to the worker's user"
            }
        }
    }

    /// Topics whose rights are asked for, each by a question of its own.
    private static let rightsLimit = 100

    private mutating func lastClientError() -> String? {
        var text: String?
        for case .error(let error) in topics.events() {
            // Of the errors that come of it, none says so.
            if error.code == .noResources { isLame = true }
            text = isLame ? "the system has no thread left; \(KafkaCode.roomForThreads)" : error.text
        }
        return text
    }
}
