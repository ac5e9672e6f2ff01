internal import Kafka

/// The brokers' health as one client's statistics show it. Decides only; no clock, no I/O.
struct BrokerHealth: Equatable {
    enum Reach: Equatable {
        /// There are no statistics yet, or no broker was asked anything lately.
        case unknown
        case answered
        /// A broker is connected and does not answer.
        case silent
        case disconnected
    }

    enum Silence: Equatable {
        case unanswered
        case unreachable
    }

    private(set) var reach = Reach.unknown
    /// The brokers that do not answer, by name, without the coordinator's connection.
    private(set) var silences: [String: Silence] = [:]
    /// Whether the group's coordinator is unknown, or does not answer.
    private(set) var isCoordinatorSilent = false
    /// Whether the group's member neither joins nor leaves: the assignment that it has is the current one.
    private(set) var isMemberSteady = false
    private var missedCoordinator = false
    /// The number of connection attempts when each broker was last connected, by the broker's name.
    private var attempts: [String: Int64] = [:]

    /// The longest silence of a broker that owes an answer. Brokers answer fetches and heartbeats within 3 s.
    static let silentMs: Int64 = 4_000
    /// The failed attempts after which a broker is reported. librdkafka does not dial a broker that it does not need.
    private static let attemptLimit: Int64 = 2

    /// Takes the text of the client's statistics.
    mutating func take(_ text: String) {
        if let statistics = ClientStatistics(text) { take(statistics) }
    }

    mutating func take(_ statistics: ClientStatistics) {
        guard let brokers = statistics.brokers else { return }
        // The coordinator keeps a member that joins waiting for the others.
        isMemberSteady = statistics.isSteady
        let waiting = brokers.filter { $0.isSilent && (statistics.isSteady || !$0.isCoordinator) }
        if brokers.contains(where: \.hasAnswered) {
            reach = .answered
        } else if !brokers.contains(where: \.isConnected) {
            reach = .disconnected
        } else {
            reach = waiting.isEmpty ? .unknown : .silent
        }
        let silent = brokers.filter { !$0.isCoordinator }.compactMap { broker in
            silence(of: broker).map { (broker.name, $0) }
        }
        silences = Dictionary(silent) { $1 }
        // On a new cluster the coordinator is missing until the offsets topic is made, and it moves between brokers.
        isCoordinatorSilent =
            waiting.contains(where: \.isCoordinator) || !statistics.hasCoordinator && missedCoordinator
        missedCoordinator = !statistics.hasCoordinator
    }

    private mutating func silence(of broker: ClientStatistics.Broker) -> Silence? {
        guard !broker.isConnected else {
            attempts[broker.name] = broker.attempts
            return broker.isSilent ? .unanswered : nil
        }
        // A connection on which nothing came is closed by librdkafka after `socket.timeout.ms`.
        if let before = silences[broker.name] { return before }
        return broker.attempts - (attempts[broker.name] ?? 0) >= Self.attemptLimit ? .unreachable : nil
    }
}

extension ClientStatistics.Broker {
    fileprivate var isSilent: Bool { isConnected && inFlight > 0 && silentMs >= BrokerHealth.silentMs }

    fileprivate var hasAnswered: Bool { isConnected && (0..<BrokerHealth.silentMs).contains(silentMs) }
}

extension BrokerHealth {
    /// Whether none of these clients is answered by any broker.
    static func areAllSilent(_ clients: [BrokerHealth]) -> Bool {
        !clients.contains { $0.reach == .answered }
            && clients.contains { $0.reach == .silent || $0.reach == .disconnected }
    }

    /// - Parameter reason: librdkafka's last error about a connection that could not be made.
    static func problems(_ clients: [BrokerHealth], bootstrapServers servers: String, reason: String?) -> [Problem] {
        guard !areAllSilent(clients) else {
            let isConnected = clients.contains { $0.reach == .silent }
            let cause = isConnected ? "" : reason.map { ": \($0)" } ?? ": none is connected"
            return [
                Problem(
                    .kafka, .kafkaUnreachable, "no broker of \(servers) answers\(cause)",
                    "look at the brokers and at the network between; nothing is lost meanwhile")
            ]
        }
        let silences = Dictionary(clients.flatMap(\.silences)) { first, _ in first }
        return silences.sorted { $0.key < $1.key }.map { name, silence in
            Problem(
                .broker(name), .brokerUnreachable,
                silence == .unanswered ? "it takes requests and does not answer" : "no connection to it can be made",
                "look at the broker and at the network between; its partitions wait meanwhile, and nothing is lost")
        }
    }
}
