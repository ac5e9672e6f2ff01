import Bytes
@testable import Delivery

/// Sessions that are lost, return, or expire undetected by their owner, and topics whose commits are refused.
extension SimulatedWorld {
    /// Loses a session with the worker's knowledge. The worker keeps its state.
    func lapse(_ log: Int, _ worker: SimulatedWorker) {
        guard let assignment = worker.assignments[log], assignment.fenced == nil, assignment.drainsSince == nil else {
            return
        }
        takeAway(log, assignment, from: worker)
        worker.assignments[log] = nil
        suspend(log, assignment, worker, isUntouched: true)
    }

    func suspend(
        _ log: Int, _ assignment: SimulatedWorker.Assignment, _ worker: SimulatedWorker, isUntouched: Bool
    ) {
        note("suspended")
        trace(log) { "suspended at \(name(worker)), untouched \(isUntouched)" }
        worker.suspended[log] = .init(
            id: assignment.id, isUntouched: isUntouched, sinceNs: ns, life: assignment.life)
        worker.machine.advance(now: time(worker))
        worker.machine.suspend([assignment.id])
    }

    // MARK: The lease

    /// The group's timeout for a member, which is longer than a lease.
    private var sessionNs: Int64 { settings.leaseNs * 2 }

    /// Blocks a worker's commits while everything else continues, or ends such a block before the session expires.
    func cutOff(_ worker: SimulatedWorker) {
        guard settings.leaseNs < .max else { return }
        if worker.cutOffSinceNs == nil {
            note("cut off from the group")
            worker.cutOffSinceNs = ns
        } else if random.chance(30) {
            worker.cutOffSinceNs = nil
        }
    }

    /// Gives the worker's partitions away. The worker continues to read until it detects the loss.
    func expireSession(_ worker: SimulatedWorker) {
        guard let sinceNs = worker.cutOffSinceNs, ns - sinceNs > sessionNs else { return }
        for log in worker.assignments.keys.sorted() {
            guard let assignment = worker.assignments[log], assignment.fenced == nil else { continue }
            if !faults.losses {
                lapse(log, worker)
            } else if assignment.drainsSince != nil {
                lose(log, worker, &worker.machine)
            } else {
                note("zombie")
                fence(log, worker, isExpired: true)
            }
        }
        if worker.assignments.values.allSatisfy({ $0.fenced == nil }) { worker.cutOffSinceNs = nil }
    }

    // MARK: Refused commits

    /// Denies a group's commits for a topic, or allows them again.
    func disturbCommits() {
        guard random.oneIn(denialChance) else { return }
        let log = Int.random(in: 0..<logs.count, using: &random)
        logs[log].isDenied.toggle()
    }

    /// Allows commits again after all other work is done. Refused commits of one topic must not delay other topics.
    func healDenials(isAll: Bool) {
        guard isAll || logs.allSatisfy({ $0.isDone || $0.isDenied }) else { return }
        for log in logs.indices { logs[log].isDenied = false }
    }
}
