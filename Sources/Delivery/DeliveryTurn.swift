/// The consumer groups, which provide request and retry records and store the commits.
package protocol RequestSource {
    associatedtype Failure: Error

    /// Handles the events of the consumer groups: assigned and revoked partitions, and replies to commits.
    ///
    /// - Returns: The time after the call. The call may wait for brokers so long that the lease has ended.
    /// - Throws: A fatal error. The turn ends without reading, sending or committing.
    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) throws(Failure) -> DeliveryTime

    /// Passes records to the machine, up to the machine's limits. Returns whether more records are waiting that the
    /// machine may receive immediately.
    func read(into machine: inout DeliveryMachine, now: DeliveryTime) throws(Failure) -> Bool

    /// Sends commits that are due, for groups without a commit in flight. `serve` handles the replies.
    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime)

    /// Returns the monotonic time of the next timer of `serve` or `read`, or `nil` if there is none.
    func nextDeadlineNs(now: DeliveryTime) -> Int64?
}

/// The transports of all apps, by `AppIndex`.
package protocol Transports {
    /// Passes the transports' reports since the last turn to the machine: completions, capacities, reachability.
    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime)

    /// Passes the machine's requests to the transports.
    func send(from machine: inout DeliveryMachine, now: DeliveryTime)

    /// Recalls from the transports all notifications that must not be sent any more.
    func recall(from machine: inout DeliveryMachine)
}

/// The destination of output records: results, dead tokens, retry records and dead letters.
package protocol RecordSink {
    /// Whether so many output records are unacknowledged that no more requests should be read.
    var isBackedUp: Bool { get }

    /// The monotonic time of the next timer of `acknowledge`, or `nil` if there is none.
    var nextDeadlineNs: Int64? { get }

    /// Passes acknowledgements to the machine, and produces records again that Kafka did not acknowledge.
    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime)

    /// Produces the machine's records for writable topics.
    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime)
}

/// One turn of the code that owns a machine: the worker, a simulation, the benchmark or a test.
///
/// The order of the steps matters:
/// - Completions are handled before timers, so that a host that has answered does not count as unreachable.
/// - Kafka's events are handled before records are read. No records of a revoked partition are read, and acknowledged
///   commits raise the send horizon for the sends of the same turn.
/// - Acknowledgements are handled before records are read, because they free memory.
/// - Records are read before the steps that send, produce and commit, so that a record can pass all steps in one turn.
package struct DeliveryTurn {
    /// The maximum number of records read from one partition before the next partition is read.
    package static let partitionRecords = 128
    /// The maximum number of records read between two calls of `DeliveryMachine.room(for:)`.
    package static let roomRecords = 8

    /// The result of a turn.
    package struct End {
        /// Whether more records can be read, so that the next turn should start immediately.
        package var hasMore: Bool
        /// Events for log and metrics.
        package var events: [DeliveryEvent]
        /// When the next turn is due if no event wakes the owner (monotonic).
        package var deadlineNs: Int64
    }

    /// The maximum time between two calls of `serve`. It must be below Kafka's `max.poll.interval.ms`.
    package static let serveEveryNs: Int64 = 500_000_000
    /// The minimum time between two turns if only a timer is due.
    static let leastPauseNs: Int64 = 500_000

    private var lastServedNs = Int64.min / 2
    /// Whether a queue of a Kafka client has new events, or the worker is leaving a group, which causes no wake-up.
    package var hasKafkaNews = true

    package init() {}

    /// Runs one turn.
    ///
    /// - Throws: The error that `requests` threw. The remaining steps of the turn are skipped.
    package mutating func run<Requests: RequestSource>(
        _ machine: inout DeliveryMachine, requests: Requests, transports: some Transports, records: some RecordSink,
        now: DeliveryTime
    ) throws(Requests.Failure) -> End {
        var now = now
        transports.deliver(to: &machine, now: now)
        machine.advance(now: now)
        if hasKafkaNews || kafkaDueNs(requests, records, now) <= now.ns {
            hasKafkaNews = false
            now = try requests.serve(&machine, now: now)
            lastServedNs = now.ns
            records.acknowledge(&machine, now: now)
        }
        let hasMore = records.isBackedUp ? false : try requests.read(into: &machine, now: now)
        transports.send(from: &machine, now: now)
        transports.recall(from: &machine)
        records.publish(&machine, now: now)
        requests.commit(&machine, now: now)
        let nextNs = min(machine.nextDeadlineNs ?? .max, kafkaDueNs(requests, records, now))
        // A timer that is still due after this turn can do nothing before another event. The pause avoids a busy loop
        // until then.
        return End(
            hasMore: hasMore, events: machine.takeEvents(), deadlineNs: max(nextNs, now.ns + Self.leastPauseNs))
    }

    /// Returns when Kafka's events must be handled if no event wakes the owner.
    private func kafkaDueNs(_ requests: some RequestSource, _ records: some RecordSink, _ now: DeliveryTime) -> Int64 {
        min(
            lastServedNs + Self.serveEveryNs, records.nextDeadlineNs ?? .max, requests.nextDeadlineNs(now: now) ?? .max)
    }
}
