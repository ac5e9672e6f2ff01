internal import Kafka

/// The brokers' health according to the statistics of one Kafka client. A value type without a clock or I/O.
struct BrokerHealth: Equatable {
    enum Reachability: Equatable {
        /// There are no statistics yet, or they do not show whether a connected broker answers.
        case unknown
        case answered
        /// A broker is connected but does not answer.
        case silent
        case disconnected
    }

    enum Silence: Equatable {
        case unanswered
        case unreachable
    }

    private(set) var reach = Reachability.unknown
    /// The brokers that do not answer or cannot be reached, by name. Excludes the coordinator's separate connection.
    private(set) var silences: [String: Silence] = [:]
    /// Whether the consumer group's coordinator does not answer, or was unknown in two successive statistics reports.
    private(set) var isCoordinatorSilent = false
    /// Whether the group member is neither joining nor leaving, so that its assignment is the current one. The reader
    /// sets it to false when it receives a revocation, because the next report may be seconds away.
    var isMemberSteady = false
    /// The average round-trip time of each broker that answered since the last report, in microseconds, by name.
    /// Excludes the coordinator's separate connection.
    private(set) var roundTripsUs: [String: Int64] = [:]
    /// The client's queued and unanswered records, or `nil` before the first report.
    private(set) var queue: ClientStatistics.Queue?
    private var missedCoordinator = false
    /// The connection attempts to each broker, by name.
    private var attempts: [String: Attempts] = [:]

    private struct Attempts: Equatable {
        /// The number of attempts as of the last report in which the broker was connected.
        var whenConnected: Int64 = 0
        var latest: Int64 = 0
        /// The number of successive reports without another attempt.
        var reportsSince = 0
    }

    /// The time without an answer after which a broker counts as silent. Brokers normally answer within 3 s.
    static let silentMs: Int64 = 4_000
    /// The time since the client's last send below which a missing answer does not count as silence. On a connection
    /// that was idle, the last answer may be older than `silentMs` when the client sends a request.
    static let answerMs: Int64 = 1_000
    /// The number of failed connection attempts after which a broker is reported. librdkafka dials only brokers that it
    /// needs.
    private static let attemptLimit: Int64 = 2
    /// The number of reports, one each 4 s, without a connection attempt after which the client no longer needs the
    /// broker. One attempt may last 30 s (`socket.connection.setup.timeout.ms`).
    private static let unneededReports = 15

    /// Updates the health from the client's statistics (JSON text).
    mutating func take(_ text: String) {
        if let statistics = ClientStatistics(text) { take(statistics) }
    }

    mutating func take(_ statistics: ClientStatistics) {
        guard let brokers = statistics.brokers else { return }
        isMemberSteady = statistics.isSteady
        // The coordinator answers a joining member only after the other members have joined, which is not silence.
        let waiting = brokers.filter { isSilent($0) && (statistics.isSteady || !$0.isCoordinator) }
        if brokers.contains(where: \.hasAnswered) {
            reach = .answered
        } else if !brokers.contains(where: \.isConnected) {
            reach = .disconnected
        } else {
            reach = waiting.isEmpty ? .unknown : .silent
        }
        let named = Dictionary(brokers.filter { !$0.isCoordinator }.map { ($0.name, $0) }) { $1 }
        silences = named.compactMapValues { silence(of: $0) }
        roundTripsUs = named.compactMapValues(\.roundTripUs)
        queue = statistics.queue
        // The coordinator is briefly unknown while it moves, or until a new cluster has created its offsets topic.
        isCoordinatorSilent =
            waiting.contains(where: \.isCoordinator) || !statistics.hasCoordinator && missedCoordinator
        missedCoordinator = !statistics.hasCoordinator
    }

    /// Returns whether a request has been unanswered for a while. A silent broker stays silent when the client sends it
    /// another request.
    private func isSilent(_ broker: ClientStatistics.Broker) -> Bool {
        broker.isConnected && broker.inFlight > 0 && broker.silentMs >= Self.silentMs
            && (broker.unsentMs >= Self.answerMs || silences[broker.name] == .unanswered
                || broker.isCoordinator && isCoordinatorSilent)
    }

    private mutating func silence(of broker: ClientStatistics.Broker) -> Silence? {
        guard !broker.isConnected else {
            attempts[broker.name] = Attempts(whenConnected: broker.attempts, latest: broker.attempts)
            return isSilent(broker) ? .unanswered : nil
        }
        var dials = attempts[broker.name] ?? Attempts()
        dials.reportsSince = broker.attempts == dials.latest ? dials.reportsSince + 1 : 0
        dials.latest = broker.attempts
        attempts[broker.name] = dials
        guard dials.reportsSince < Self.unneededReports else { return nil }
        // A broker still counts as silent after librdkafka has closed its connection (`socket.timeout.ms`).
        if let before = silences[broker.name] { return before }
        return broker.attempts - dials.whenConnected >= Self.attemptLimit ? .unreachable : nil
    }
}

extension ClientStatistics.Broker {
    fileprivate var hasAnswered: Bool { isConnected && (0..<BrokerHealth.silentMs).contains(silentMs) }
}

extension BrokerHealth {
    /// Returns whether no broker answers any of the given clients.
    static func areAllSilent(_ clients: [BrokerHealth]) -> Bool {
        !clients.contains { $0.reach == .answered }
            && clients.contains { $0.reach == .silent || $0.reach == .disconnected }
    }

    /// - Parameter errors: The last errors of librdkafka's clients. If no broker is connected, the first error is
    ///   reported as the cause.
    static func problems(
        _ clients: [BrokerHealth], bootstrapServers servers: String, errors: [KafkaError]
    ) -> [Problem] {
        guard !areAllSilent(clients) else {
            var (cause, advice) = ("", "check the brokers and the network")
            if !clients.contains(where: { $0.reach == .silent }) {
                (cause, advice) = errors.first.map { Advice.connecting($0) } ?? ("none is connected", advice)
                cause = ": \(cause)"
            }
            return [
                Problem(
                    .kafka, .kafkaUnreachable, "no broker of \(servers) answers\(cause)",
                    "\(advice); no notification is lost meanwhile")
            ]
        }
        let silences = Dictionary(clients.flatMap(\.silences)) { first, _ in first }
        return silences.sorted { $0.key < $1.key }.map { name, silence in
            // After a response of invalid size, librdkafka closes the connection and sends the same fetch again.
            let tooLargeText = "\(name): Receive failed: Invalid response size "
            if let tooLarge = errors.map(\.text).first(where: { $0.hasPrefix(tooLargeText) }) {
                return Problem(
                    .broker(name), .reading, "a record or a batch is too large to be read: \(tooLarge)",
                    "raise receive.message.max.bytes in kafka.librdkafka above the size of the response, or delete the "
                        + "partition's records up to and including the large one (kafka-delete-records.sh)")
            }
            return Problem(
                .broker(name), .brokerUnreachable,
                silence == .unanswered
                    ? "the broker accepts requests but does not answer"
                    : "no connection to the broker can be made",
                "check the broker and the network; records of its partitions wait, and no notification is lost")
        }
    }
}
