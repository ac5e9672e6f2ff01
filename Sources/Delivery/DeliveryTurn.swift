/// Where requests come from: the consumer groups.
package protocol RequestSource {
    associatedtype Failure: Error

    /// Takes the events of the consumer groups: assigned and revoked partitions, replies to commits.
    ///
    /// - Returns: the time afterwards: it may have waited for brokers, and what is sent next counts on a lease that may
    ///   be over meanwhile.
    /// - Throws: when it cannot go on. The turn ends there: nothing more is read, sent or committed.
    func serve(_ machine: inout DeliveryMachine, now: DeliveryTime) throws(Failure) -> DeliveryTime

    /// Gives the machine records, no more than it has room for; true when more wait that it has room for.
    func read(into machine: inout DeliveryMachine, now: DeliveryTime) throws(Failure) -> Bool

    /// When `serve` or `read` has something to do although nothing wakes the owner (monotonic), if ever.
    func nextDeadlineNs(now: DeliveryTime) -> Int64?
}

/// The transports of all apps, by their `AppIndex`.
package protocol Transports {
    /// Brings the machine the news since the last turn: completions, capacities, whether APNs is reached.
    func deliver(to machine: inout DeliveryMachine, now: DeliveryTime)

    /// Hands over what the machine sends now.
    func send(from machine: inout DeliveryMachine, now: DeliveryTime)

    /// Asks back what is not to be sent any more.
    func recall(from machine: inout DeliveryMachine)
}

/// Where records go: results, dead tokens, retry records, dead letters.
package protocol RecordSink {
    /// So many records are not acknowledged that nothing more is to be read.
    var isBackedUp: Bool { get }

    /// When `acknowledge` has something to do although nothing wakes the owner (monotonic), if ever.
    var nextDeadlineNs: Int64? { get }

    /// Brings acknowledgements to the machine, and writes again what was not written.
    func acknowledge(_ machine: inout DeliveryMachine, now: DeliveryTime)

    /// Writes what the machine has for topics that can be written.
    func publish(_ machine: inout DeliveryMachine, now: DeliveryTime)
}

/// Where offsets go. The replies come with what Kafka says of the groups (`RequestSource.serve`).
package protocol OffsetSink {
    /// Commits what is due, where no commit is in flight.
    func commit(_ machine: inout DeliveryMachine, now: DeliveryTime)
}

/// One turn of the owner of a machine: its steps in order, and when the next one comes. The worker runs it, and so does
/// whatever stands for a worker elsewhere: the simulated world, the benchmark, the tests' rig.
///
/// The order is a part of the promise. Completions come before any decision that depends on them, and before timers: a
/// request that was answered in time is not late. Kafka is served before it is read, so that nothing is read of a
/// partition that is being taken back, and a commit's reply raises the horizon of what is sent in the same turn.
/// Acknowledgements come before records: they make room. What was read may be sent, written and committed at once.
package struct DeliveryTurn {
    /// Most records that are read of one partition before the next one's turn.
    package static let partitionRecords = 128
    /// Most records that are read before the machine is asked again for how many it has room.
    package static let roomRecords = 8

    /// What a turn leaves to its owner.
    package struct End {
        /// There is more to be read at once: the next turn is not waited for.
        package var hasMore: Bool
        /// For log and metrics.
        package var events: [DeliveryEvent]
        /// When the next turn is due, if nothing else wakes the owner (monotonic).
        package var deadlineNs: Int64
    }

    /// Kafka is served at least this often, woken or not (`max.poll.interval.ms`).
    package static let serveEveryNs: Int64 = 500_000_000
    /// A turn that only a time brings comes no sooner after the last.
    static let leastPauseNs: Int64 = 500_000

    private var lastServedNs = Int64.min / 2
    /// Whether a queue of one of Kafka's clients has something since the last turn, or groups are being left, for which
    /// there is no wake-up.
    package var hasKafkaNews = true

    package init() {}

    /// - Throws: what `requests` threw; the turn was not gone on with.
    package mutating func run<Requests: RequestSource>(
        _ machine: inout DeliveryMachine, requests: Requests, transports: some Transports, records: some RecordSink,
        offsets: some OffsetSink, now: DeliveryTime
    ) throws(Requests.Failure) -> End {
        var now = now
        transports.deliver(to: &machine, now: now)
        machine.advance(now: now)
        if hasKafkaNews || isKafkaDue(requests, records, now) {
            hasKafkaNews = false
            lastServedNs = now.ns
            now = try requests.serve(&machine, now: now)
            records.acknowledge(&machine, now: now)
        }
        let hasMore = records.isBackedUp ? false : try requests.read(into: &machine, now: now)
        transports.send(from: &machine, now: now)
        transports.recall(from: &machine)
        records.publish(&machine, now: now)
        offsets.commit(&machine, now: now)
        return End(
            hasMore: hasMore, events: machine.takeEvents(),
            deadlineNs: deadlineNs(machine, requests, records, now))
    }

    /// Whether Kafka is served without news.
    private func isKafkaDue(_ requests: some RequestSource, _ records: some RecordSink, _ now: DeliveryTime) -> Bool {
        if now.ns - lastServedNs >= Self.serveEveryNs { return true }
        if let next = records.nextDeadlineNs, next <= now.ns { return true }
        return requests.nextDeadlineNs(now: now).map { $0 <= now.ns } ?? false
    }

    private func deadlineNs(
        _ machine: borrowing DeliveryMachine, _ requests: some RequestSource, _ records: some RecordSink,
        _ now: DeliveryTime
    ) -> Int64 {
        var deadlineNs = now.ns + Self.serveEveryNs
        if let next = machine.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        if let next = records.nextDeadlineNs { deadlineNs = min(deadlineNs, next) }
        if let next = requests.nextDeadlineNs(now: now) { deadlineNs = min(deadlineNs, next) }
        // What was due in this turn and is so still waits for something else than time.
        return max(deadlineNs, now.ns + Self.leastPauseNs)
    }
}
