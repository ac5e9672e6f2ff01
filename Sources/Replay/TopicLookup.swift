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

    /// How often topics that are not there are waited for yet, half a second each: however many are made up, it ends.
    private var patience = 20
    /// How often a topic that is not there is asked for.
    private static let lookLimit = 6

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

    /// The same; what is not there is asked for again: it may just be made anew, or its broker have begun a moment ago.
    mutating func settledTopics(_ names: Set<String>) throws(ReplayFailure) -> [String: TopicDescription] {
        var found: [String: TopicDescription] = [:]
        var left = names
        for _ in 0..<Self.lookLimit {
            found.merge(try topics(left)) { $1 }
            left = left.filter { found[$0]?.code.isUnknownTopic ?? true }
            guard !left.isEmpty, patience > 0 else { break }
            patience -= 1
            try watch.pause(ms: 500)
        }
        return found
    }
}
