import Bytes
import PushRecords

@testable import Delivery

/// Changes of logs while they are read, and their detection by workers.
extension SimulatedWorld {
    /// Returns the original request of the notification at a place.
    func original(of place: SimulatedPlace) -> SimulatedPlace? {
        let list = originals[SimulatedPlace(log: place.log, life: place.life, offset: place.offset)]
        guard let list, Int(place.index) < list.count else { return nil }
        return list[Int(place.index)]
    }

    // MARK: Change

    /// Recreates a log, truncates it, deletes its first records, or commits for its group as other software.
    func changeLogs() {
        guard random.oneIn(changeChance) else { return }
        let log = Int.random(in: 0..<logs.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: makeAnew(log)
        case 1: cut(log)
        case 2: retain(log)
        default: commitStrangely(log)
        }
    }

    /// Recreates the topic. Its offsets start again, and the group's commit may survive.
    private func makeAnew(_ log: Int) {
        note("log recreated")
        for record in logs[log].records { lose(record, of: log) }
        logs[log].records = []
        logs[log].start = 0
        logs[log].nextOffset = random.chance(50) ? 0 : .random(in: 0...30, using: &random)
        logs[log].committedCount = 0
        if random.chance(50) { logs[log].commit = nil }
        changeLife(of: log)
        trace(log) { "recreated, life \(logs[log].life), commit \(logs[log].commit?.offset ?? -1)" }
    }

    /// Truncates a log, as after the election of a leader that lacks the last records. Their offsets are used again.
    private func cut(_ log: Int) {
        guard !logs[log].records.isEmpty, workers.allSatisfy({ $0.assignments[log]?.fenced == nil }) else { return }
        let place = Int.random(in: 0..<logs[log].records.count, using: &random)
        let end = logs[log].records[place].offset
        // Readers of the log detect this by its end.
        guard workers.allSatisfy({ ($0.assignments[log]?.position ?? .max) >= end }) else { return }
        note("log truncated")
        for record in logs[log].records[place...] { lose(record, of: log) }
        logs[log].records.removeSubrange(place...)
        for original in logs[log].records.flatMap(\.originals) { books[original]?.isReadAgain = true }
        logs[log].nextOffset = end
        let isOwned = logs[log].isOwned
        let isKept = logs[log].commit.map { $0.life == logs[log].life && $0.offset <= end } ?? false
        changeLife(of: log)
        if isKept, !isOwned {
            let life = logs[log].life
            logs[log].commit?.life = life
            let before = logs[log].commit?.cutAt ?? end
            logs[log].commit?.cutAt = min(before, end)
            let committedCount = logs[log].index(from: logs[log].commit?.offset ?? 0)
            logs[log].committedCount = committedCount
        } else {
            logs[log].committedCount = 0
        }
        trace(log) { "truncated at \(end), life \(logs[log].life)" }
    }

    /// Deletes the first records, whether read or not, as retention does.
    private func retain(_ log: Int) {
        guard !logs[log].records.isEmpty else { return }
        note("retention")
        let count = Int.random(in: 1...logs[log].records.count, using: &random)
        for record in logs[log].records[..<count] { lose(record, of: log) }
        logs[log].start = logs[log].records[count - 1].offset + 1
        logs[log].records.removeSubrange(..<count)
        logs[log].committedCount = max(0, logs[log].committedCount - count)
        trace(log) { "begins at \(logs[log].start)" }
    }

    /// Commits for the group as other software does, while no worker reads.
    private func commitStrangely(_ log: Int) {
        guard !logs[log].isOwned, workers.allSatisfy({ $0.assignments[log] == nil }) else { return }
        note("commit of other software")
        let end = logs[log].nextOffset
        var offsets: [Int64] = Self.strangeOffsets
        offsets += [end + 1, end + 1_000]
        let offset = offsets.randomElement(using: &random) ?? 0
        var metadata = logs[log].commit?.metadata ?? []
        if random.chance(50) { metadata = (0..<40).map { _ in UInt8.random(in: 33...126, using: &random) } }
        logs[log].commit = .init(offset: offset, metadata: metadata, map: CommitMap(), takenAt: step, life: -1)
        trace(log) { "other software commits \(offset)" }
        logs[log].committedCount = 0
        logs[log].wasReset = true
        logs[log].wasDamaged = true
    }

