import Bytes
@testable import Delivery

/// Faults of Kafka and of clocks, and owners that detect their loss late.
extension SimulatedWorld {
    static let hourMs: Int64 = 3_600_000
    /// The shortest `max_age` and expiration of a world. By a correct clock, every run is shorter.
    static let shortestAgeMs: Int64 = 5 * hourMs

    /// Returns the time on the worker's clocks.
    func time(_ worker: SimulatedWorker) -> DeliveryTime {
        DeliveryTime(ns: ns, wallMs: startMs + nowMs + worker.skewMs)
    }

    var isKafkaDown: Bool { nowMs < kafkaDownUntilMs }

    /// Runs one step of these faults.
    func disturbAround() {
        if clocksJumped, random.oneIn(60), let worker = workers.randomElement(using: &random) { jump(worker) }
        if faults.refusals, random.oneIn(outageChance), !isKafkaDown {
            note("Kafka unavailable")
            kafkaDownUntilMs = nowMs + .random(in: 100...240_000, using: &random)
        }
        if faults.refusals, random.oneIn(outageChance) {
            note("Kafka writes stalled")
            fullUntilMs = nowMs + .random(in: 100...30_000, using: &random)
        }
        if remakesProducers, random.oneIn(50), let worker = workers.randomElement(using: &random) {
            remakeProducer(worker)
        }
        changeLogs()
        disturbCommits()
        if faults.losses || faults.lapses, random.oneIn(100), let worker = workers.randomElement(using: &random) {
            cutOff(worker)
        }
        if faults.silence, random.oneIn(120), let worker = workers.randomElement(using: &random) {
            note("dead network")
            worker.deafUntilMs = nowMs + .random(in: 1_000...120_000, using: &random)
        }
    }

    /// The largest clock step in worlds with scheduled requests, which wait for the wall clock.
    private static let shortJumpMs: Int64 = 3_000

    /// Steps the worker's wall clock in either direction, by up to hours without scheduled requests.
    private func jump(_ worker: SimulatedWorker) {
        note("clock jump")
        let mostMs = schedules ? Self.shortJumpMs : 6 * Self.hourMs
        worker.skewMs = random.chance(20) ? 0 : .random(in: -mostMs...mostMs, using: &random)
    }

    /// Rebuilds the producer after a fatal error. Records in flight are written again, even if they are in Kafka.
    private func remakeProducer(_ worker: SimulatedWorker) {
        guard !worker.producing.isEmpty else { return }
        note("producer rebuilt")
        for place in worker.producing.indices {
            let each = worker.producing[place]
            let wasWritten = each.isAppended || random.chance(30)
            if wasWritten, !each.isAppended { each.append(self, false) }
            worker.producing[place].isAppended = false
            worker.producing[place].appendMs = nowMs + .random(in: 1...30, using: &random)
            worker.producing[place].ackMs = worker.producing[place].appendMs
            guard wasWritten || random.chance(50) else { continue }
            // The record was in flight, so its state is unknown.
            worker.producing[place].append = { world, _ in each.append(world, true) }
        }
    }

    // MARK: Late owners

    /// Gives a partition to another worker. Its owner continues until it detects the loss.
    func fence(_ log: Int, _ worker: SimulatedWorker, isExpired: Bool = false) {
        guard let assignment = worker.assignments[log], assignment.fenced == nil, assignment.drainsSince == nil else {
            return
        }
        note("fenced")
        crashCount += 1
        takeAway(log, assignment, from: worker)
        trace(log) { "fenced at \(name(worker)), expired \(isExpired)" }
        let commit = logs[log].commit
        let horizon = commit?.life == logs[log].life ? commit?.map.horizon ?? 0 : 0
        // The worker may still send the records that it has read, and those that it still reads from its fetched ones.
        worker.assignments[log]?.fenced = .init(
            untilStep: step + .random(in: 1...15, using: &random), end: isExpired ? .max : logs[log].nextOffset,
            horizon: assignment.life == logs[log].life ? horizon : Int64.max, isExpired: isExpired)
        doubtFlights(of: worker, log: log)
    }

    /// Notifies fenced workers of their loss.
    func hear(_ worker: SimulatedWorker) {
        for log in worker.assignments.keys.sorted() {
            guard let assignment = worker.assignments[log], let fenced = assignment.fenced, fenced.untilStep <= step
            else { continue }
            worker.assignments[log] = nil
            for group in worker.commits.indices { worker.commits[group].entries.removeTaken(of: log) }
            doubtFlights(of: worker, log: log)
            if random.chance(50) {
                worker.machine.release([assignment.id])
            } else {
                suspend(log, assignment, worker, isUntouched: !fenced.wasFollowed)
            }
        }
    }

    // MARK: Metadata

    /// Returns the commit metadata as it is read back.
    func readBack(_ commit: SimulatedLog.Commit?, of log: Int) -> [UInt8] {
        guard var metadata = commit?.metadata, !metadata.isEmpty else { return [] }
        guard faults.damage, !isCalm, random.chance(4) else { return metadata }
        logs[log].wasDamaged = true
        note("damaged metadata")
        switch Int.random(in: 0..<3, using: &random) {
        case 0: metadata[Int.random(in: 0..<metadata.count, using: &random)] ^= 1
        case 1: metadata.removeLast(Int.random(in: 1...metadata.count, using: &random) - 1)
        default: metadata = Array("somebody else's".utf8)
        }
        return metadata
    }
}

extension [SimulatedWorker.Committing] {
    /// Removes the failed commits of a partition.
    fileprivate mutating func removeTaken(of log: Int) {
        for place in indices where self[place].log == log { self[place].isTaken = false }
    }
}
