extension RequestTopic {
    /// Those of `topics` that this entry stands for, as librdkafka finds them.
    package func matching(_ topics: some Sequence<String>) -> [String] {
        guard isPattern else { return topics.filter { $0 == name } }
        guard let pattern = try? Pattern(name) else { return [] }
        return topics.filter { pattern.matches($0) }
    }
}
