internal import Kafka
internal import Observability

// What whoever has a producer does with its health: both publishers do the same.
extension ProducerHealth {
    /// Takes an event of the producer's client, and says it.
    ///
    /// - Parameter client: its name in lines.
    mutating func take(_ event: ClientEvent, of client: String, _ logger: Logger) {
        switch event {
        case .fatal(let error):
            noteFatal()
            logger.error(.kafka, "the producer met a fatal error; making a new one", ["error": "\(error.text)"])
        case .error(let error):
            note(error)
            EventLog.write(event, of: client, to: logger)
        case .log, .statistics:
            EventLog.write(event, of: client, to: logger)
        }
    }

    /// Makes the producer anew where it must be; tries again after a growing pause.
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
}
