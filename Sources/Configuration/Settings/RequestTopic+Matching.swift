extension RequestTopic {
    /// Kafka's own topics, which no pattern stands for: a worker that read `__consumer_offsets` would answer each of
    /// its commits with a dead letter, which is committed for again.
    package static let internalTopics = [
        "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata",
    ]

    /// Those of `topics` that this entry stands for, as librdkafka finds them that is told to leave out
    /// `internalTopics`.
    package func matching(_ topics: some Sequence<String>) -> [String] {
        guard isPattern else { return topics.filter { $0 == name } }
        guard let pattern = try? Pattern(name) else { return [] }
        return topics.filter { pattern.matches($0) && !Self.internalTopics.contains($0) }
    }
}
