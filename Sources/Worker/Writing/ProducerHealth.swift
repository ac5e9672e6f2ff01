internal import Kafka
internal import Observability

/// Decides when to replace a failed producer, with growing pauses between attempts. A value type without a clock or
/// I/O.
struct ProducerHealth {
    private var mustRenew = false
    private var pause = GrowingPause()

    /// Marks the producer as unusable: a fatal error occurred, or the system could not start a thread for one of the
    /// producer's brokers. librdkafka does not try again to start such a thread.
    mutating func noteFatal() { mustRenew = true }

    /// Handles and logs an event of the producer's client.
    ///
    /// - Parameter client: The client's name in log lines.
    mutating func take(_ event: ClientEvent, of client: String, _ logger: Logger) {
        if case .error(let error) = event, error.code == .noResources { noteFatal() }
        guard case .fatal(let error) = event else { return EventLog.write(event, of: client, to: logger) }
        noteFatal()
        logger.error(.kafka, "fatal error of the producer, replacing it", ["error": "\(error.text)"])
    }

    /// Replaces the producer's client if it is unusable.
    mutating func renew(_ producer: Producer, nowNs: Int64, _ logger: Logger) {
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
