internal import Configuration
internal import EventLoop
internal import Kafka
internal import Observability

/// Finds retry topics that were removed from the configuration but still contain records of the group, so that the
/// worker also reads these topics.
///
/// The search queries the brokers at the start and after each rebalance, because other members may have an older
/// configuration. Such a member may still produce to a removed topic, so the worker reads a found topic until it is
/// deleted or the worker ends. Core thread; the queries run on a temporary thread.
final class RemovedRetryTopics {
    /// The longest delay that a retry topic can have. The delay of a removed topic is unknown, so each record's own due
    /// time applies.
    static let delayMs: Int64 = 168 * 3_600_000
    /// More than the 20 s of `kafka.oauth.command`, because each query logs in anew.
    fileprivate static let timeoutMs: Int32 = 25_000
    private static let retryNs: Int64 = 60_000_000_000

    private let configuration: WorkerConfiguration
    private let cluster: ClusterSettings
    private let loop: Loop
    private let logger: Logger
    /// A function that subscribes to the given topics in addition to the configured retry topics.
    private let onChange: ([String]) -> Void
    private let onTopics: (Set<String>) -> Void
    /// The removed retry topics that the worker reads, in the order in which they were found.
    private(set) var topics: [String] = []
    let reads: BlockingReads
    private lazy var next = Alarm(loop: loop) { [weak self] in self?.search() }

    init(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, loop: Loop, logger: Logger,
        onChange: @escaping ([String]) -> Void, onTopics: @escaping (Set<String>) -> Void
    ) {
        self.configuration = configuration
        self.cluster = cluster
        self.loop = loop
        reads = BlockingReads(loop: loop)
        self.logger = logger
        self.onChange = onChange
        self.onTopics = onTopics
    }

    /// Begins a query of the brokers. If a query is running or no thread can be started, tries again a second later.
    func search() {
        let hasBegun = reads.begin({ [configuration, cluster] in
            Result { () throws(KafkaError) in try Self.query(configuration, cluster) }
        }) { [weak self] in self?.take($0) }
        if !hasBegun { next.set(afterNs: 1_000_000_000) }
    }

    private func take(_ answer: Result<Answer, KafkaError>) {
        switch answer {
        case .success(let answer):
            onTopics(answer.existing)
            take(found: answer.found, existing: answer.existing)
        case .failure(let error):
            logger.warning(
                .kafka, "lookup of removed retry topics failed, retrying",
                ["error": .text(error.text), "advice": "grant Describe on all topics and on the group"])
            next.set(afterNs: Self.retryNs)
        }
    }

    func take(found: [String], existing: Set<String>) {
        let begun = found.filter { !topics.contains($0) }
        let gone = topics.filter { !existing.contains($0) }
        guard !begun.isEmpty || !gone.isEmpty else { return }
        for topic in begun {
            logger.info(.kafka, "removed retry topic found, reading its remaining records", ["topic": "\(topic)"])
        }
        topics.removeAll { gone.contains($0) }
        topics += begun
        onChange(topics)
    }

    private typealias Answer = (found: [String], existing: Set<String>)

    /// Queries the brokers. A removed retry topic is one with committed offsets of the retry group and with a retry
    /// record. The offsets alone do not suffice, because another worker may use a group of the same name for requests.
    /// The offsets are queried with a consumer, because the admin API of librdkafka 2.0.2, which could list them, does
    /// not answer on a new cluster. Waits up to `timeoutMs` for each of four answers, and for a record of each topic.
    private static func query(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings
    ) throws(KafkaError) -> Answer {
        let named = Set(configuration.outputTopics.map(\.name)).union(configuration.requestTopics.map(\.name))
        let topics = try Topics(cluster).all(timeoutMs: timeoutMs)
        let others = topics.values.filter { $0.code == .none && !named.contains($0.name) && !$0.name.hasPrefix("__") }
        let partitions = others.flatMap(\.all)
        let group = configuration.consumer(.retries, of: cluster).memberGroupID
        let reader = try OffsetReader(cluster, group: group, fetchKilobytes: 64)
        let committed = partitions.isEmpty ? [] : try reader.committed(partitions, timeoutMs: timeoutMs)
        let read = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
        let places = committed.filter { read.contains($0.partition.topic) }
        let bounds = places.isEmpty ? [:] : try reader.bounds(of: places.map(\.partition), timeoutMs: timeoutMs)
        var isOfRetries: [String: Bool] = [:]
        for place in places where isOfRetries[place.partition.topic] == nil {
            guard let range = bounds[place.partition], case let first = max(place.offset ?? 0, range.lowerBound),
                first < range.upperBound
            else { continue }
            isOfRetries[place.partition.topic] = try reader.holdsRetry(place.partition, at: first)
        }
        return (isOfRetries.filter(\.value).keys.sorted(), Set(topics.keys))
    }
}

extension OffsetReader {
    /// Returns whether the first record at or after an offset is a retry record.
    fileprivate func holdsRetry(_ partition: TopicPartition, at offset: Int64) throws(KafkaError) -> Bool {
        try start(partition, at: offset)
        defer { stop(partition) }
        var answer = Result<Bool, KafkaError>.failure(KafkaError(.timedOut, "no record received from \(partition)"))
        _ = next(timeoutMs: RemovedRetryTopics.timeoutMs) { _, message in
            answer = .success(false)
            message.forEachHeader { name, _ in
                if name.elementsEqual("push-retry-request".utf8) { answer = .success(true) }
            }
        } trouble: { _, error, _ in
            switch error.code {
            case .partitionEnd, .offsetOutOfRange, .autoOffsetReset: answer = .success(false)
            default: answer = .failure(error)
            }
        }
        return try answer.get()
    }
}
