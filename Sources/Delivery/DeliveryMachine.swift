package import PushRecords

/// Decides everything between a Kafka record and its commit, and does nothing itself: records, fates and
/// acknowledgements go in, batches of requests, productions and commits come out.
///
/// It has no thread, clock, I/O or chance of its own; whoever owns it calls it from one thread. A turn of the owner:
///
///     advance(now)                                // timers
///     for each partition: room(for:) -> receive() // read no more than there is room for
///     handle(fates), setCapacity, acknowledged    // what the mailbox and the delivery reports brought
///     sends { app, requests in … }                // hand to the transports
///     while let next = nextProduction { … produced(next) }
///     commit = takeCommit(now)                    // when not empty: commit, later commitFinished
///     sleep until something comes or nextDeadlineNs
///
/// Costs O(1) amortized per notification and allocates nothing per notification in the steady state.
package struct DeliveryMachine: ~Copyable {
    package init(settings: DeliverySettings, apps: [AppRoute])

    // MARK: Partitions

    /// Begins an assignment.
    ///
    /// - Parameters:
    ///   - committedOffset: as read from the group at assignment; `nil`: there is none.
    ///   - metadata: of that commit, as the broker has it; damaged or foreign bytes are ignored with an event.
    package mutating func assign(
        topic: String, partition: Int32, role: PartitionRole, committedOffset: Int64?, metadata: UnsafeRawBufferPointer
    ) -> PartitionID

    /// How many records may be read from this partition now; 0: none. Ask right before reading; each `receive` changes it.
    package func room(for partition: PartitionID) -> Int

    /// Takes one record. Key, value and headers are lent for the call; what is needed is copied.
    /// A `nil` base address means that the record has no key, or no value (a tombstone).
    package mutating func receive(
        _ partition: PartitionID, offset: Int64, timestampMs: Int64, key: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>, now: DeliveryTime
    ) -> Receipt

    // MARK: Sending

    /// How many requests of this app may be unanswered at once (`TransportEvent.capacity`).
    package mutating func setCapacity(_ app: AppIndex, requests: Int)

    /// Hands out what may be sent now, at most one batch per app, to be posted as `TransportCommand.send`. The bytes in
    /// it stay valid until the fate of each came back through `handle`.
    package mutating func sends(now: DeliveryTime, _ body: (AppIndex, [OutgoingRequest]) -> Void)

    /// Hands out what is to be taken back from transports, to be posted as `TransportCommand.recall`.
    package mutating func recalls(_ body: (AppIndex, [NotificationID]) -> Void)

    /// What became of requests.
    package mutating func handle(_ batch: FateBatch, now: DeliveryTime)

    // MARK: Producing

    /// The next record to be produced, in order; `nil`: none. The same one until `produced` is called: when the
    /// producer's queue is full, try again later.
    package var nextProduction: Production? { get }

    /// Lends what a `result` or `unregistered` production says.
    package func withResult<R>(
        _ id: NotificationID, now: DeliveryTime, _ body: (borrowing NotificationContent, borrowing Ending) -> R
    ) -> R

    /// Lends what a `retry` production says.
    package func withRetry<R>(
        _ id: NotificationID, _ body: (borrowing NotificationContent, borrowing RetryOrder) -> R
    ) -> R

    /// The producer copied `nextProduction`: its bytes may go. Exactly one `acknowledged` with its id must follow.
    package mutating func produced(_ production: Production)

    /// Kafka acknowledged one production, or dead letter, of this notification.
    package mutating func acknowledged(_ id: NotificationID, now: DeliveryTime)

    // MARK: Commits

    /// What to commit now: empty while a commit is in flight, before it is time, or when nothing changed. When it is
    /// not empty, `commitFinished` must follow. Metadata is lent until the next call.
    package mutating func takeCommit(now: DeliveryTime) -> [CommitEntry]

    /// The reply: one outcome for each entry of `takeCommit`, in its order.
    package mutating func commitFinished(_ outcomes: [CommitOutcome], now: DeliveryTime)

    // MARK: Leaving

    /// Begins to give partitions up (revoked, or the worker stops): nothing more is admitted; what is not on a
    /// connection is dropped, or recalled; what is on one may settle. A last commit follows.
    package mutating func revoke(_ partitions: [PartitionID])

    /// The drain limit passed: the last commit goes out now, with a reach that covers what is unanswered.
    package mutating func stopWaiting(_ partitions: [PartitionID])

    /// Whether everything of a revoked partition ended and its last commit was acknowledged.
    package func isDrained(_ partition: PartitionID) -> Bool

    /// Forgets assignments: lost ones, or revoked ones that are drained. What still comes back for them is dropped.
    package mutating func release(_ partitions: [PartitionID])

    // MARK: Time and events

    /// Timers: call when `nextDeadlineNs` has come, or once a turn.
    package mutating func advance(now: DeliveryTime)

    /// Monotonic time at which `advance` or `takeCommit` has something to do; `nil`: nothing before something happens.
    package var nextDeadlineNs: Int64? { get }

    /// What happened that a log should say; empties the list.
    package mutating func takeEvents() -> [DeliveryEvent]

    package var counters: DeliveryCounters { get }
    package func status(of partition: PartitionID) -> PartitionStatus
}
