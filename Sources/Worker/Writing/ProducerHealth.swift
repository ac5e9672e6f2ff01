internal import Kafka
internal import Observability

/// When a producer is made anew, with growing pauses. Decides only; no clock, no I/O.
struct ProducerHealth {
    private var mustRenew = false
    private var pause = GrowingPause()

    /// Notes that the producer cannot go on: a fatal error, or the system had no thread for one of its brokers, which
    /// librdkafka never tries again.
    mutating func noteFatal() { mustRenew = true }

    /// Takes an event of the producer's client, and logs it.
    ///
    /// - Parameter client: its name in log lines.
    mutating func take(_ event: ClientEvent, of client: String, _ logger: Logger) {
        if case .error(let error) = event, error.code == .noResources { noteFatal() }
        guard case .fatal(let error) = event else { return EventLog.write(event, of: client, to: logger) }
        noteFatal()
        logger.error(.kafka, "the producer met a fatal error; making a new one", ["error": "\(error.text)"])
    }

    /// Makes the producer anew where it must be.
    mutating func renew(_ producer: Producer, nowNs: Int64, _ logger: Logger) {
        renew(nowNs: nowNs) {
            do throws(KafkaError) {
                try producer.rebuild()
                return true
            } catch {
                logger.error(.kafka, "cannot make a new producer; trying again", ["error": "\(error.text)"])
                return false
            }
        }
    }

    mutating func renew(nowNs: Int64, _ make: () -> Bool) {
        guard mustRenew, nowNs >= pause.endNs else { return }
        pause.begin(nowNs)
        if make() { mustRenew = false }
    }
}
