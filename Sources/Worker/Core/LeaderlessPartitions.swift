internal import Kafka

/// The partitions of which two rounds of the watch in turn were told that they have no leader: one that is elected as it
/// should be is there by the second. What is in such a partition cannot be read, and nothing be written to it, and no client
/// says so: it waits for the leader (a producer until `message.timeout.ms` is over).
struct LeaderlessPartitions {
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
    mutating func look(_ topics: [TopicDescription]) -> [String: Found] {
        var now: [String: Set<Int32>] = [:]
        var found: [String: Found] = [:]
        for topic in topics where !topic.leaderless.isEmpty {
            let leaderless = Set(topic.leaderless)
            now[topic.name] = leaderless
            let still = leaderless.intersection(before[topic.name] ?? [])
            guard let first = still.min() else { continue }
            found[topic.name] = Found(count: still.count, first: first, partitions: topic.partitions)
        }
        before = now
        return found
    }
}
