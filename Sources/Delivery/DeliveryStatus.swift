import PushRecords

/// The current state of a partition.
package struct PartitionStatus: Sendable, Equatable {
    package var topic: String
    package var partition: Int32
    /// The offset to commit, which is the lowest offset that is not settled. `nil` if no offset is known.
    package var watermark: Int64?
    /// The last committed offset that was acknowledged in this assignment, if any.
    package var committed: Int64?
    /// The highest received offset, or -1 if there is none.
    package var highestReceived: Int64
    /// The number of offsets from the watermark to the highest received one.
    package var span: Int64
    /// The number of received records that are not settled.
    package var openRecords: Int
    package var openNotifications: Int
    /// The timestamp of the record at the watermark, or `nil` if no record is open.
    package var oldestOpenMs: Int64?
    package var isDraining: Bool
}

/// The current state of an app.
package struct AppStatus: Sendable, Equatable {
    package var isPaused: Bool
    /// The number of the app's open notifications.
    package var open: Int
    /// The number of the app's notifications that wait for a free stream.
    package var ready: Int
    /// The number of the app's sends that were handed to the transport and are unanswered.
    package var handed: Int
    /// The maximum number of the app's sends in flight. Less than the transport's capacity while the throttle or the
    /// environment guard limits the app.
    package var concurrency: Int
    /// Whether the environment guard slows the app down.
    package var isGuardTripped: Bool
    /// Whether Apple refuses the app's credential, for all topics or for some.
    package var isCredentialRefused: Bool
    /// Whether the app's notifications are deferred because the circuit of its host is open.
    package var isCutOff: Bool
}

/// The current totals over all partitions.
package struct DeliveryGauges: Sendable, Equatable {
    package var openNotifications: Int
    package var openBytes: Int
    /// The number of sends that were handed to a transport and are unanswered, by app.
    package var inFlight: [Int]
}

extension DeliveryMachine {
    /// Returns the state of a partition, or `nil` if the assignment has ended. O(1).
    package func status(of id: PartitionID) -> PartitionStatus? {
        guard let partition = ledger.find(id) else { return nil }
        let oldest = ledger[partition].offsets.firstOpenRecord
        return PartitionStatus(
            topic: ledger[partition].topicText, partition: ledger[partition].number,
            watermark: ledger[partition].offsets.committable, committed: ledger[partition].committed,
            highestReceived: ledger[partition].offsets.highestReceived, span: ledger[partition].offsets.span,
            openRecords: ledger[partition].offsets.openCount, openNotifications: ledger[partition].open,
            oldestOpenMs: oldest.map { store[$0].timestampMs }, isDraining: ledger[partition].isLeaving)
    }

    /// The time of this machine's clock minus the time of the brokers' clocks, in milliseconds. `nil` if the clocks
    /// differ by at most ten minutes, or were not compared.
    package var clockAheadMs: Int64? {
        journal.brokersClock.aheadMs(now).flatMap { abs($0) > BrokersClock.toleranceMs ? $0 : nil }
    }

    /// The state of every app by `AppIndex`, including removed apps.
    package var appStatuses: [AppStatus] {
        apps.indices.map { app in
            let breaker = dispatch.breakers.apps[app]
            return AppStatus(
                isPaused: apps.route(app).isPaused, open: store.budget.apps[app].open,
                ready: dispatch.apps[app].ready.count, handed: dispatch.apps[app].handed,
                concurrency: dispatch.apps[app].concurrency,
                isGuardTripped: dispatch.apps[app].environmentGuard.isTripped,
                isCredentialRefused: !breaker.isRemoved && breaker.isCredentialRefused, isCutOff: breaker.hasOpenHost)
        }
    }

    package var gauges: DeliveryGauges {
        DeliveryGauges(
            openNotifications: store.count, openBytes: store.blockBytes + store.countedBytes,
            inFlight: dispatch.apps.map(\.handed))
    }
}
