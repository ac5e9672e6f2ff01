internal import Kafka

/// Brokers that take requests and answer none, by librdkafka's log of each that it waited for in vain: it connects anew
/// and tries again, and says nothing when that succeeds. So one is named until nothing more was heard for longer than
/// the next try takes. Decides only; no clock, no I/O.
struct UnansweredRequests {
    private struct Silence {
        var requests: [String]
        /// When the first was sent that was not answered (monotonic).
        var sinceNs: Int64
        var lastNs: Int64
    }

    private var silences: [String: Silence] = [:]

    /// How long after the last one: connecting anew (`reconnect.backoff.max.ms`, 10 s) and `socket.timeout.ms` take
    /// less.
    static let namedNs: Int64 = 25_000_000_000
    /// A question of ours that may wait for a second only, and is slow, is no silence.
    static let leastMs: Int64 = 5_000
    /// Of brokers; more are not named.
    static let limit = 100

    mutating func note(_ timeout: RequestTimeout, nowNs: Int64) {
        guard timeout.afterMs >= Self.leastMs else { return }
        silences = silences.filter { nowNs - $0.value.lastNs < Self.namedNs }
        var silence =
            silences[timeout.broker]
            ?? Silence(requests: [], sinceNs: nowNs - timeout.afterMs * 1_000_000, lastNs: nowNs)
        guard silences.count < Self.limit || silences[timeout.broker] != nil else { return }
        silence.lastNs = nowNs
        if !silence.requests.contains(timeout.request) { silence.requests.append(timeout.request) }
        silences[timeout.broker] = silence
    }

    /// What was not answered has another reason, or is over.
    mutating func forget() { silences = [:] }

    func faults(nowNs: Int64) -> [Fault] {
        silences.filter { nowNs - $0.value.lastNs < Self.namedNs }.sorted { $0.key < $1.key }.map { broker, silence in
            let seconds = (nowNs - silence.sinceNs) / 1_000_000_000
            return Fault(
                "broker \(broker)", .unanswered,
                "it takes requests and does not answer: \(silence.requests.joined(separator: ", ")), first \(seconds) s ago",
                "its partitions wait meanwhile, and nothing is lost; look at the broker and at the network between")
        }
    }
}
