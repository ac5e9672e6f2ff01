internal import Kafka
internal import Observability

/// Decides when to replace a failed producer, with growing pauses between attempts.
struct ProducerHealth {
    private var mustRenew = false
    private var pause = GrowingPause()

    /// Marks the producer as unusable: a fatal error occurred, or the system could not start a thread for one of the
    /// producer's brokers. librdkafka does not try again to start such a thread.
    mutating func noteFatal() { mustRenew = true }

    /// Handles the producer's delivery reports, logs its events, and replaces its client if it is unusable.
    ///
    /// - Parameter client: The client's name in log lines.
    mutating func serve(
        _ producer: Producer, of client: String, nowNs: Int64, _ logger: Logger,
        report: (borrowing DeliveryReport) -> Void, event: (ClientEvent) -> Void = { _ in }
    ) {
        producer.serve(report: report) { one in
            event(one)
            if case .error(let error) = one, error.code == .noResources { noteFatal() }
            guard case .fatal(let error) = one else { return EventLog.write(one, of: client, to: logger) }
            noteFatal()
            logger.error(.kafka, "fatal error of the producer, replacing it", ["error": "\(error.text)"])
        }
        guard mustRenew, nowNs >= pause.endNs else { return }
        pause.begin(nowNs)
        do throws(KafkaError) {
            try producer.rebuild()
            mustRenew = false
        } catch {
            logger.error(.kafka, "producer cannot be replaced, retrying", ["error": "\(error.text)"])
        }
    }
}

/// A pause that doubles from one second to 30 seconds.
struct GrowingPause {
    private(set) var endNs: Int64 = 0
    private(set) var lengthNs: Int64 = 0

    static let leastNs: Int64 = 1_000_000_000
    static let longestNs: Int64 = 30_000_000_000

    var hasBegun: Bool { lengthNs > 0 }

    mutating func begin(_ nowNs: Int64) {
        lengthNs = min(max(Self.leastNs, 2 * lengthNs), Self.longestNs)
        endNs = nowNs + lengthNs
    }
}
