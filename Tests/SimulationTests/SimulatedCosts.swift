@testable import Delivery

/// What a turn costs: memory and metadata grow with what is open, never with what is settled.
extension SimulatedWorld {
    /// How long one that is always refused may be open, when nothing else is wrong.
    private static let refusedLimitNs: Int64 = 60_000_000_000

    func checkCost(_ worker: SimulatedWorker) {
        guard step % 4 == 0 else { return }
        for case let partition? in worker.machine.partitions {
            let entries = partition.pointee.ledger.entryCount
            let open = partition.pointee.ledger.openCount
            longestSpan = max(longestSpan, partition.pointee.ledger.span)
            // Settled neighbours are merged when there are 64 entries beside four for each open one.
            if entries > 4 * open + 65 { breaks("\(entries) entries for \(open) open records") }
        }
        // A notification has two at most; what became void waits for its turn.
        let gauges = worker.machine.gauges
        if gauges.productions > 4 * settings.maxOpen + 200 { breaks("\(gauges.productions) productions wait") }
        if worker.machine.partitions.count > 4 * logs.count { breaks("assignments are not given up") }
        if isCalm, hasEndless { checkRefused(worker) }
    }

    /// What APNs never processes does not hold its partition back.
    private func checkRefused(_ worker: SimulatedWorker) {
        for slot in 0..<UInt32(worker.machine.notifications.capacity) {
            let notification = worker.machine.notifications[slot]
            guard notification.state == .ready || notification.state == .backingOff || notification.state == .handed,
                let place = worker.place(of: NotificationID(slot: slot, generation: notification.generation)),
                let original = original(of: place), books[original]?.rule == .endless
            else { continue }
            let openNs = ns - max(calmSinceNs, worker.machine.records[notification.record].receivedNs)
            if openNs > Self.refusedLimitNs { breaks("\(place) is refused for \(openNs / 1_000_000_000) s") }
        }
    }

    /// A commit as it is sent.
    func checkCommit(_ entry: CommitEntry, _ log: Int, _ worker: SimulatedWorker) {
        if entry.metadata.count > settings.metadataLimit { breaks("\(entry.metadata.count) characters of metadata") }
        guard let partition = worker.machine.find(entry.partition) else { return }
        if partition.pointee.isMapCut { happened["map cut", default: 0] += 1 }
        guard partition.pointee.pending?.isLast == true, partition.pointee.isMapCut else { return }
        wasMapCut = true
        // Unless the broker takes less than it should, nothing can be held, or what is on connections is not waited for.
        let isWhole = partition.pointee.metadataLimit == settings.metadataLimit && !wereTiersDenied
        if isWhole, worker.assignments[log]?.isLate == false { breaks("a map was cut in a graceful stop") }
    }
}