    private static let strangeOffsets: [Int64] = [
        .max, .max - 1, 0x4000_0000_0000_0000, 0x4000_0000_0000_0001, 0x3FFF_FFFF_FFFF_FFFF, 0x100_0000_0000, .min, -5,
    ]

    private func changeLife(of log: Int) {
        logs[log].life += 1
        logs[log].wasReset = true
        logs[log].wasDamaged = true
    }

    /// Removes a record from the books. Its unsettled notifications need no result.
    private func lose(_ record: SimulatedRecord, of log: Int) {
        for (index, original) in record.originals.enumerated() {
            let place = SimulatedPlace(log: log, life: record.life, offset: record.offset, index: Int32(index))
            if !settled.contains(place) { books[original]?.isGone = true }
            books[original]?.isDoubtGone = true
        }
    }

    // MARK: Assign

    func assign(_ log: Int, to worker: SimulatedWorker) {
        logs[log].isOwned = true
        var knowsEnds = random.chance(50)
        if let commit = logs[log].commit {
            let named = max(commit.map.settled.last?.upperBound ?? 0, (commit.map.partials.last?.offset ?? -1) + 1)
            if commit.life != logs[log].life, commit.offset >= 0, commit.offset <= logs[log].nextOffset {
                // The change is detected by the topic's id or the leader's epoch, not by an offset.
                logs[log].commit = nil
            } else if let cutAt = commit.cutAt {
                // A suspended worker also loses its state of the deleted records if new records have reached the same
                // offsets.
                let suspended = worker.suspended[log].flatMap { worker.machine.ledger.find($0.id) }
                let received = suspended.map { worker.machine.ledger[$0].offsets.highestReceived } ?? -1
                let known = max(named, received + 1)
                if known > cutAt {
                    if logs[log].nextOffset >= known { logs[log].commit = nil } else { knowsEnds = true }
                }
            }
            if logs[log].commit == nil {
                trace(log) { "commit \(commit.offset) of life \(commit.life) is ignored" }
                logs[log].committedCount = 0
                // The commit's content about the records before the truncation is lost too.
                for record in logs[log].records where record.life < logs[log].life || commit.life < 0 {
                    for original in record.originals { books[original]?.isDoubtGone = true }
                }
                // It is also unknown which records were settled.
                crashCount += 1
                settledAt = settledAt.filter {
                    $0.key.log != log || $0.key.life == logs[log].life && commit.life >= 0
                }
            }
        }
        let commit = logs[log].commit
        tellOthers(log, worker, end: knowsEnds ? logs[log].nextOffset : nil)
        let start = knowsEnds ? logs[log].start : nil
        let end = knowsEnds ? logs[log].nextOffset : nil
        let metadata = readBack(commit, of: log)
        // The worker remembers only the last failed commits, although an earlier one may have been applied.
        let suspended = worker.suspended[log].flatMap { worker.machine.ledger.find($0.id) }
        let unsure = suspended.map { worker.machine.ledger[$0].unconfirmed.count } ?? 0
        let isSame = metadata == commit?.metadata && unsure < LastCommit.unconfirmedLimit
        worker.machine.advance(now: time(worker))
        let id = metadata.withUnsafeBytes {
            worker.machine.assign(
                topic: logs[log].topic, partition: logs[log].partition, role: logs[log].role,
                committedOffset: commit?.offset, metadata: $0, logStart: start, logEnd: end)
        }
        assignmentCount += 1
        let isResumed = worker.machine.journal.events.contains(.resumed(id))
        let mark = commit.map { [$0.writer, $0.takenAt] }
        if isResumed, let mark, mark[0] != worker.number, mark != worker.readMarks[log] {
            breaks("\(name(worker)) resumed from the commit of worker \(mark[0])")
        }
        worker.readMarks[log] = mark
        if !isResumed {
            worker.chains[id.slot] = assignmentCount
            worker.reads[id.slot] = [:]
        }
        checkResumed(isResumed, log, worker, isSame: isSame)
        var (position, life) = (logs[log].start, logs[log].life)
        if let commit, case .at(let offset) = AssignmentStart(committed: commit.offset, logStart: start, logEnd: end) {
            (position, life) = (offset, commit.life)
        }
        worker.assignments[log] = .init(
            id: id, number: assignmentCount, firstPosition: position, position: position, life: life)
        trace(log) {
            "assigned to \(name(worker)) as \(id), resumed \(isResumed), logEnd \(end ?? -1), \(position)"
        }
    }

