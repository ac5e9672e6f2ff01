package import PushRecords

/// What `DeliveryMachine.receive` made of a record. The bytes of the record may be let go in every case but
/// `deadLetter`, where the caller produces the dead letter from the message's own bytes first.
package enum Receipt {
    /// Every notification in it is the machine's from here on.
    case taken
    /// No notification can be read: produce key, value and headers to the dead-letter topic under `id` (its
    /// acknowledgement goes to `acknowledged`). It is not among the `productions`.
    case deadLetter(id: NotificationID, reason: DeadLetterReason, detail: Detail)
    /// It would be a dead letter, and there is no room for one (`letterRoom`): not received. Give it again when there
    /// is.
    case noLetterRoom
    /// A retry record whose time has not come: not received. Seek back to it and read on at `untilMs` (wall clock).
    case notDue(untilMs: Int64)
    /// Already known, or named settled by the commit map that was read back: nothing to do.
    case known
    /// Not received: the record lies at or below the highest offset that came before, or below the committed one.
    /// librdkafka reads something again, and it is passed over, unless the owner knows that the log changed: then
    /// `beginAnew`, and give the record again under the new assignment.
    case below(highest: Int64)
    /// The assignment is gone or draining: not received, nothing to do.
    case unassigned
}

/// A topic that records are written to. What waits for one waits for no other.
package enum ProductionTarget: Hashable, Sendable {
    case results
    case unregistered
    /// By its place in `MachineSettings.tiers`.
    case retry(tier: Int)
    /// Has no productions: its records are the publisher's from `Receipt.deadLetter` on.
    case deadLetters
}

/// One partition of a commit.
package struct PartitionCommit {
    package var partition: PartitionID
    package var offset: Int64
    /// Printable ASCII.
    package var metadata: [UInt8]
}

/// What became of one partition of a commit.
package enum CommitOutcome: Sendable, Equatable {
    case acknowledged
    /// OFFSET_METADATA_TOO_LARGE: committed again at once with half of it.
    case metadataTooLarge
    /// For now: the newest state is committed after a pause of this partition's own.
    case refused
    /// The group, or its coordinator, takes no commit of any partition now: the newest state is committed after a
    /// second at most, sooner than what is sent ahead of commits stops for want of one (`MachineSettings.leaseNs`).
    case refusedByGroup
    /// The error may be another partition's (librdkafka copies one partition's error onto all): this one is asked again
    /// at once, by itself.
    case unattributed
    /// The topic is gone, or denied to the group; learned from a commit of this partition alone. It is tried on, but
    /// ends a leave.
    case impossible
}

/// What a log or an operator wants to know. Each is rare, or given once per change of state.
package enum DeliveryEvent: Sendable, Equatable {
    /// No worker wrote the committed offset: its metadata is empty, foreign or damaged. Records from there on and below
    /// `doubtedBelow` are marked in doubt.
    case foreignCommit(PartitionID, committed: Int64, doubtedBelow: Int64)
    /// The group had no committed offset, and this is the first record, `ageMs` old. All offsets that the log held are
    /// marked in doubt.
    case startedWithoutOffset(PartitionID, offset: Int64, records: Int64, ageMs: Int64?)
    /// The log is not the one that was committed for, or was read so far: it ends below that offset, or no log has such
    /// an offset. It is read anew, from `start` where that is known; what may have been sent before is marked in doubt.
    case logChanged(PartitionID, committed: Int64, start: Int64?, end: Int64?)
    /// Retention took records that were never read: `start - committed` offsets were skipped.
    case overtaken(PartitionID, committed: Int64, start: Int64)
    /// Its commits are refused, so many in a row. Logged with the second in a row, or the first that is impossible, and
    /// then every 10 s at most.
    case commitsRefused(PartitionID, refusals: Int, isImpossible: Bool)
    /// One was taken again, after `commitsRefused`.
    case commitsResumed(PartitionID)
    /// What a lost partition left behind was given up: it did not come back in time, or another worker had it.
    case suspendedReleased(PartitionID)
    /// A lost partition came back, and no other worker sent anything of it: it goes on where it was.
    case resumed(PartitionID)
    /// The map was too long for the metadata: its longest prefix was kept (once per growing phase).
    case mapCut(PartitionID)
    /// The broker refuses metadata of this length; halved.
    case metadataRefused(PartitionID, characters: Int)
    /// Nothing more behind this circuit is sent: what waits and what comes is held, but for one probe at a time.
    /// `reason` is Apple's word for it; of a connection it is `.none`.
    case circuitOpened(CircuitName, reason: ReasonCode)
    case circuitClosed(CircuitName)
    /// More than half of the app's last 1,000 device tokens were bad, or all of the first 20: it is slowed down, and
    /// what is answered so goes to the retry tiers where `environment_guard: hold` asks for it.
    case guardTripped(AppIndex, held: Bool)
    case guardReleased(AppIndex)
    /// Notifications moved to a tier without an attempt (<doc:Held>); their order per device is given up.
    case held(app: AppIndex, DeferralReason)
}

/// The name of a circuit breaker: the credential, topic or host that it protects.
package enum CircuitName: Sendable, Hashable {
    /// The credential of this app, and of all that share it.
    case credential(of: AppIndex)
    /// One topic of an app, which Apple says the app's key is not for.
    case topic(String, of: AppIndex)
    /// The host of an app, from which no answer comes: what is sent to it would take the budget of other apps.
    case connection(of: AppIndex)
}
