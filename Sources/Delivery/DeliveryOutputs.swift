package import PushRecords

/// The result of `DeliveryMachine.receive`. The machine does not borrow the record's bytes after the call. After
/// `deadLetter`, the caller produces the dead letter from these bytes.
package enum Receipt {
    /// The machine now owns every notification of the record.
    case taken
    /// The record becomes a dead letter for this reason. Produce its key, value and readable headers to the dead-letter
    /// topic, and pass `id` to `acknowledged` after Kafka's acknowledgement. `nextProduction` does not return it.
    case deadLetter(id: NotificationID, reason: DeadLetterReason, detail: Detail)
    /// The record is unreadable, and `letterRoom` is too small for its dead letter. The machine did not receive the
    /// record. Pass the record again later.
    case noLetterRoom
    /// A retry record that is not due yet. The machine did not receive the record. Leave it at the head of its queue,
    /// and pass it again at `untilMs` (wall clock).
    case notDue(untilMs: Int64)
    /// There is nothing to do for the record: the commit map lists it as settled, its offset is not above all offsets
    /// received or committed before (librdkafka has read it again), or the assignment is no longer active.
    case ignored
}

/// A topic that the worker produces to. Each topic but the dead-letter topic has a separate queue.
package enum ProductionTarget: Hashable, Sendable {
    case results
    case unregistered
    /// A retry topic, by the index of its tier in `MachineSettings.tierDelaysMs`.
    case retry(tier: Int)
    /// The publisher owns each dead letter from `Receipt.deadLetter` on, so the machine has no queue for dead letters.
    case deadLetters
}

/// The entry of one partition in a commit.
package struct PartitionCommit {
    package var partition: PartitionID
    package var offset: Int64
    /// The metadata of the commit, in printable ASCII.
    package var metadata: [UInt8]
}

/// The broker's reply to a commit, for one partition.
package enum CommitOutcome: Sendable, Equatable {
    case acknowledged
    /// The broker answered OFFSET_METADATA_TOO_LARGE, for this entry or another. The machine commits the partition
    /// again immediately. It halves the metadata limit unless another entry's metadata is at least twice as long.
    case metadataTooLarge
    /// The broker refused the commit. The machine commits the partition's latest state after a pause.
    case refused
    /// The group coordinator refuses the commits of all partitions. The machine commits the latest state of each
    /// partition after a pause of at most a second (`CommitBackoff.groupPauseNs`).
    case refusedByGroup
    /// The error may concern another partition, because librdkafka copies one partition's error to all. This partition
    /// is committed again immediately, in a separate commit.
    case unattributed
    /// The topic does not exist, or the group may not read it. Only a separate commit of this partition shows this. The
    /// machine commits again after a pause, but a revoked partition may be released without a successful commit.
    case impossible
}

/// An event for the log or an operator. Events are rare, or are reported once per change of state.
package enum DeliveryEvent: Sendable, Equatable {
    /// The committed offset was not written by a worker: its metadata is empty, foreign or damaged. Records from that
    /// offset up to `doubtedBelow` are marked in doubt.
    case foreignCommit(PartitionID, committed: Int64, doubtedBelow: Int64)
    /// The machine received the first record of a partition without a committed offset. `ageMs` is the record's age.
    /// `records` is the number of offsets in the log. The machine marks all records at these offsets in doubt.
    case startedWithoutOffset(PartitionID, offset: Int64, records: Int64, ageMs: Int64?)
    /// The topic was recreated, or the partition's log was truncated. `start` is the offset at which the new log is
    /// read from, or the start of the log, if known. Records that may have been sent are in doubt.
    case logChanged(PartitionID, committed: Int64, start: Int64?, end: Int64?)
    /// Retention deleted records before they were read: `start - committed` offsets were skipped.
    case overtaken(PartitionID, committed: Int64, start: Int64)
    /// The broker refused `refusals` consecutive commits of the partition. Reported at the second refusal, or at the
    /// first impossible one, and then every 10 s at most.
    case commitsRefused(PartitionID, refusals: Int, isImpossible: Bool)
    /// A commit was acknowledged after `commitsRefused`.
    case commitsResumed(PartitionID)
    /// A suspended partition was assigned again, and no other worker had sent anything. The partition resumes without
    /// repeats.
    case resumed(PartitionID)
    /// The commit map was too long and was truncated. Reported once until the map fits again.
    case mapCut(PartitionID)
    /// The broker refused metadata of this length. The machine halves the limit.
    case metadataRefused(PartitionID, characters: Int)
    /// Notifications behind this circuit are deferred, except one probe at a time. `reason` is Apple's, or `.none` if a
    /// host is unreachable.
    case circuitOpened(CircuitName, reason: ReasonCode)
    case circuitClosed(CircuitName)
    /// More than half of the app's last 1,000 device tokens were bad, or all of the first 20. The app is slowed down.
    /// With `environment_guard: hold`, notifications with bad tokens are moved to the retry tiers.
    case guardTripped(AppIndex, held: Bool)
    case guardReleased(AppIndex)
    /// Notifications are being deferred for this reason (<doc:Held>), and may lose their order.
    case held(app: AppIndex, DeferralReason)
}

/// Identifies a circuit breaker: that of an app's host, of its credential, or of one of its topics.
package enum CircuitName: Sendable, Hashable {
    /// The credential of an app, for all topics.
    case credential(of: AppIndex)
    /// One topic of an app, for which Apple refuses the app's credential.
    case topic(String, of: AppIndex)
    /// The host of an app. If the host does not answer, the app's notifications must not use the budget of other apps.
    case connection(of: AppIndex)
}
