internal import Kafka
internal import Observability

/// Whether a producer still reports what it took, and when it is to be made anew. Decides only; no clock, no I/O.
///
/// librdkafka makes a thread for each broker. One that the system has no room for is not made again, only told of in an
/// error; what waits for it then waits for ever.
struct ProducerHealth {
    /// Without any report, while there should be some, since then (monotonic).
    private var silentSinceNs: Int64?
    private var lacksThread = false
    private var mustRenew = false
    private var nextRenewalNs = Int64.min
    private var pauseNs = Self.leastPauseNs

    /// How long nothing may be reported before that is named.
    static let namedNs: Int64 = 10_000_000_000
    /// Before a producer that lacks a thread is made anew.
    static let lameNs: Int64 = 30_000_000_000
    /// Before any other is that sends each record alone: longer than a request waits for its answer, since one that was
    /// under way may be written twice.
    static let silentNs: Int64 = 120_000_000_000
    static let leastPauseNs: Int64 = 1_000_000_000
    static let longestPauseNs: Int64 = 30_000_000_000

    /// The producer met an error that is not fatal.
    mutating func note(_ error: KafkaError) {
        if error.code == .noResources { lacksThread = true }
    }

    /// The producer is of no use any more.
    mutating func noteFatal() { mustRenew = true }

    /// The producer handed out so many reports, and owes as many as are outstanding.
    mutating func look(reports: Int, outstanding: Int, nowNs: Int64) {
        if reports > 0 || outstanding == 0 { silentSinceNs = nil }
        if outstanding > 0, silentSinceNs == nil { silentSinceNs = nowNs }
    }

    /// Why it owes reports, and since when; `nil`: it does not, or not for long.
    func silence(nowNs: Int64) -> (code: KafkaCode, sinceNs: Int64)? {
        guard let silentSinceNs, nowNs - silentSinceNs >= Self.namedNs else { return nil }
        return (lacksThread ? .noResources : .timedOut, silentSinceNs)
    }

    /// Whether it is to be made anew for its silence; `sendsSingly`: also for one that nothing explains.
    func isStuck(sendsSingly: Bool, nowNs: Int64) -> Bool {
        guard let silentSinceNs, !mustRenew else { return false }
        let limitNs = lacksThread ? Self.lameNs : Self.silentNs
        return (lacksThread || sendsSingly) && nowNs - silentSinceNs >= limitNs
    }

    /// Makes it anew where it must be; tries again after a growing pause.
    mutating func renew(nowNs: Int64, _ make: () -> Bool) {
        guard mustRenew, nowNs >= nextRenewalNs else { return }
        if make() {
            self = ProducerHealth()
        } else {
            nextRenewalNs = nowNs + pauseNs
            pauseNs = min(2 * pauseNs, Self.longestPauseNs)
        }
    }
}

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
