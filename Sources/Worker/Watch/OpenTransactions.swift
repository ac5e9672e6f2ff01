internal import Kafka

/// Partitions whose records wait behind a transaction that nobody ends, as one that a producer left open when it died:
/// a reader of committed records gets no further than the last stable offset, which stays, while the log goes on.
///
/// The two ends come from two sources: the last stable offset from the watch, every 5 s, the high watermark from the
/// last fetch. Where records go on being written they differ for a moment, so a last stable offset counts as one that
/// stays once it was told so again after `patienceNs`.
struct OpenTransactions {
    /// A partition as it is looked at.
    struct Ends {
        let partition: TopicPartition
        /// As the watch told it; `nil`: it did not.
        let lastStable: Int64?
        /// As the last fetch told it; -1: none did.
        let highWatermark: Int64
    }

    private struct Wait: Equatable {
        let lastStable: Int64
        /// Monotonic.
        let sinceNs: Int64
    }

    /// The first offset that is not read, and how many there are from there on.
    struct Stall: Equatable {
        let partition: TopicPartition
        let offset: Int64
        let records: Int64
    }

    private var waits: [TopicPartition: Wait] = [:]

    static let patienceNs: Int64 = 2_000_000_000

    /// Looks at all partitions that are read; the others are forgotten.
    ///
    /// - Parameter toldNs: when the watch began to ask for what it told (monotonic).
    mutating func look(_ all: [Ends], toldNs: Int64, nowNs: Int64) -> [Stall] {
        var stalls: [Stall] = []
        var fresh: [TopicPartition: Wait] = [:]
        for ends in all {
            guard let lastStable = ends.lastStable, ends.highWatermark > lastStable else { continue }
            let known = waits[ends.partition].flatMap { $0.lastStable == lastStable ? $0 : nil }
            let wait = known ?? Wait(lastStable: lastStable, sinceNs: nowNs)
            fresh[ends.partition] = wait
            guard toldNs - wait.sinceNs >= Self.patienceNs else { continue }
            stalls.append(
                Stall(partition: ends.partition, offset: lastStable, records: ends.highWatermark - lastStable))
        }
        waits = fresh
        return stalls
    }
}

extension OpenTransactions.Stall {
    /// - Parameter servers: as the configuration names them.
    func fault(bootstrapServers servers: String) -> Fault {
        Fault(
            "partition \(partition)", .stalled,
            "\(records) offsets from \(offset) on wait behind a transaction that is open",
            "its producer is to end it; the brokers do after its transaction.timeout.ms, or at once: kafka-transactions.sh "
                + "--bootstrap-server \(servers) abort --topic \(partition.topic) --partition \(partition.partition) "
                + "--start-offset \(offset)")
    }
}
