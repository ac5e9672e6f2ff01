package import Kafka

/// Waits for the sizes of topics and the committed offsets of groups.
extension KafkaBroker {
    /// Waits until a topic holds at least `count` records.
    package func await(_ topic: String, holds count: Int, seconds: Double = ChildProcess.patience) throws {
        let reader = try OffsetReader(ClusterSettings(bootstrapServers: bootstrapServers), fetchKilobytes: 1)
        var held: Int64?
        // A broker that has just started may not answer yet.
        let isFull = waitUntil(seconds: seconds, everyMs: 100) {
            held = (try? reader.ranges(of: topic))?.values.reduce(0) { $0 + $1.upperBound }
            return held.map { $0 >= count } ?? false
        }
        guard isFull else {
            throw Failure.refused("\(topic) holds \(held.map(String.init) ?? "an unknown number") of \(count) records")
        }
    }

    /// Waits until the groups have committed all records of their topics.
    ///
    /// - Parameter seconds: The longest time without progress.
    package func awaitCommits(
        _ pairs: [(group: String, topic: String)], seconds: Double = ChildProcess.patience
    ) throws {
        let cluster = ClusterSettings(bootstrapServers: bootstrapServers)
        let readers = try pairs.map { try OffsetReader(cluster, group: $0.group, fetchKilobytes: 1) }
        var last: [Standing?] = []
        repeat {
            let before = last
            // A retry record can cause another one, so a growing topic counts as progress too.
            let hasMoved = waitUntil(seconds: seconds, everyMs: 150) {
                last = zip(pairs, readers).map { try? Standing(of: $0.topic, $1) }
                return last != before
            }
            guard hasMoved else {
                let texts = zip(pairs, last).map { "\($0): \($1.map { "\($0.lag)" } ?? "unknown")" }
                throw Failure.refused("the lag did not change for \(seconds) s: \(texts.joined(separator: ", "))")
            }
        } while !last.allSatisfy { $0?.lag == 0 }
    }
}

/// A group's lag on a topic, and the topic's size.
private struct Standing: Equatable {
    var lag: Int64 = 0
    var end: Int64 = 0

    /// Reads the committed offsets first, so the lag may be too large but never too small.
    init(of topic: String, _ reader: OffsetReader) throws {
        let committed = try reader.committed(try reader.partitions(of: topic), timeoutMs: 5_000)
        let ranges = try reader.ranges(of: topic)
        for each in committed {
            guard each.code == .none, let range = ranges[each.partition] else { throw KafkaError(each.code) }
            lag += range.upperBound - (each.offset ?? range.lowerBound)
            end += range.upperBound
        }
    }
}

extension OffsetReader {
    fileprivate func partitions(of topic: String) throws -> [TopicPartition] {
        let known = try topics(named: [topic], timeoutMs: 5_000)[topic]
        guard let known, known.code == .none else { throw KafkaError(known?.code ?? .unknownTopicOrPartition) }
        return (0..<Int32(known.partitions)).map { TopicPartition(topic, $0) }
    }

    fileprivate func ranges(of topic: String) throws -> [TopicPartition: Range<Int64>] {
        try bounds(of: partitions(of: topic), timeoutMs: 5_000)
    }
}

/// Returns the current offset range of a partition's log.
package func logRange(of partition: TopicPartition, _ servers: String) throws -> Range<Int64> {
    let reader = try OffsetReader(ClusterSettings(bootstrapServers: servers), fetchKilobytes: 1)
    guard let range = try reader.ranges(of: partition.topic)[partition] else {
        throw KafkaError(.unknownTopicOrPartition)
    }
    return range
}
