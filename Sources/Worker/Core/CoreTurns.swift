internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

/// The parts that a running worker is put together of.
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

/// The turns of the core's loop: what wakes it, and the machine's turn. Core thread.
struct CoreTurns {
    private var deliveryTurn = DeliveryTurn()
    /// What woke the core since the last turn.
    var wakeUps: DeliveryTurn.WakeUps = [.kafka]
    /// Rung by librdkafka whenever one of its queues has something after it was empty.
    var doorbell: Doorbell?
    var alarm: Alarm?
    private var lastHousekeepingNs: Int64 = 0

    mutating func run(_ machine: inout DeliveryMachine, _ parts: WorkerParts, _ now: DeliveryTime) -> DeliveryTurn.End {
        let wokenBy = wakeUps
        wakeUps = []
        return deliveryTurn.run(
            &machine, requests: parts.groups, transports: parts.transports, records: parts.publisher,
            offsets: parts.groups, wokenBy: wokenBy, now: now)
    }

    /// True once a second.
    mutating func isHousekeepingDue(_ now: DeliveryTime) -> Bool {
        guard now.ns - lastHousekeepingNs >= 1_000_000_000 else { return false }
        lastHousekeepingNs = now.ns
        return true
    }
}

/// What a worker is doing, for whoever shows it; a copy, made at most every 50 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Notifications handed to connections and not answered.
    package var inFlight = 0
    package var connections = 0
    /// Whether the group has answered once.
    package var hasJoined = false

    package init() {}
}

/// Where the core leaves its progress for other threads.
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
