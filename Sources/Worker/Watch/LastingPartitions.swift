internal import Kafka

/// The partitions of which two rounds of the watch in turn were told the same trouble: one that moves from broker to
/// broker as it should is over by the second.
///
/// What is in a partition without a leader cannot be read, and to it and to one with too few replicas in sync nothing
/// can be written. No client says so: it waits, or tries on, for as long as it takes (a producer too, since
/// `message.timeout.ms` is 0).
struct LastingPartitions {
    /// Those of one topic.
    struct Found: Hashable, Sendable {
        var count: Int
        /// The lowest of them.
        var first: Int32
        /// How many partitions the topic has.
        var partitions: Int
    }

    private var before: [String: Set<Int32>] = [:]

    /// Takes what a round was told of the topics, and returns those that have such partitions. A round that was told
    /// nothing at all is none: leave it out.
    ///
    /// - Parameter troubled: the partitions of a topic that have the trouble.
    mutating func look(
        _ topics: [TopicDescription], _ troubled: (TopicDescription) -> [Int32]
    ) -> [String: Found] {
        var now: [String: Set<Int32>] = [:]
        var found: [String: Found] = [:]
        for topic in topics {
            let partitions = Set(troubled(topic))
            guard !partitions.isEmpty else { continue }
            now[topic.name] = partitions
            let still = partitions.intersection(before[topic.name] ?? [])
            guard let first = still.min() else { continue }
            found[topic.name] = Found(count: still.count, first: first, partitions: topic.partitions)
        }
        before = now
        return found
    }
}
