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

/// What the worker is doing, renewed at most every 250 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Notifications handed to connections and not answered.
    package var inFlight: Int
    package var connections: Int
    /// Whether the groups have answered once.
    package var hasJoined: Bool

    init(_ snapshot: WorkerSnapshot) {
        inFlight = snapshot.gauges.inFlight.reduce(0, +)
        connections = snapshot.apps.reduce(0) { $0 + $1.standing.connections.open }
        hasJoined = snapshot.isReady
    }
}
