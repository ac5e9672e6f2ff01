internal import Kafka

/// Brokers that hold this client back because it exceeds a quota of theirs: each is named from the first answer that
/// says so until none has said so for a while. Decides only; no clock, no I/O.
struct Quotas {
    /// What librdkafka tells the delays of.
    enum Request: String, CaseIterable, Sendable {
        case produce, fetch

        /// As the protocol names it.
        fileprivate var name: String { self == .produce ? "Produce" : "Fetch" }

        /// The quota that limits its bytes.
        fileprivate var quota: String { self == .produce ? "producer_byte_rate" : "consumer_byte_rate" }

        fileprivate var section: KafkaProperties.Section { self == .produce ? .producer : .consumer }
    }

    private struct Source: Hashable {
        let broker: String
        let request: Request
    }

    private struct Delay {
        var lastMs: Int64
        var sumMs: Int64
        /// When the broker takes requests again, as far as it said (monotonic).
        var endNs: Int64
    }

    private var delays: [Source: Delay] = [:]
    /// Since the start, in milliseconds.
    private(set) var totalsMs: [Request: Int64] = [:]

    /// How long after the last delay's end: a client at its quota is held back every few seconds.
    static let namedNs: Int64 = 10_000_000_000
    /// Of brokers; more are not named.
    static let limit = 100

    mutating func note(_ told: QuotaDelay, of request: Request, nowNs: Int64) {
        totalsMs[request, default: 0] += told.sumMs
        delays = delays.filter { Self.isNamed($0.value, nowNs: nowNs) }
        let source = Source(broker: told.broker, request: request)
        let known = delays[source]
        guard known != nil || told.sumMs > 0 && delays.count < Self.limit else { return }
        var delay = known ?? Delay(lastMs: told.sumMs, sumMs: 0, endNs: nowNs)
        delay.sumMs += told.sumMs
        if told.lastMs > 0 { delay.lastMs = told.lastMs }
        // An answer without a delay ends an earlier one, which begins anew on every connection.
        if told.lastMs > 0 || delay.endNs > nowNs { delay.endNs = nowNs + told.lastMs * 1_000_000 }
        delays[source] = delay
    }

    private static func isNamed(_ delay: Delay, nowNs: Int64) -> Bool { nowNs - delay.endNs < namedNs }

    /// - Parameter cluster: tells whose quota it is.
    func faults(of cluster: ClusterSettings, nowNs: Int64) -> [Fault] {
        let named = delays.filter { Self.isNamed($0.value, nowNs: nowNs) }
        return Set(named.keys.map(\.broker)).sorted().map { broker in
            let requests = Request.allCases.filter { named[Source(broker: broker, request: $0)] != nil }
            let texts = requests.compactMap { request in
                named[Source(broker: broker, request: request)].map { delay in
                    "\(request.name) for \(Self.seconds(delay.lastMs)) s at its last answer, \(Self.seconds(delay.sumMs)) s in all"
                }
            }
            return Fault(
                "broker \(broker)", .throttled,
                "it holds this client back for exceeding a quota: \(texts.joined(separator: "; "))",
                "nothing is lost; raise \(Self.quotas(of: requests)) \(Self.owners(requests.map { cluster.quotaOwner(of: $0.section) })) "
                    + "(kafka-configs.sh --describe --entity-type clients, or users, shows what is set)")
        }
    }

    /// Any request counts towards the last of them.
    private static func quotas(of requests: [Request]) -> String {
        let names = requests.map(\.quota)
        return "the quota \(names.joined(separator: " and ")), or request_percentage,"
    }

    private static func owners(_ owners: [QuotaOwner]) -> String {
        var seen: Set<QuotaOwner> = []
        return owners.filter { seen.insert($0).inserted }.map { owner in
            owner.userName.map { "of client id \(owner.clientID) or of user \($0)" }
                ?? "of client id \(owner.clientID) or of its user"
        }.joined(separator: ", and ")
    }

    /// To a tenth.
    private static func seconds(_ milliseconds: Int64) -> String {
        "\(milliseconds / 1_000).\(milliseconds % 1_000 / 100)"
    }
}
