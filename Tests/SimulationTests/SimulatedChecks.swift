import DeliveryInvariants
import PushRecords

@testable import Delivery

/// The promise, rule by rule.
extension SimulatedWorld {
    func checkSend(
        _ request: OutgoingRequest, _ place: SimulatedPlace, _ original: SimulatedPlace, _ deviceKey: [UInt8],
        _ assignment: SimulatedWorker.Assignment, _ worker: SimulatedWorker, _ notification: Notification
    ) {
        // The send horizon: a commit that Kafka has names it.
        let log = logs[place.log]
        let known = log.commit?.life == log.life ? log.commit?.map.horizon ?? 0 : 0
        let horizon = assignment.fenced?.horizon ?? (assignment.life == log.life ? known : Int64.max)
        if place.offset >= horizon {
            breaks("\(place) was sent at or above the horizon \(horizon)")
        }
        if let fenced = assignment.fenced {
            if fenced.isExpired { breaks("\(place) was sent by one that cannot be a member any more") }
            if let end = fenced.successorEnd, place.offset >= end, notification.tries.inDoubt == 0 {
                breaks("\(place) was sent unmarked by one whose successor saw the log's end at \(end)")
            }
        }
        if settings.ordering == .device {
            checkDeviceQueue(place, deviceKey, assignment.number, worker)
            // First sends in order, in one assignment, but for those that wait for their time.
            if !(notification.tries.past != .untried), assignment.life >= 0, books[original]?.notBeforeMs == 0 {
                if let last = lastFirstSend[assignment.number]?[deviceKey],
                    (last.offset, last.index) >= (place.offset, place.index)
                {
                    breaks("\(place) was sent first after \(last)")
                }
                lastFirstSend[assignment.number, default: [:]][deviceKey] = place
            }
        }
        if let expiration = request.headers.expiration, expiration > 0, time(worker).wallMs >= Int64(expiration) * 1_000
        {
            breaks("\(place) was sent after its time")
        }
        if let earlyMs = books[original].map({ $0.notBeforeMs - time(worker).wallMs }), earlyMs > 0 {
            breaks("\(place) was sent \(earlyMs) ms before its time")
        }
        // What was settled or refused may be sent again when a map was cut, or damaged, or a drain cut short; it says
        // so. A retry record need not: it is the request beside it that is sent again, and says so.
        let isForgotten = (wasMapCut || logs[place.log].wasDamaged) && notification.tries.inDoubt > 0
        let isReadAgain = logs[original.log].wasDamaged || books[original]?.isReadAgain == true
        let mayBeTwice = wasMapCut || limitCount > 0 || remakesProducers || isReadAgain || isForgotten
        let mayBeForgotten = mayBeTwice && (notification.tries.inDoubt > 0 || place.log >= 3)
        // What is settled is sent again only when no commit since could say so.
        if assignment.fenced == nil, assignment.life >= 0, let known = settledAt[place],
            let takenAt = commitTakenAt[known.assignment],
            known.step < takenAt,
            !isForgotten
        {
            breaks("\(place) settled in step \(known.step), and a commit of step \(takenAt) said so")
        }
        // An answer that must not be followed by another try.
        if let book = books[original], book.rule == .bad && !guardHolds || book.rule == .unregistered,
            isDecided(book), book.doubts == 0, crashCount == 0, !mayBeForgotten,
            !(wereTokensDenied && (book.rule == .unregistered || settings.includesBadTokens))
        {
            breaks("\(original) was refused for good, and sent again: \(book), doubts \(notification.tries.inDoubt)")
        }
    }

    /// What is bad in one environment may be sent to the other, and is asked about once more in both where its
    /// partition was given up in between.
    private func isDecided(_ book: SimulatedBook) -> Bool {
        hasOther && book.rule == .bad ? !book.results.isEmpty : book.processed > 0
    }

    /// Per device one in flight: of the same worker, whatever became of the partition or the app that it was sent for,
    /// and of others that read the same partition, unless they were lost, or cut short.
    private func checkDeviceQueue(
        _ place: SimulatedPlace, _ deviceKey: [UInt8], _ assignment: Int, _ worker: SimulatedWorker
    ) {
        for other in workers {
            for flight in other.flights.values where flight.deviceKey == deviceKey {
                let areAlive = !deadAssignments.contains(flight.assignment) && !deadAssignments.contains(assignment)
                guard other === worker || flight.place.log == place.log && areAlive else { continue }
                breaks("\(place) was sent while its device is in flight: \(flight.place)")
            }
        }
    }

