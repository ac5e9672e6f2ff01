import PushRecords

/// How a partition stands now.
package struct PartitionStatus: Sendable, Equatable {
    package var topic: String
    package var partition: Int32
    /// The first offset that is not settled, to be committed, if one is known.
    package var watermark: Int64?
    /// Acknowledged by the group in this assignment, if anything.
    package var committed: Int64?
    /// No record from here on is sent before a commit names a higher one; `nil` if none was acknowledged.
    package var sendHorizon: Int64?
    /// -1: nothing was received.
    package var highestReceived: Int64
    /// Offsets from the watermark to the highest received.
    package var span: Int64
    /// Records that are received and not settled.
    package var openRecords: Int
    package var openNotifications: Int
    /// Timestamp of the record at the watermark; `nil` if nothing is open.
    package var oldestOpenMs: Int64?
    /// How long ago it was received, by the monotonic clock; `nil` if nothing is open.
    package var oldestOpenForNs: Int64?
    package var isDraining: Bool
    /// Commits that were refused in a row, and since when (monotonic).
    package var refusedCommits = 0
    package var refusedSinceNs: Int64?
    /// The last of them because the topic is gone, or denied to the group.
    package var isCommitImpossible = false
    /// Its session was lost: what it knows is kept in case it comes back.
    package var isSuspended = false
}

/// How an app stands now.
package struct AppStatus: Sendable, Equatable {
    package enum GuardState: Sendable {
        /// `environment_guard: off`.
        case off
        /// No token of it was good yet: few are in flight.
        case unproven
        case proven
        /// More than half of its last 1,000 tokens were bad, or all of the first 20: slowed down, and health is
        /// degraded.
        case tripped
    }

    package var name: String
    /// Taken out of the configuration: nothing of it is sent any more.
    package var isRemoved: Bool
    package var isPaused: Bool
    /// Notifications of it that are open.
    package var open: Int
    /// Of these, waiting for a free stream.
    package var ready: Int
    /// Handed to the transport and unanswered.
    package var handed: Int
    /// What the transport takes at once.
    package var capacity: Int
    /// What it is given at once: less than `capacity` when Apple is overloaded or the guard slows it down.
    package var concurrency: Int
    package var guardState: GuardState
    /// Since when Apple refuses its credential, and its reason, if it does. Monotonic.
    package var credentialOpenNs: Int64?
    package var credentialReason: String?
    /// Topics for which Apple refuses its credential.
    package var openTopics: Int
    /// No connection can be made, or none is of use, for so long that its notifications are held.
    package var isCutOff: Bool
    /// Since when its notifications are held, for whatever cause, if any are. Monotonic.
    package var heldSinceNs: Int64?
}

/// What is going on now, over all partitions.
package struct DeliveryGauges: Sendable, Equatable {
    package var openNotifications: Int
    package var openBytes: Int
    /// Handed to transports and unanswered, by app.
    package var inFlight: [Int]
    /// Waiting for a free stream, by app.
    package var waiting: [Int]
    package var productions: Int
}

extension DeliveryMachine {
    /// How a partition stands; `nil` when the assignment is gone. Costs nothing that grows with what is open.
    package func status(of id: PartitionID) -> PartitionStatus? {
        guard let partition = ledger.find(id) else { return nil }
        var status = PartitionStatus(
            topic: ledger[partition].topicText, partition: ledger[partition].number,
            watermark: ledger[partition].ledger.committable,
            committed: ledger[partition].committed,
            sendHorizon: ledger[partition].horizon.acknowledged,
            highestReceived: ledger[partition].ledger.highestReceived,
            span: ledger[partition].ledger.span, openRecords: ledger[partition].ledger.openCount,
            openNotifications: ledger[partition].open,
            isDraining: ledger[partition].isLeaving)
        status.refusedCommits = ledger[partition].commits.refusals
        status.refusedSinceNs = ledger[partition].commits.sinceNs
        status.isCommitImpossible = ledger[partition].commits.isImpossible
        status.isSuspended = ledger[partition].phase == .suspended
        if let record = ledger[partition].ledger.firstOpenRecord {
            status.oldestOpenMs = store[record].timestampMs
            status.oldestOpenForNs = now.ns - store[record].receivedNs
        }
        return status
    }

    /// Every assignment, suspended ones included.
    package var partitionStatuses: [PartitionStatus] { ledger.slots.compactMap { status(of: ledger[$0].id) } }

    /// The status of every app, by `AppIndex`. Removed apps are included.
    package var appStatuses: [AppStatus] {
        apps.indices.map { app in
            let circuit = dispatch.breakers.credentialCircuit(app)
            return AppStatus(
                name: apps.route(app).name, isRemoved: apps.isRemoved(app), isPaused: apps.route(app).isPaused,
                open: store.budget.apps[app].open, ready: dispatch.ready(app), handed: dispatch.handed(app),
                capacity: dispatch.capacity(app), concurrency: dispatch.concurrency(app),
                guardState: dispatch.environmentGuard(app).state, credentialOpenNs: circuit?.openedNs,
                credentialReason: circuit?.reason.text?.description,
                openTopics: dispatch.breakers.apps[app].topics.count,
                isCutOff: dispatch.breakers.apps[app].host.isOpen,
                heldSinceNs: dispatch.breakers.deferredSinceNs(app, pauseNs: deferralPauseNs, nowNs: now.ns))
        }
    }

    package var gauges: DeliveryGauges {
        DeliveryGauges(
            openNotifications: store.count, openBytes: store.blockBytes + store.countedBytes,
            inFlight: apps.indices.map { dispatch.handed($0) },
            waiting: apps.indices.map { dispatch.ready($0) }, productions: settlement.productions.count)
    }
}

extension EnvironmentGuard {
    fileprivate var state: AppStatus.GuardState {
        if isOff { return .off }
        if isTripped { return .tripped }
        return isProven ? .proven : .unproven
    }
}
