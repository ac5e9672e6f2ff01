internal import Delivery
internal import EventLoop
internal import Kafka
internal import Observability

struct WorkerParts {
    let groups: ConsumerGroups
    let publisher: RecordPublisher
    let transports: AppTransports
    let removedRetryTopics: RemovedRetryTopics

    var readers: [GroupReader] { groups.readers }

    var brokerHealth: [BrokerHealth] { readers.map(\.brokers) + [publisher.brokers] }

    /// What librdkafka owes within seconds, whatever brokers do: the reply to a commit, the reports of a producer that
    /// was replaced, and statistics. A mark changes with each answer.
    var owed: [(subject: String, mark: UInt64)] { groups.missingReplies + publisher.owed }

    func name(of id: PartitionID) -> TopicPartition? { readers.lazy.compactMap { $0.name(of: id) }.first }
}

/// Finds out that librdkafka does not answer any more. Decides only; no clock, no I/O.
struct HangWatch {
    private var waits: [String: (mark: UInt64, seconds: Int)] = [:]

    /// Returns what was owed for `limit` seconds. Call it once a second: time in which the process did not run does not
    /// count.
    mutating func look(_ owed: [(subject: String, mark: UInt64)], limit: Int) -> String? {
        let before = waits
        waits = [:]
        for (subject, mark) in owed {
            let seconds = before[subject].map { $0.mark == mark ? $0.seconds + 1 : 0 } ?? 0
            waits[subject] = (mark, seconds)
        }
        return waits.first { $0.value.seconds >= limit }.map { "\($0.key) after \(limit) s" }
    }
}

/// What the worker is doing, renewed at most every 250 ms.
package struct WorkerProgress: Sendable, Equatable {
    /// Notifications handed to connections and not answered.
    package var inFlight: Int
    package var connections: Int
    package var hasJoined: Bool

    init(_ snapshot: WorkerSnapshot) {
        inFlight = snapshot.gauges.inFlight.reduce(0, +)
        connections = snapshot.apps.reduce(0) { $0 + $1.standing.connections.open }
        hasJoined = snapshot.isReady
    }
}