    /// Fences the previous owners, which may not have detected the new one.
    private func tellOthers(_ log: Int, _ worker: SimulatedWorker, end: Int64?) {
        for other in workers where other !== worker {
            other.assignments[log]?.fenced?.wasFollowed = true
            // The log's end does not concern an owner that still reads an earlier life of the log.
            let isSame = other.assignments[log]?.life == logs[log].life
            if let end, isSame, other.assignments[log]?.fenced?.successorEnd == nil {
                other.assignments[log]?.fenced?.successorEnd = end
            }
            guard other.suspended[log]?.isUntouched == true else { continue }
            note("suspended, then assigned to another worker")
            other.suspended[log]?.isUntouched = false
            crashCount += 1
            doubtFlights(of: other, log: log)
        }
    }

    /// Checks that a partition whose session was lost resumes if no other worker had it meanwhile.
    private func checkResumed(_ isResumed: Bool, _ log: Int, _ worker: SimulatedWorker, isSame: Bool) {
        guard let suspended = worker.suspended.removeValue(forKey: log) else {
            if isResumed { breaks("log \(log) was resumed although its session was never lost") }
            return
        }
        guard !isResumed else { return }
        wasReleased = true
        crashCount += 1
        doubtFlights(of: worker, log: log)
        let leastNs = min(CommitLedger.passedOverNs, settings.suspendedLimitNs)
        guard suspended.isUntouched, isSame, !logs[log].wasDamaged, ns - suspended.sinceNs < leastNs,
            let commit = logs[log].commit, commit.offset >= logs[log].start
        else { return }
        breaks("log \(log) returned without another owner in between, but its state was released")
    }

    // MARK: Detection

    /// Handles a log that differs from the one the worker has read. Returns whether the log is now read from its
    /// beginning.
    func notice(
        _ log: Int, _ assignment: inout SimulatedWorker.Assignment, _ worker: SimulatedWorker,
        _ machine: inout DeliveryMachine
    ) -> Bool {
        guard assignment.fenced == nil, isCalm || random.chance(40) else { return false }
        assignment.position = logs[log].start
        assignment.firstPosition = logs[log].start
        assignment.waitUntilMs = 0
        guard let first = logs[log].records.first else {
            guard isCalm || random.chance(30) else { return false }
            beginAnew(log, &assignment, worker, &machine, from: logs[log].start)
            return true
        }
        guard let partition = machine.ledger.find(assignment.id) else { return false }
        let tells = first.offset <= machine.ledger[partition].offsets.highestKnown
        // Otherwise the client has reported an invalid position.
        if !tells || random.chance(30) { beginAnew(log, &assignment, worker, &machine, from: logs[log].start) }
        return true
    }

    /// - Parameter start: the offset to read from, or `nil` if the first record read decides it.
    func beginAnew(
        _ log: Int, _ assignment: inout SimulatedWorker.Assignment, _ worker: SimulatedWorker,
        _ machine: inout DeliveryMachine, from start: Int64? = nil
    ) {
        let end = random.chance(50) ? logs[log].nextOffset : nil
        let id = machine.beginAnew(assignment.id, from: start, logEnd: end, now: time(worker))
        if id == assignment.id { breaks("a restarted assignment must have a new id") }
        trace(log) { "\(name(worker)) restarts the log as \(id), end \(end ?? -1)" }
        deadAssignments.insert(assignment.number)
        doubtFlights(of: worker, log: log)
        assignmentCount += 1
        worker.chains[id.slot] = assignmentCount
        worker.reads[id.slot] = [:]
        assignment = .init(
            id: id, number: assignmentCount, firstPosition: logs[log].start, position: logs[log].start,
            life: logs[log].life)
    }
}
