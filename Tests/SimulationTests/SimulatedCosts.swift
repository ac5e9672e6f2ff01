@testable import Delivery

/// What a turn costs: memory and metadata grow with what is open, never with what is settled.
extension SimulatedWorld {
    func checkCost(_ worker: SimulatedWorker) {
        guard step % 4 == 0 else { return }
        for partition in worker.machine.ledger.slots {
            let entries = worker.machine.ledger[partition].ledger.entryCount
            let open = worker.machine.ledger[partition].ledger.openCount
            longestSpan = max(longestSpan, worker.machine.ledger[partition].ledger.span)
            // Settled neighbours are merged when there are 64 entries beside four for each open one.
            if entries > 4 * open + 65 { breaks("\(entries) entries for \(open) open records") }
        }
        // A notification has two at most; what became void waits for its turn.
        let gauges = worker.machine.gauges
        if gauges.productions > 4 * settings.maxOpen + 200 { breaks("\(gauges.productions) productions wait") }
        if worker.machine.ledger.partitions.count > 4 * logs.count { breaks("assignments are not given up") }
    }

    /// What APNs never processes does not hold its partition back: after so many tries it waits in a tier.
    func checkRefused(_ id: NotificationID, _ worker: SimulatedWorker, _ machine: borrowing DeliveryMachine) {
        let count = worker.refusals[id, default: 0] + 1
        worker.refusals[id] = count
        if count > 20, let place = worker.place(of: id, in: machine) { breaks("\(place) was refused \(count) times") }
    }

    /// A commit as it is sent.
    func checkCommit(
        _ entry: PartitionCommit, _ log: Int, _ worker: SimulatedWorker, _ machine: borrowing DeliveryMachine
    ) {
        if entry.metadata.count > settings.metadataLimit { breaks("\(entry.metadata.count) characters of metadata") }
        guard let partition = machine.ledger.find(entry.partition) else { return }
        if machine.ledger[partition].isMapCut {
            note("map cut")
            wasMapCut = true
        }
    }
}
