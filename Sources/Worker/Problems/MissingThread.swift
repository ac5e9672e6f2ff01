internal import Kafka

/// A consumer's client had no room for the thread of a broker. librdkafka tries again when it asks for metadata anew
/// (`topic.metadata.refresh.interval.ms`, 10 s), and says nothing when that succeeds: so it is named until it would
/// have failed again. Decides only; no clock, no I/O.
struct MissingThread {
    private var times: (sinceNs: Int64, lastNs: Int64)?

    /// How long after the last time: that interval, and as long as the answer may take.
    static let namedNs: Int64 = 30_000_000_000

    mutating func note(nowNs: Int64) {
        let sinceNs = times.flatMap { nowNs - $0.lastNs < Self.namedNs ? $0.sinceNs : nil }
        times = (sinceNs ?? nowNs, nowNs)
    }

    /// - Parameter group: the consumer's.
    func problem(ofGroup group: String, nowNs: Int64) -> KafkaProblem? {
        guard let times, nowNs - times.lastNs < Self.namedNs else { return nil }
        return KafkaProblem(
            subject: .group(group), trouble: .unthreaded, code: .noResources,
            advice: Advice.group(group, .noResources), sinceNs: times.sinceNs)
    }
}
