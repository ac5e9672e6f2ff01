import DeliveryInvariants
import PushRecords

@testable import Delivery

/// The checks of the delivery guarantees.
extension SimulatedWorld {
    func checkSend(
        _ request: OutgoingRequest, _ place: SimulatedPlace, _ original: SimulatedPlace, _ deviceKey: [UInt8],
        _ assignment: SimulatedWorker.Assignment, _ worker: SimulatedWorker, _ notification: Notification
    ) {
        // A record may be sent only below the horizon of a commit that Kafka has.
        let log = logs[place.log]
        let known = log.commit?.life == log.life ? log.commit?.map.horizon ?? 0 : 0
        let horizon = assignment.fenced?.horizon ?? (assignment.life == log.life ? known : Int64.max)
        if place.offset >= horizon {
            breaks("\(place) was sent at or above the horizon \(horizon)")
        }
        if let fenced = assignment.fenced {
            if fenced.isExpired { breaks("\(place) was sent by a worker whose session has expired") }
            if let end = fenced.successorEnd, place.offset >= end, notification.tries.inDoubt == 0 {
                breaks("\(place) was sent without doubt although the next owner read the log's end as \(end)")
            }
        }
        if settings.ordering == .device {
            checkDeviceQueue(place, deviceKey, assignment.number, worker)
            // First sends are in order within an assignment, except for scheduled notifications.
            if !(notification.tries.past != .untried), assignment.life >= 0, books[original]?.notBeforeMs == 0 {
                if let last = lastFirstSend[assignment.number]?[deviceKey],
                    (last.offset, last.index) >= (place.offset, place.index)
                {
                    breaks("\(place) was sent for the first time after \(last)")
                }
                lastFirstSend[assignment.number, default: [:]][deviceKey] = place
            }
        }
        // The worker compares its clock with the brokers' clocks, within a tolerance.
        let leastMs = min(time(worker).wallMs, startMs + nowMs - BrokersClock.toleranceMs)
        if let expiration = request.headers.expiration, expiration > 0, leastMs >= Int64(expiration) * 1_000 {
            breaks("\(place) was sent after its expiration")
        }
        if let earlyMs = books[original].map({ $0.notBeforeMs - time(worker).wallMs }), earlyMs > 0 {
            breaks("\(place) was sent \(earlyMs) ms before its scheduled time")
        }
        // If a map was truncated or damaged, or a drain cut short, a settled or refused notification may be sent again,
        // but must be counted as in doubt. A retry record need not, because the original request is then sent again
        // with that count.
        // It may have moved between retry topics since.
        let wasDamaged = logs[place.log].wasDamaged || place.log >= 3 && logs[3...].contains(where: \.wasDamaged)
        let isForgotten = (wasMapCut || wasDamaged) && notification.tries.inDoubt > 0
        let isReadAgain = logs[original.log].wasDamaged || books[original]?.isReadAgain == true
        let mayBeTwice = wasMapCut || limitCount > 0 || remakesProducers || isReadAgain || isForgotten
        let mayBeForgotten = mayBeTwice && (notification.tries.inDoubt > 0 || place.log >= 3)
        // A settled record is sent again only if no commit since then could record it.
        if assignment.fenced == nil, assignment.life >= 0, let known = settledAt[place],
            let takenAt = commitTakenAt[known.assignment],
            known.step < takenAt,
            !isForgotten
        {
            breaks("\(place) settled in step \(known.step), was committed in step \(takenAt), and was sent again")
        }
        // Some answers must not be followed by another send.
        if let book = books[original], book.rule == .bad && !guardHolds || book.rule == .unregistered,
            isDecided(book), book.doubts == 0, crashCount == 0, !mayBeForgotten,
            !(wereTokensDenied && (book.rule == .unregistered || settings.includesBadTokens))
        {
            breaks("\(original) was rejected finally and sent again: \(book), doubts \(notification.tries.inDoubt)")
        }
    }

