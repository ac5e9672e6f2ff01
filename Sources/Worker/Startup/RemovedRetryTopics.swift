internal import Configuration
internal import EventLoop
internal import Glibc
internal import Kafka
internal import Observability

/// Finds retry topics that the configuration no longer names and that still hold records of the group, so that they are
/// read, too.
///
/// It looks at the start and after each rebalance, since another member may have a configuration that names them. A
/// found topic is read until it is deleted or the worker ends: a member that still names it may write to it. Core
/// thread; another thread asks the brokers and ends with the answer.
final class RemovedRetryTopics {
    /// The longest delay that a retry topic can have. Its own is not known any more, so each record's due time counts.
    static let delayMs: Int64 = 168 * 3_600_000
    fileprivate static let timeoutMs: Int32 = 3_000
    private static let retryNs: Int64 = 60_000_000_000

    private let configuration: WorkerConfiguration
    private let cluster: ClusterSettings
    private let loop: Loop
    private let logger: Logger
    /// Subscribes to these in addition to the tiers of the configuration.
    private let onChange: ([String]) -> Void
    private let onTopics: (Set<String>) -> Void
    /// The topics that are read, in the order in which they were found.
    private(set) var topics: [String] = []
    private(set) var isAsking = false
    /// The group changed while the brokers were being asked.
    private var mustAskAgain = false

    init(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, loop: Loop, logger: Logger,
        onChange: @escaping ([String]) -> Void, onTopics: @escaping (Set<String>) -> Void
    ) {
        self.configuration = configuration
        self.cluster = cluster
        self.loop = loop
        self.logger = logger
        self.onChange = onChange
        self.onTopics = onTopics
    }

    /// Begins to ask the brokers; while they are being asked, asks once more after that.
    func look() {
        guard !isAsking else {
            mustAskAgain = true
            return
        }
        let answers = Mailbox<Result<Answer, KafkaError>>(loop: loop) { [weak self] answers in
            for answer in answers { self?.take(answer) }
        }
        let (configuration, cluster) = (configuration, cluster)
        let thread = try? startThread("topics") {
            answers.post(Result { () throws(KafkaError) in try Answer(configuration, cluster) })
        }
        guard let thread else { return lookLater() }
        pthread_detach(thread)
        isAsking = true
    }

    private func lookLater() { loop.schedule(afterNs: Self.retryNs) { [weak self] in self?.look() } }

    private func take(_ answer: Result<Answer, KafkaError>) {
        isAsking = false
        defer {
            if mustAskAgain {
                mustAskAgain = false
                look()
            }
        }
        switch answer {
        case .success(let answer):
            onTopics(answer.existing)
            take(found: answer.found, existing: answer.existing)
        case .failure(let error):
            logger.warning(
                .kafka, "lookup of removed retry topics failed, trying again",
                ["error": .text(error.text), "advice": "allow Describe on all topics and on the group"])
            lookLater()
        }
    }

    func take(found: [String], existing: Set<String>) {
        let begun = found.filter { !topics.contains($0) }
        let gone = topics.filter { !existing.contains($0) }
        guard !begun.isEmpty || !gone.isEmpty else { return }
        for topic in begun {
            logger.info(.kafka, "removed retry topic found, reading what is left in it", ["topic": "\(topic)"])
        }
        topics.removeAll { gone.contains($0) }
        topics += begun
        onChange(topics)
    }

    /// The brokers' answers. The topics are known by the offsets that the retry group has committed and by the retry
    /// records there: another worker's requests may be read by a group of that name. (The admin API of librdkafka
    /// 2.0.2, which could list the offsets, was seen not to answer on a fresh cluster.)
    struct Answer: Sendable {
        let found: [String]
        let existing: Set<String>

        /// Waits at most `timeoutMs` for each of four answers, and for a record of each topic.
        init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings) throws(KafkaError) {
            let named = Set(configuration.outputTopics.map(\.name)).union(configuration.requestTopics.map(\.name))
            let timeoutMs = RemovedRetryTopics.timeoutMs
            let topics = try Topics(cluster).all(timeoutMs: timeoutMs)
            existing = Set(topics.keys)
            let others = topics.values.filter {
                $0.code == .none && !named.contains($0.name) && !$0.name.hasPrefix("__")
            }
            let partitions = others.flatMap(\.all)
            let group = configuration.consumer(.retries, of: cluster).memberGroupID
            let reader = try OffsetReader(cluster, group: group, fetchKilobytes: 64)
            let committed = partitions.isEmpty ? [] : try reader.committed(partitions, timeoutMs: timeoutMs)
            let read = Set(committed.filter { $0.offset != nil }.map(\.partition.topic))
            let places = committed.filter { read.contains($0.partition.topic) }
            let bounds = places.isEmpty ? [:] : try reader.bounds(of: places.map(\.partition), timeoutMs: timeoutMs)
            var isOfRetries: [String: Bool] = [:]
            for place in places where isOfRetries[place.partition.topic] == nil {
                guard let range = bounds[place.partition] else { continue }
                let first = max(place.offset ?? 0, range.lowerBound)
                guard first < range.upperBound else { continue }
                isOfRetries[place.partition.topic] = try reader.holdsRetry(place.partition, at: first)
            }
            found = isOfRetries.filter(\.value).keys.sorted()
        }
    }
}

extension OffsetReader {
    /// Whether the first record from an offset on is a retry record.
    fileprivate func holdsRetry(_ partition: TopicPartition, at offset: Int64) throws(KafkaError) -> Bool {
        try start(partition, at: offset)
        defer { stop(partition) }
        var isRetry = false
        var error: KafkaError?
        let hasCome = next(timeoutMs: RemovedRetryTopics.timeoutMs) { _, message in
            message.forEachHeader { name, _ in
                if name.elementsEqual("push-retry-request".utf8) { isRetry = true }
            }
        } trouble: { _, trouble in
            switch trouble {
            case .end, .outOfRange: break
            case .unreadable(_, let cause), .failed(let cause): error = cause
            }
        }
        if let error { throw error }
        guard hasCome else { throw KafkaError(.timedOut, "\(partition) tells no record") }
        return isRetry
    }
}
