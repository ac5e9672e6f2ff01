internal import Kafka

/// How the brokers answer one client, by its statistics. Decides only; no clock, no I/O.
struct BrokerHealth: Equatable {
    /// Whether any broker answers.
    enum Reach: Equatable {
        /// No statistics came yet, or nothing was asked lately.
        case unknown
        case answered
        /// Connected, and without an answer to what was sent.
        case silent
        case disconnected
    }

    /// A broker that does not answer.
    struct Silence: Equatable {
        enum Cause: Equatable {
            /// It takes requests and sends nothing.
            case unanswered
            /// No connection to it can be made.
            case unreachable
        }

        var cause: Cause
        /// When it was found (monotonic).
        var sinceNs: Int64
    }

    private(set) var reach = Reach.unknown
    /// By name; the coordinator's connection is none of them.
    private(set) var silences: [String: Silence] = [:]
    /// Since when the group's coordinator has not been known, or has not answered (monotonic).
    private(set) var coordinatorSilentSinceNs: Int64?
    /// The coordinator was missing in the last statistics already.
    private var missedCoordinator = false
    /// By the broker's name, how often a connection to it had been tried when it was last connected.
    private var attempts: [String: Int64] = [:]

    /// How long a broker may send nothing while it owes an answer. Fetches and heartbeats are answered within 3 s.
    static let silentMs: Int64 = 4_000
    /// How often a connection is tried in vain before its broker is reported. One that is not needed is not tried.
    private static let attemptLimit: Int64 = 2

    mutating func take(_ statistics: ClientStatistics, nowNs: Int64) {
        guard let brokers = statistics.brokers else { return }
        // The coordinator keeps a member that joins waiting for the others.
        let isSteady = statistics.group?.isSteady ?? true
        let waiting = brokers.filter { $0.isSilent && (isSteady || !$0.isCoordinator) }
        if brokers.contains(where: \.hasAnswered) {
            reach = .answered
        } else if !brokers.contains(where: \.isConnected) {
            reach = .disconnected
        } else {
            reach = waiting.isEmpty ? .unknown : .silent
        }
        noteSilences(brokers, nowNs)
        noteCoordinator(statistics.group, isSilent: waiting.contains(where: \.isCoordinator), nowNs)
    }

    private mutating func noteSilences(_ brokers: [ClientStatistics.Broker], _ nowNs: Int64) {
        var found: [String: Silence] = [:]
        for broker in brokers where !broker.isCoordinator {
            let before = silences[broker.name]
            if broker.isConnected { attempts[broker.name] = broker.attempts }
            let cause: Silence.Cause?
            if broker.isSilent {
                cause = .unanswered
            } else if broker.isConnected {
                cause = nil
            } else {
                let isTried = broker.attempts - (attempts[broker.name] ?? 0) >= Self.attemptLimit
                // A connection on which nothing came is closed by librdkafka after `socket.timeout.ms`.
                cause = before?.cause ?? (isTried ? .unreachable : nil)
            }
            guard let cause else { continue }
            found[broker.name] = Silence(cause: cause, sinceNs: before?.sinceNs ?? nowNs)
        }
        silences = found
    }

    private mutating func noteCoordinator(_ group: ClientStatistics.Group?, isSilent: Bool, _ nowNs: Int64) {
        let isMissing = group.map { !$0.hasCoordinator } ?? false
        // On a new cluster the coordinator is missing until the offsets topic is made, and it moves between brokers.
        let isLost = isSilent || isMissing && missedCoordinator
        missedCoordinator = isMissing
        coordinatorSilentSinceNs = isLost ? coordinatorSilentSinceNs ?? nowNs : nil
    }
}

extension ClientStatistics.Broker {
    fileprivate var isSilent: Bool { isConnected && inFlight > 0 && silentMs >= BrokerHealth.silentMs }

    fileprivate var hasAnswered: Bool { isConnected && silentMs >= 0 && silentMs < BrokerHealth.silentMs }
}

extension BrokerHealth {
    /// Whether none of these clients is answered by any broker.
    static func areAllSilent(_ clients: [BrokerHealth]) -> Bool {
        !clients.contains { $0.reach == .answered }
            && clients.contains { $0.reach == .silent || $0.reach == .disconnected }
    }

    /// The brokers that do not answer these clients.
    ///
    /// - Parameters:
    ///   - servers: as the configuration names them.
    ///   - reason: what librdkafka said last about a connection that could not be made.
    static func faults(_ clients: [BrokerHealth], bootstrapServers servers: String, reason: String?) -> [Fault] {
        guard !areAllSilent(clients) else {
            let isConnected = clients.contains { $0.reach == .silent }
            let cause = isConnected ? "" : reason.map { ": \($0)" } ?? ": none is connected"
            return [
                Fault(
                    "kafka", .silent, "no broker of \(servers) answers\(cause)",
                    "nothing is lost meanwhile; look at the brokers and at the network between")
            ]
        }
        let silences = clients.reduce(into: [String: Silence]()) { all, client in
            all.merge(client.silences) { $0.sinceNs <= $1.sinceNs ? $0 : $1 }
        }
        return silences.sorted { $0.key < $1.key }.map { name, silence in
            Fault(
                "broker \(name)", .unanswered,
                silence.cause == .unanswered
                    ? "it takes requests and does not answer" : "no connection to it can be made",
                "its partitions wait meanwhile, and nothing is lost; look at the broker and at the network between")
        }
    }
}