    /// Whether a bad token's answer was final. A token that is bad in one environment may be sent to the other one. If
    /// the partition is revoked in between, it may be sent to both again.
    private func isDecided(_ book: SimulatedBook) -> Bool {
        hasOther && book.rule == .bad ? !book.results.isEmpty : book.processed > 0
    }

    /// Checks that a device has one notification in flight. This includes all requests of the same worker, and those of
    /// other workers that read the same partition, unless they were lost or cut short.
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

    /// Applies a commit at the broker.
    func apply(_ committing: SimulatedWorker.Committing) {
        let log = committing.log
        let commit = committing.commit
        let before = logs[log].commit
        trace(log) { "committed \(commit.offset), horizon \(commit.map.horizon), settled \(commit.map.settled)" }
        if let before, commit.offset < before.offset, before.life == commit.life {
            breaks("the committed offset of log \(log) decreased from \(before.offset) to \(commit.offset)")
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
                checkSettled(record, log, "is named by the commit map")
            }
            for partial in commit.map.partials where partial.offset == record.offset {
                for index in partial.indexes.joined() {
                    let place = SimulatedPlace(log: log, life: record.life, offset: record.offset, index: Int32(index))
                    if !settled.contains(place) { breaks("\(place) is named by the commit map but not settled") }
                }
            }
        }
    }

    private func checkSettled(_ record: SimulatedRecord, _ log: Int, _ why: String) {
        for index in 0..<record.count {
            let place = SimulatedPlace(log: log, life: record.life, offset: record.offset, index: index)
            if !settled.contains(place) { breaks("\(place) \(why) but is not settled") }
        }
    }

    /// Checks, when all work is done, that every notification ended as its rule requires.
    func checkEnd() {
        for (place, book) in books {
            let isCounted = settings.publishesOnlyFailures && book.countedAsAccepted > 0
            guard !book.results.isEmpty || isCounted else {
                if book.isGone { continue }
                breaks("\(place) (\(book)) has no result")
                continue
            }
            for result in book.results { checkResult(result, book, place) }
            let isAccepted = isCounted || book.results.contains { $0.outcome == .accepted }
            if isAccepted, book.delivered == 0 { breaks("\(place) is lost: \(book)") }
            // A notification that may have been shown twice must be counted as in doubt.
            if book.delivered > 1, !book.isDoubtGone, !book.results.contains(where: { $0.inDoubt > 0 }) {
                breaks("\(place) was delivered \(book.delivered) times, but no result is in doubt: \(book)")
            }
            if isFaultless {
                if book.results.contains(where: { $0.inDoubt > 0 }), !faults.lapses {
                    breaks("\(place) is in doubt without a fault")
                }
                if book.delivered > 1 { breaks("\(place) was delivered twice without a fault") }
                // A notification that is never sent may have its result before any commit, and a second one later.
                let told = book.results.count { $0.outcome != .invalid && $0.outcome != .expired }
                let maySayAgain = faults.lapses && told + (isCounted ? 1 : 0) <= 1
                if book.results.count + (isCounted ? 1 : 0) != 1, !maySayAgain {
                    breaks("\(place) has \(book.results.count) results")
                }
            }
            if book.rule == .unregistered, book.results.contains(where: { $0.outcome == .unregistered }) {
                // A worker that crashed may have written the result and not the token. The notification is then sent
                // again, or expires, or its log has lost it.
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
                breaks("a request is still at a transport")
            }
        }
    }

    // MARK: Limits

    func checkLimits(_ worker: SimulatedWorker) {
        for rule in worker.machine.checkInvariants() { breaks(rule) }
        if step % 8 == 0 { checkShares(worker) }
        // Dead letters are accepted even if the machine is full, up to the number of records read in one turn.
        let deadLetters = worker.producing.count { books[$0.place]?.isDeadLetter ?? false }
        let gauges = worker.machine.gauges
        if gauges.openNotifications > settings.maxOpen + deadLetters {
            breaks("more notifications are open than max_open allows")
        }
        // Each notification has at most two productions. Outdated ones are removed later.
        let targets = [.results, .unregistered] + settings.tierDelaysMs.indices.map(ProductionTarget.retry)
        let productions = targets.reduce(0) { $0 + worker.machine.settlement.productions[$1].count }
        if productions > 4 * settings.maxOpen + 200 { breaks("\(productions) productions wait") }
        // A record whose admission has begun is admitted completely. A list has at most thirty tokens and two
        // kilobytes, and the tokens count too.
        if gauges.openBytes > settings.maxOpenBytes + 16_384 { breaks("\(gauges.openBytes) bytes are open") }
    }

    /// Checks that one of several apps uses at most half of the limit. Exceptions: notifications that are about to
    /// leave, the probe of an open circuit (all records are read then, to be deferred), and scheduled notifications
    /// that became due while they waited for a commit.
    private func checkShares(_ worker: SimulatedWorker) {
        // An app that was alone for a while may use more.
        guard allApps.count > 1, everRemoved.isEmpty else { return }
        var open = [Int](repeating: 0, count: worker.machine.apps.count)
        for slot in worker.machine.store.slots {
            let notification = worker.machine.store[slot]
            guard notification.app >= 0, notification.deferral == nil else { continue }
            guard worker.machine.dispatch.breakers.circuit(probedBy: slot, in: worker.machine.store) == nil,
                worker.machine.store.notBeforeMs(slot) == 0, worker.machine.store[recordOf: slot].partition != .none
            else { continue }
            switch notification.state {
            case .queued, .ready, .behindHorizon, .backingOff, .handed: open[Int(notification.app)] += 1
            case .free, .admitted, .concluded: break
            }
        }
        for (app, count) in open.enumerated() where count > (settings.maxOpen + 1) / 2 {
            breaks("app \(app) has \(count) of \(settings.maxOpen) open notifications")
        }
    }

    // MARK: Ends

    /// Whether bad tokens may go to the tiers.
    var guardHolds: Bool { allApps.contains { $0.guardPolicy == .hold } }

    var isFaultless: Bool {
        !faults.doubts && !faults.crashes && !faults.losses && !faults.damage && !wasMapCut && !wasReleased
            && limitCount == 0 && !remakesProducers
    }

    /// Whether a bad token may count as dead: all its environments must have rejected it.
    private func mayBeDead(_ book: SimulatedBook) -> Bool {
        guard settings.includesBadTokens, let rule = book.rule else { return false }
        return rule == .bad || rule.isForeign && everRemoved.contains(Self.development.name)
    }

    private func checkResult(
        _ result: (outcome: Outcome, inDoubt: Int, attempts: Int), _ book: SimulatedBook, _ place: SimulatedPlace
    ) {
        guard let rule = book.rule else {
            if result.outcome != .invalid { breaks("\(place) cannot be sent, but ended as \(result.outcome)") }
            return
        }
        if result.attempts < result.inDoubt { breaks("\(place) counts more sends in doubt than sends") }
        if result.outcome == rule.outcome { return }
        switch result.outcome {
        case .expired where rule == .nowOrNever || clocksJumped || nowMs > SimulatedWorld.shortestAgeMs: return
        // Sends in doubt use up resends, and these use up attempts.
        case .abandoned where result.inDoubt > 0 && !faults.abandonsNobody: return
        case .abandoned where rule == .bad && guardHolds: return
        case .abandoned where book.isDiscarded: return
        case .invalid where everRemoved.contains(book.app): return
        case .invalid where rule.isForeign && everRemoved.contains(Self.development.name): return
        case .rejected where rule.isForeign && everRemoved.contains(Self.development.name): return
        default: breaks("\(place) ended as \(result.outcome), not as \(rule.outcome): \(book)")
        }
    }
}
