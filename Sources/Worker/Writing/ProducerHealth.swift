internal import Kafka
internal import Observability

/// When a producer is made anew: after a fatal error, and when the system had no thread for one of its brokers, which
/// librdkafka never tries again. Decides only; no clock, no I/O.
struct ProducerHealth {
    private var mustRenew = false
    private var mustPause = false
    private var pause = GrowingPause()

    mutating func noteFatal() { mustRenew = true }

    /// Notes that there is no thread for one of its brokers. Another producer needs as many, so it waits.
    mutating func noteExhausted() {
        if !mustRenew { mustPause = true }
        mustRenew = true
    }

    /// Takes an event of the producer's client, and logs it.
    ///
    /// - Parameter client: its name in log lines.
    mutating func take(_ event: ClientEvent, of client: String, _ logger: Logger) {
        switch event {
        case .fatal(let error):
            noteFatal()
            logger.error(.kafka, "the producer met a fatal error; making a new one", ["error": "\(error.text)"])
        case .error(let error):
            if error.code == .noResources { noteExhausted() }
            EventLog.write(event, of: client, to: logger)
        case .log, .statistics:
            EventLog.write(event, of: client, to: logger)
        }
    }

    /// Makes the producer anew where it must be, with growing pauses.
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
        if exchange(&mustPause, with: false) { return }
        if make() { mustRenew = false }
    }
}
