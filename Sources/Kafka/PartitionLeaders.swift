/// Who leads which partition, and which leaders were silent: librdkafka answers a question about many partitions with
/// nothing where one of their leaders does not answer in time. Decides only who is asked about what; no clock, no I/O.
struct PartitionLeaders {
    private var leaders: [String: [Int32]] = [:]
    /// They did not answer when they were asked last.
    private var silent: Set<Int32> = []
    /// Silent ones that were asked in this round.
    private var asked: Set<Int32> = []

    /// Of a leader that is not known.
    private static let unknown: Int32 = -2
    /// Each takes the whole time of a question: more are not asked for one.
    private static let silencesLimit = 3

    /// Silent ones are asked once more, each once.
    mutating func beginRound(_ topics: some Sequence<TopicDescription>) {
        asked = []
        leaders = [:]
        note(topics)
    }

    mutating func note(_ topics: some Sequence<TopicDescription>) {
        for topic in topics { leaders[topic.name] = topic.leaders.isEmpty ? nil : topic.leaders }
    }

    /// Asks about these partitions, those without a leader excepted, and puts the answers together.
    ///
    /// - Parameter question: `nil`: not all of the leaders answered.
    mutating func ask<Answer>(
        _ partitions: [TopicPartition], _ question: ([TopicPartition]) -> [TopicPartition: Answer]?
    ) -> [TopicPartition: Answer] {
        var byLeader: [Int32: [TopicPartition]] = [:]
        for partition in partitions {
            let leader = leader(of: partition)
            if leader != -1 { byLeader[leader, default: []].append(partition) }
        }
        var found: [TopicPartition: Answer] = [:]
        /// Who is asked alone.
        var alone: [Int32] = []
        let others = byLeader.filter { !silent.contains($0.key) }
        if !others.isEmpty {
            if let answers = question(others.values.flatMap(\.self)) {
                found = answers
            } else if others.count > 1 {
                alone = others.keys.sorted()
            }
        }
        alone += silent.sorted().filter { byLeader[$0] != nil && !asked.contains($0) }
        var silences = 0
        for leader in alone where silences < Self.silencesLimit {
            asked.insert(leader)
            if let answers = question(byLeader[leader] ?? []) {
                found.merge(answers) { first, _ in first }
                silent.remove(leader)
            } else {
                silent.insert(leader)
                silences += 1
            }
        }
        return found
    }

    private func leader(of partition: TopicPartition) -> Int32 {
        guard let all = leaders[partition.topic], all.indices.contains(Int(partition.partition)) else {
            return Self.unknown
        }
        return all[Int(partition.partition)]
    }
}
