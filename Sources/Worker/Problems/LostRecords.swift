internal import Delivery
internal import Kafka

/// Records that were gone before they were read: retention took them, or somebody deleted them. What is lost stays
/// lost, so each partition is named for some time after the last such loss. Decides only; no clock, no I/O.
struct LostRecords {
    private struct Loss {
        var partition: TopicPartition
        var offsets: Int64
        var lastNs: Int64
    }

    private var losses: [Loss] = []

    /// How long a loss is named.
    static let namedNs: Int64 = 10 * 60 * 1_000_000_000
    /// Of partitions; the losses longest ago make room.
    static let limit = 1_000

    /// Reading went on beyond so many offsets; those of transactions' marks and of what compaction took count, too.
    mutating func note(_ partition: TopicPartition, offsets: Int64, nowNs: Int64) {
        guard offsets > 0 else { return }
        var loss = Loss(partition: partition, offsets: 0, lastNs: nowNs)
        if let index = losses.firstIndex(where: { $0.partition == partition }) { loss = losses.remove(at: index) }
        if nowNs - loss.lastNs >= Self.namedNs { loss.offsets = 0 }
        let (sum, isOver) = loss.offsets.addingReportingOverflow(offsets)
        loss.offsets = isOver ? .max : sum
        loss.lastNs = nowNs
        losses.append(loss)
        if losses.count > Self.limit { losses.removeFirst() }
    }

    func faults(nowNs: Int64) -> [Fault] {
        losses.filter { nowNs - $0.lastNs < Self.namedNs }.map { loss in
            Fault(
                "partition \(loss.partition)", .lost,
                "\(loss.offsets) offsets were gone before they were read: their records are lost",
                "raise retention.ms of topic \(loss.partition.topic), and set its retention.bytes to -1")
        }
    }
}
