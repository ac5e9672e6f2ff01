internal import Kafka

/// Asks which of the topics that results and dead letters name are there. Where a pattern of `requests.topics` fits
/// whatever somebody made up there may be as many as records, and librdkafka keeps each that it was asked for: beyond
/// `limit` only those are asked for that a list of all has. One thread.
struct TopicLookup {
    /// More no configuration names one by one, and what one may not see is in no list.
    static let limit = 100

    private let reader: OffsetReader
    private let watch: ReplayWatch
    /// Of them `reader` has handles.
    private var asked: Set<String> = []

    private static let questionMs: Int32 = 10_000

    init(_ reader: OffsetReader, _ watch: ReplayWatch) {
        self.reader = reader
        self.watch = watch
    }

    /// Those that are not there may be left out.
    mutating func topics(_ names: Set<String>) throws(ReplayFailure) -> [String: TopicDescription] {
        var names = names
        if asked.union(names).count > Self.limit {
            names.formIntersection(
                try watch.patiently { _ in
                    nil
                } _: { () throws(KafkaError) in
                    try reader.topicNames(timeoutMs: Self.questionMs)
                })
        }
        asked.formUnion(names)
        return try watch.patiently { _ in
            nil
        } _: { () throws(KafkaError) in
            try reader.topics(named: names.sorted(), timeoutMs: Self.questionMs)
        }
    }
}
