internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

/// The parts of a running worker.
struct WorkerParts {
    let groups: ConsumerGroups
    let publisher: RecordPublisher
    let transports: AppTransports
    let removedRetryTopics: RemovedRetryTopics

    /// Of the request topics, of the retry topics.
    var readers: [GroupReader] { groups.readers }

    /// How the brokers answer each of the Kafka clients.
    var brokerHealth: [BrokerHealth] { readers.map(\.brokers) + [publisher.brokers] }

    /// The partition of an assignment, for log lines.
    func name(of id: PartitionID) -> TopicPartition? { readers.lazy.compactMap { $0.name(of: id) }.first }
}

/// A copy of what the worker is doing, made at most every 50 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Notifications handed to connections and not answered.
    package var inFlight = 0
    package var connections = 0
    /// Whether the group has answered once.
    package var hasJoined = false

    package init() {}
}

/// Shows the core's progress to other threads.
final class ProgressBoard {
    private let progress = Guarded(WorkerProgress())
    private var lastPostNs: Int64 = 0

    /// Any thread.
    var newest: WorkerProgress { progress.withLock { $0 } }

    /// Core thread.
    func post(_ machine: borrowing DeliveryMachine, _ parts: WorkerParts, isStopping: Bool, _ now: DeliveryTime) {
        guard now.ns - lastPostNs >= 50_000_000 || isStopping else { return }
        lastPostNs = now.ns
        var new = WorkerProgress()
        new.inFlight = machine.gauges.inFlight.reduce(0, +)
        new.connections = parts.transports.openConnections
        new.hasJoined = parts.readers.allSatisfy(\.hasJoined)
        progress.withLock { $0 = new }
    }
}