    /// A commit arrives at the broker.
    func apply(_ committing: SimulatedWorker.Committing) {
        let log = committing.log
        let commit = committing.commit
        let before = logs[log].commit
        trace(log) { "committed \(commit.offset), horizon \(commit.map.horizon), settled \(commit.map.settled)" }
        if let before, commit.offset < before.offset, before.life == commit.life {
            breaks("log \(log) was committed back from \(before.offset) to \(commit.offset)")
        }
        logs[log].commit = commit
        commitTakenAt[committing.assignment] = commit.takenAt
        guard commit.life == logs[log].life else {
            logs[log].committedCount = 0
            return
        }
        var count = before?.life == commit.life ? logs[log].committedCount : 0
        while count < logs[log].records.count, logs[log].records[count].offset < commit.offset {
            checkSettled(logs[log].records[count], log, "is below the committed offset \(commit.offset)")
            count += 1
        }
        logs[log].committedCount = count
        guard !commit.map.settled.isEmpty || !commit.map.partials.isEmpty else { return }
        for record in logs[log].records[count...] {
            if commit.map.settled.contains(where: { $0.contains(record.offset) }) {
                checkSettled(record, log, "is named by the map")
            }
            for partial in commit.map.partials where partial.offset == record.offset {
                for index in partial.indexes.joined() {
                    let place = SimulatedPlace(log: log, life: record.life, offset: record.offset, index: Int32(index))
                    if !settled.contains(place) { breaks("\(place) is named by the map and not settled") }
                }
            }
        }
    }

    private func checkSettled(_ record: SimulatedRecord, _ log: Int, _ why: String) {
        for index in 0..<record.count {
            let place = SimulatedPlace(log: log, life: record.life, offset: record.offset, index: index)
            if !settled.contains(place) { breaks("\(place) \(why) and not settled") }
        }
    }

    /// When nothing is left to be done: every notification ended as its rule says.
    func checkEnd() {
        for (place, book) in books {
            let isCounted = settings.publishesOnlyFailures && book.countedAsAccepted > 0
            guard !book.results.isEmpty || isCounted else {
                if book.isGone { continue }
                breaks("\(place) (\(book)) ended in silence")
                continue
            }
            for result in book.results { checkResult(result, book, place) }
            let isAccepted = isCounted || book.results.contains { $0.outcome == .accepted }
            if isAccepted, book.delivered == 0 { breaks("\(place) is lost: \(book)") }
            // What may have been shown twice says so.
            if book.delivered > 1, !book.isDoubtGone, !book.results.contains(where: { $0.inDoubt > 0 }) {
                breaks("\(place) was delivered \(book.delivered) times and no result says so: \(book)")
            }
            if isFaultless {
                if book.results.contains(where: { $0.inDoubt > 0 }), !faults.lapses {
                    breaks("\(place) is in doubt without a fault")
                }
                if book.delivered > 1 { breaks("\(place) was delivered twice without a fault") }
                // What is never sent may have its result before anything was committed, and again.
                let told = book.results.count { $0.outcome != .invalid && $0.outcome != .expired }
                let maySayAgain = faults.lapses && told + (isCounted ? 1 : 0) <= 1
                if book.results.count + (isCounted ? 1 : 0) != 1, !maySayAgain {
                    breaks("\(place) has \(book.results.count) results")
                }
            }
            if book.rule == .unregistered, book.results.contains(where: { $0.outcome == .unregistered }) {
                // One that crashed may have written the result and not the token; then it is sent again, is too old,
                // or its log lost it.
                let isSure = book.results.allSatisfy { $0.outcome == .unregistered }
                if book.deadTokens == 0, isSure, !book.isGone, !book.isDoubtGone {
                    breaks("\(place) has no dead token: \(book)")
                }
            } else if book.deadTokens > 0, book.rule != .unregistered, !mayBeDead(book) {
                breaks("\(place) has a dead token")
            }
        }
        for worker in workers {
            for app in worker.machine.apps.indices where worker.machine.dispatch.apps[app].handed != 0 {
                breaks("something is at a transport")
            }
        }
    }

