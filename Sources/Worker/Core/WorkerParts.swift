internal import Delivery
internal import EventLoop
internal import Kafka

/// The parts that connect the delivery machine to Kafka and APNs: the consumer groups, the publisher and the
/// transports. Core thread.
struct WorkerParts {
    /// The reader of the request topics, followed by the reader of the retry topics.
    let readers: [GroupReader]
    let publisher: RecordPublisher
    let transports: AppTransports
    let removedRetryTopics: RemovedRetryTopics
    /// Wakes the core thread when the delivery machine, a group or a producer has work due.
    let alarm: Alarm
    /// The time from which the worker reads requests even if the retry group has no assignment yet (monotonic).
    let requestsAtLatestNs: Int64

    /// How long the worker waits for the first assignment of the retry group before it reads requests.
    static let retryGroupNs: Int64 = 30_000_000_000

    var brokerHealth: [BrokerHealth] { readers.map(\.brokers) + [publisher.brokers] }

    var fatalError: KafkaError? { readers.lazy.compactMap(\.fatalError).first }

    /// Returns the topic and partition of a current assignment, or `nil` if the partition was given up.
    func partition(of id: PartitionID) -> TopicPartition? { readers.lazy.compactMap { $0.partition(of: id) }.first }
}

/// Passes records from the consumer groups to the delivery machine, and commits the offsets of settled records.
extension WorkerParts: RequestSource {
    typealias Failure = Never

    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) -> DeliveryTime {
        for reader in readers {
            reader.markReadable()
            reader.serve(&machine, now: now)
        }
        let after = LoopTime.read()
        return DeliveryTime(ns: after.monotonicNs, wallMs: after.wallMs)
    }

    func read(into machine: inout DeliveryMachine, now: DeliveryTime) -> Bool {
        var hasMore = false
        // In a retry topic without a committed offset, records below the log end count as possibly sent by an earlier
        // worker. The retry topics' reader must therefore look up the log end before this worker produces retry
        // records, which would otherwise be marked in doubt.
        let readsRequests =
            readers.allSatisfy { $0.group == .requests || $0.hasJoined } || now.ns >= requestsAtLatestNs
        for reader in readers where !reader.isLeaving {
            guard reader.group == .retries || readsRequests else { continue }
            if reader.read(into: &machine, now: now, deadLetters: publisher) { hasMore = true }
        }
        return hasMore
    }

    func nextDeadlineNs(now: DeliveryTime) -> Int64? {
        readers.lazy.compactMap { $0.nextDeadlineNs(now: now) }.min()
    }

    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime) {
        for reader in readers { reader.commit(&machine, now: now) }
    }
}
