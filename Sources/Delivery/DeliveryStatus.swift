import PushRecords

/// How a partition stands now.
package struct PartitionStatus: Sendable, Equatable {
    package var topic: String
    package var partition: Int32
    /// The first offset that is not settled, to be committed, if one is known.
    package var watermark: Int64?
    /// Acknowledged by the group in this assignment, if anything.
    package var committed: Int64?
    /// -1: nothing was received.
    package var highestReceived: Int64
    /// Offsets from the watermark to the highest received.
    package var span: Int64
    /// Records that are received and not settled.
    package var openRecords: Int
    package var openNotifications: Int
    /// Timestamp of the record at the watermark; `nil` if nothing is open.
    package var oldestOpenMs: Int64?
    package var isDraining: Bool
}

/// How an app stands now.
package struct AppStatus: Sendable, Equatable {
    package var isPaused: Bool
    /// Notifications of it that are open.
    package var open: Int
    /// Of these, waiting for a free stream.
    package var ready: Int
    /// Handed to the transport and unanswered.
    package var handed: Int
    /// What its transport is given at once: less than that takes when Apple is overloaded or the guard slows it down.
    package var concurrency: Int
    /// The environment guard slows it down.
    package var isGuardTripped: Bool
    /// Apple refuses its credential, for all topics or for some.
    package var isCredentialRefused: Bool
    /// No connection can be made, or none is of use, for so long that its notifications are held.
    package var isCutOff: Bool
}

/// What is going on now, over all partitions.
package struct DeliveryGauges: Sendable, Equatable {
    package var openNotifications: Int
    package var openBytes: Int
    /// Handed to transports and unanswered, by app.
    package var inFlight: [Int]
}

extension DeliveryMachine {
    /// How a partition stands; `nil` when the assignment is gone. Costs nothing that grows with what is open.
    package func status(of id: PartitionID) -> PartitionStatus? {
        guard let partition = ledger.find(id) else { return nil }
        let oldest = ledger[partition].ledger.firstOpenRecord
        return PartitionStatus(
            topic: ledger[partition].topicText, partition: ledger[partition].number,
            watermark: ledger[partition].ledger.committable, committed: ledger[partition].committed,
            highestReceived: ledger[partition].ledger.highestReceived, span: ledger[partition].ledger.span,
            openRecords: ledger[partition].ledger.openCount, openNotifications: ledger[partition].open,
            oldestOpenMs: oldest.map { store[$0].timestampMs }, isDraining: ledger[partition].isLeaving)
    }

    /// The status of every app, by `AppIndex`. Removed apps are included.
    package var appStatuses: [AppStatus] {
        apps.indices.map { app in
            let breaker = dispatch.breakers.apps[app]
            return AppStatus(
                isPaused: apps.route(app).isPaused, open: store.budget.apps[app].open,
                ready: dispatch.apps[app].ready.count, handed: dispatch.apps[app].handed,
                concurrency: dispatch.apps[app].concurrency,
                isGuardTripped: dispatch.apps[app].environmentGuard.isTripped,
                isCredentialRefused: !breaker.isRemoved && (breaker.credential != nil || !breaker.topics.isEmpty),
                isCutOff: breaker.host != nil)
        }
    }

    package var gauges: DeliveryGauges {
        DeliveryGauges(
            openNotifications: store.count, openBytes: store.blockBytes + store.countedBytes,
            inFlight: dispatch.apps.map(\.handed))
    }
}