    // MARK: Limits

    func checkLimits(_ worker: SimulatedWorker) {
        for rule in worker.machine.checkInvariants() { breaks(rule) }
        if step % 8 == 0 { checkShares(worker) }
        // Dead letters are taken whatever is open: at most as many as are read at once.
        let deadLetters = worker.producing.count { books[$0.place]?.isDeadLetter ?? false }
        let gauges = worker.machine.gauges
        if gauges.openNotifications > settings.maxOpen + deadLetters { breaks("more is open than max_open") }
        // A notification has two at most; what became void waits for its turn.
        let productions = worker.machine.settlement.productions.count
        if productions > 4 * settings.maxOpen + 200 { breaks("\(productions) productions wait") }
        // A record that began to be taken is; a list of thirty tokens, two kilobytes, and each token for itself.
        if gauges.openBytes > settings.maxOpenBytes + 16_384 { breaks("\(gauges.openBytes) bytes are open") }
    }

    /// With several apps, one has at most half of what may be open, but for what is about to leave, for the probe of
    /// its circuit (while that is open everything is read, to be held, and one of it is to find out), and for what was
    /// to wait in a tier for its time, which came while it waited for its commit.
    private func checkShares(_ worker: SimulatedWorker) {
        // An app that was alone for a while may have more.
        guard allApps.count > 1, everRemoved.isEmpty else { return }
        var open = [Int](repeating: 0, count: worker.machine.apps.count)
        for slot in worker.machine.store.slots {
            let notification = worker.machine.store[slot]
            guard notification.app >= 0, notification.deferral == nil else { continue }
            guard !worker.machine.dispatch.breakers.isProbe(slot, in: worker.machine.store),
                worker.machine.store.notBeforeMs(slot) == 0, worker.machine.store[recordOf: slot].partition != .none
            else { continue }
            switch notification.state {
            case .queued, .ready, .behindHorizon, .backingOff, .handed: open[Int(notification.app)] += 1
            case .free, .admitted, .concluded: break
            }
        }
        for (app, count) in open.enumerated() where count > (settings.maxOpen + 1) / 2 {
            breaks("app \(app) has \(count) of \(settings.maxOpen)")
        }
    }

    // MARK: Ends

    /// Bad tokens may go to the tiers.
    var guardHolds: Bool { allApps.contains { $0.guardPolicy == .hold } }

    var isFaultless: Bool {
        !faults.doubts && !faults.crashes && !faults.losses && !faults.damage && !wasMapCut && !wasReleased
            && limitCount == 0 && !remakesProducers
    }

    /// A bad token is one where both environments say so, or there is only one.
    private func mayBeDead(_ book: SimulatedBook) -> Bool {
        guard settings.includesBadTokens, let rule = book.rule else { return false }
        return rule == .bad || rule.isForeign && everRemoved.contains(Self.development.name)
    }

    private func checkResult(
        _ result: (outcome: Outcome, inDoubt: Int, attempts: Int), _ book: SimulatedBook, _ place: SimulatedPlace
    ) {
        guard let rule = book.rule else {
            if result.outcome != .invalid { breaks("\(place) cannot be sent and ended \(result.outcome)") }
            return
        }
        if result.attempts < result.inDoubt { breaks("\(place) counts more doubts than sends") }
        if result.outcome == rule.outcome { return }
        switch result.outcome {
        case .expired where rule == .nowOrNever || clocksJumped || nowMs > SimulatedWorld.shortestAgeMs: return
        // Tries in doubt use up resends, and these attempts.
        case .abandoned where result.inDoubt > 0 && !faults.abandonsNobody: return
        case .abandoned where rule == .bad && guardHolds: return
        case .abandoned where book.isDiscarded: return
        case .invalid where everRemoved.contains(book.app): return
        case .invalid where rule.isForeign && everRemoved.contains(Self.development.name): return
        case .rejected where rule.isForeign && everRemoved.contains(Self.development.name): return
        default: breaks("\(place) ended \(result.outcome), not \(rule.outcome): \(book)")
        }
    }
}
