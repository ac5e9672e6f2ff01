/// Which partitions of a topic are read, while some are added to it and while it may be made anew: a value that is told
/// what is seen, and says what is to be read from the beginning of its log. No clock, no I/O.
///
/// Nothing is passed over: of a partition that was not there before nobody has read anything, nor of a topic that came
/// back after it was gone. What cannot be told from a log that goes on may be read twice.
package struct FollowedTopic {
    private let topic: String
    /// The offset that is read next; 0: all is read.
    private var positions: [TopicPartition: Int64]
    /// What is left to read of what was there when reading began: the offset at which that ends.
    private var ends: [TopicPartition: Int64]
    /// How often in a row the topic was not there.
    private var absences = 0
    /// Read from their beginnings since the topic was found last.
    private var restarted: Set<TopicPartition> = []

    /// A broker that has just started may not know a topic for a moment: only what two looks in a row miss is gone.
    private static let absenceLimit = 2

    /// What is to be done.
    package struct Change: Hashable, Sendable {
        /// To be read from the beginnings of their logs.
        package var begun: [TopicPartition] = []
        /// Not to be read any more.
        package var ended: [TopicPartition] = []
        /// Whether it is another topic of the same name.
        package var isAnew = false
    }

    /// - Parameter ranges: of each partition that is read the offset at which reading begins, and the end of its log
    ///   then.
    package init(_ topic: String, _ ranges: [TopicPartition: (start: Int64, end: Int64)]) {
        self.topic = topic
        positions = ranges.mapValues(\.start)
        ends = ranges.filter { $0.value.start < $0.value.end }.mapValues(\.end)
    }

    /// Whether all that was there when reading began has been read.
    package var isCaughtUp: Bool { ends.isEmpty }

    // MARK: What is told

    /// All below this offset was read, or is no record (the end of a transaction is none).
    package mutating func passed(_ partition: TopicPartition, to offset: Int64) {
        positions[partition] = offset
        if let end = ends[partition], offset >= end { ends[partition] = nil }
    }

    /// A look at the topic found so many partitions.
    package mutating func found(_ count: Int) -> Change {
        // Partitions are added, and never taken away.
        let isAnew = absences >= Self.absenceLimit || count < positions.count
        absences = 0
        defer { restarted = [] }
        let partitions = (0..<Int32(count)).map { TopicPartition(topic, $0) }
        let ended = positions.keys.filter { $0.partition >= count }
        for partition in ended { forget(partition) }
        return begin(partitions, isAnew: isAnew, ended: ended.sorted { $0.partition < $1.partition })
    }

    /// A look found no such topic; once that is for sure, nothing of it is to be read.
    package mutating func missed() -> Change {
        absences += 1
        guard absences == Self.absenceLimit else { return Change() }
        return Change(ended: positions.keys.sorted { $0.partition < $1.partition })
    }

    /// The log of a partition does not have the offset that is to be read next, and these now. One that ends before it
    /// is another log, and so are those of the other partitions.
    package mutating func lacks(_ partition: TopicPartition, of range: Range<Int64>) -> Change {
        restarted.remove(partition)
        if range.upperBound < positions[partition] ?? 0 {
            return begin(positions.keys.sorted { $0.partition < $1.partition }, isAnew: true)
        }
        forget(partition)
        return begin([partition], isAnew: false)
    }

    private mutating func forget(_ partition: TopicPartition) {
        positions[partition] = nil
        ends[partition] = nil
    }

    private mutating func begin(_ partitions: [TopicPartition], isAnew: Bool, ended: [TopicPartition] = []) -> Change {
        let begun = partitions.filter { (isAnew || positions[$0] == nil) && !restarted.contains($0) }
        for partition in begun {
            positions[partition] = 0
            ends[partition] = nil
        }
        restarted.formUnion(begun)
        return Change(begun: begun, ended: ended, isAnew: isAnew && !begun.isEmpty)
    }
}
