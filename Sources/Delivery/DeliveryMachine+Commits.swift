import PushRecords

extension DeliveryMachine {
    /// However slow replies are, the next commit goes out so long after one.
    private static let widestPauseNs: Int64 = 1_000_000_000

    /// What this group is to commit now: empty while a commit of it is in flight, before it is time, or when nothing
    /// changed. When it is not empty, `commitFinished` of the same group must follow. Metadata is lent until the next
    /// call for the same group.
    package mutating func takeCommit(of group: CommitGroup, now: DeliveryTime) -> [CommitEntry] {
        self.now = now
        let place = group.rawValue
        guard flights[place].partitions.isEmpty else { return [] }
        var isTime = false
        var alone: UnsafeMutablePointer<Partition>?
        for case let partition? in partitions where isReadyToCommit(partition, place) {
            guard now.ns >= flights[place].nextNs || partition.pointee.isUrgent else { continue }
            if !partition.pointee.commits.isAlone {
                isTime = true
            } else if alone == nil || partition.pointee.id.slot > flights[place].lastAlone {
                // The next one in turn: the first above the last, else the first of all.
                if let found = alone, found.pointee.id.slot > flights[place].lastAlone { continue }
                alone = partition
            }
        }
        if let alone, !isTime || !flights[place].isAlone {
            flights[place].begin(now.ns, intervalNs: nil)
            flights[place].lastAlone = alone.pointee.id.slot
            writeEntry(alone)
        } else if isTime {
            flights[place].begin(now.ns, intervalNs: settings.commitIntervalNs)
            for case let partition? in partitions where isReadyToCommit(partition, place) {
                if !partition.pointee.commits.isAlone { writeEntry(partition) }
            }
        } else {
            return []
        }
        counters.commits += 1
        for id in flights[place].partitions { shortenSpan(id) }
        return flights[place].entries()
    }

    private func isReadyToCommit(_ partition: UnsafeMutablePointer<Partition>, _ place: Int) -> Bool {
        partition.pointee.flight == place && now.ns >= partition.pointee.commits.untilNs
            && partition.pointee.wantsCommit
    }

    private mutating func writeEntry(_ partition: UnsafeMutablePointer<Partition>) {
        guard let base = partition.pointee.ledger.committable else { return }
        let isLast = partition.pointee.mayLeave
        var reach = ReachEnd.none
        if isLast {
            let end = partition.pointee.ledger.leavingReach { records[$0].doubts > 0 || records[$0].unsettled > 0 }
            reach = end.map { ReachEnd($0) } ?? .none
        } else {
            // What an owner that died may have sent stays in doubt for whoever comes after us, until it is settled.
            let inherited = partition.pointee.ledger.inheritedReach
            let counted = partition.pointee.fanOuts > 0 ? countedReach(partition, from: base) : nil
            let next = partition.pointee.reach.next(from: base, counted: counted)
            reach = max(next, base < inherited.offset ? inherited : .none)
        }
        mapWriter.start(base: base, limit: partition.pointee.metadataLimit)
        partition.pointee.ledger.write(to: &mapWriter) { record in
            guard records[record].hasSettledIndexes, let words = records[record].settledIndexes else { return nil }
            return UnsafeBufferPointer(start: words, count: records[record].indexWordCount)
        }
        // What is settled and was cut off will be sent again by whoever comes after us: it has to say so.
        if mapWriter.isFull { reach = max(reach, ReachEnd(partition.pointee.ledger.mapEnd)) }
        reach = reach.cut(at: base + CommitMap.highestReach)
        mapWriter.finish(reach: reach.offset, indexes: reach.indexes, owner: owner(of: partition.pointee.id))
        if mapWriter.isFull {
            counters.mapsCut += 1
            if !partition.pointee.isMapCut {
                events.append(.mapCut(partition.pointee.id, dropped: mapWriter.dropped))
            }
        }
        partition.pointee.isMapCut = mapWriter.isFull
        partition.pointee.isDirty = false
        partition.pointee.commits.sent()
        partition.pointee.pending = Partition.Pending(
            offset: base, reach: reach, isLast: isLast, characters: mapWriter.text.count,
            said: mapWriter.text.withUnsafeBytes { CommitText(offset: base, metadata: $0, reach: reach) })
        partition.pointee.mapEighths = mapWriter.eighths
        flights[partition.pointee.flight].append(partition.pointee.id, offset: base, text: mapWriter.text)
    }

    /// As many notifications ahead of what was handed out as the reach is to be.
    private func countedReach(_ partition: UnsafeMutablePointer<Partition>, from base: Int64) -> ReachEnd {
        partition.pointee.ledger.end(
            ahead: partition.pointee.reach.countedMargin, of: partition.pointee.reach.start(from: base)
        ) { records[$0].count }
    }

    /// Whoever had a partition before, and gets it back, must not take another's commit for its own, whatever that says.
    func owner(of id: PartitionID) -> Int64 {
        withUnsafeBytes(of: id.epoch) {
            Int64(BytesHash.hash($0, seed: settings.hashSeed) % UInt64(CommitMap.ownerLimit))
        }
    }

    /// The reply: one outcome for each entry of this group's `takeCommit`, in its order; `nil` stands for a commit
    /// refused as a whole.
    package mutating func commitFinished(of group: CommitGroup, _ outcomes: [CommitOutcome]?, now: DeliveryTime) {
        self.now = now
        let place = group.rawValue
        let commitsInFlight = flights[place].partitions
        precondition(
            outcomes == nil || outcomes?.count == commitsInFlight.count, "a commit is answered entry by entry")
        guard !commitsInFlight.isEmpty else { return }
        if !flights[place].isAlone {
            // When replies slow down, so do commits: at most half of the time one is under way.
            let replyNs = now.ns - flights[place].sentNs
            flights[place].nextNs = max(flights[place].nextNs, now.ns + min(replyNs, Self.widestPauseNs))
        }
        // The broker refuses all for the sake of one: the short ones are not to blame.
        var longest = 0
        for id in commitsInFlight { longest = max(longest, find(id)?.pointee.pending?.characters ?? 0) }
        for (index, id) in commitsInFlight.enumerated() {
            guard let partition = find(id), let pending = partition.pointee.pending else { continue }
            partition.pointee.pending = nil
            if outcomes?[index] != .acknowledged { partition.pointee.keepUnsure(pending.said) }
            switch outcomes?[index] ?? .refused {
            case .acknowledged:
                flights[place].provenNs = flights[place].sentNs
                acknowledge(pending, partition)
            case .metadataTooLarge:
                partition.pointee.isDirty = true
                flights[place].nextNs = now.ns
                guard pending.characters * 2 > longest else { continue }
                events.append(.metadataRefused(id, characters: pending.characters))
                halve(partition, pending)
            case .refused:
                refuse(partition, isImpossible: false)
            case .impossible:
                refuse(partition, isImpossible: true)
            case .shared:
                partition.pointee.isDirty = true
                partition.pointee.commits.share()
            }
        }
        flights[place].partitions.removeAll(keepingCapacity: true)
        renewLeases()
    }

    private mutating func refuse(_ partition: UnsafeMutablePointer<Partition>, isImpossible: Bool) {
        counters.commitsRefused += 1
        partition.pointee.isDirty = true
        let isLeaving = partition.pointee.phase != .active
        let isNews = partition.pointee.commits.refuse(
            isImpossible: isImpossible,
            longestPauseNs: isLeaving ? CommitStanding.leavingPauseNs : CommitStanding.longestPauseNs, now: now.ns)
        if isNews {
            events.append(
                .commitsRefused(
                    partition.pointee.id, refusals: partition.pointee.commits.refusals,
                    sinceNs: partition.pointee.commits.sinceNs ?? now.ns, isImpossible: isImpossible))
        }
        if isImpossible {
            leaveLanes(partition)
            // Nobody can be told: what is open of the log before does not wait for ever.
            openDetached(of: partition.pointee.id)
        }
        if isImpossible, partition.pointee.phase == .draining || partition.pointee.phase == .leaving {
            // Nobody can be told anything: there is no topic that he could read it of.
            partition.pointee.phase = .left
        }
    }

    private mutating func halve(_ partition: UnsafeMutablePointer<Partition>, _ pending: Partition.Pending) {
        let half = min(partition.pointee.metadataLimit, pending.characters) / 2
        // With less there would be no room for the reach and the owner.
        if half < CommitMapWriter.leastCharacters { refuse(partition, isImpossible: false) }
        partition.pointee.metadataLimit = max(half, CommitMapWriter.leastCharacters)
    }

    private mutating func acknowledge(_ pending: Partition.Pending, _ partition: UnsafeMutablePointer<Partition>) {
        counters.commitsAcknowledged += 1
        if let before = partition.pointee.committed ?? partition.pointee.ledger.committedAtAssignment {
            counters.offsetsCommitted += pending.offset - before
        }
        partition.pointee.committed = pending.offset
        partition.pointee.said = pending.said
        partition.pointee.unsureSaid.removeAll(keepingCapacity: true)
        if partition.pointee.commits.acknowledge() { events.append(.commitsResumed(partition.pointee.id)) }
        guard partition.pointee.phase != .suspended else { return }
        if pending.isLast {
            partition.pointee.phase = .left
            return
        }
        partition.pointee.reach.acknowledge(pending.reach)
        passReach(partition)
        if unassignedCount > 0 { openDetached(of: partition.pointee.id) }
    }

    /// What waited for the reach goes on, as far as that allows it now.
    mutating func passReach(_ partition: UnsafeMutablePointer<Partition>) {
        guard !partition.pointee.reach.isStale else { return }
        var next = partition.pointee.behindReach.head
        var isFirst = true
        while next != noSlot {
            let slot = next
            next = notifications[slot].next
            let offset = records[notifications[slot].record].offset
            let index = notifications[slot].index
            guard partition.pointee.reach.allows(offset, index) else {
                if isFirst { partition.pointee.reach.advance(to: offset, index) }
                isFirst = false
                // Who left its lane later than those behind it came stands behind them, and must not be overtaken.
                if partition.pointee.besideLanes > 0 { continue } else { break }
            }
            // It was a probe when it began to wait.
            if notifications[slot].heldFor == nil, let cause = causeToHold(slot) {
                hold(slot, cause)
                continue
            }
            leaveReach(slot, partition)
            if let cause = notifications[slot].heldFor {
                moveHeld(slot, cause)
            } else if settings.ordering == .device, !notifications[slot].isLaneMember {
                joinLane(slot)
            } else {
                becomeReady(slot, first: false)
            }
        }
    }

    /// What waits for a commit that is impossible lets others of its device go first, which other partitions brought.
    private mutating func leaveLanes(_ partition: UnsafeMutablePointer<Partition>) {
        var slot = partition.pointee.behindReach.head
        while slot != noSlot {
            letOthersPass(slot, partition)
            slot = notifications[slot].next
        }
    }

    // MARK: The lease

    /// A worker that was cut off from its group and does not know it must not send what its successor sends unmarked:
    /// without an acknowledged commit that is young enough, what is to be sent waits for the next one.
    mutating func renewLeases() {
        guard settings.leaseNs != .max else { return }
        for case let partition? in partitions where partition.pointee.phase != .detached {
            let isStale = flights[partition.pointee.flight].provenNs.map { now.ns - $0 >= settings.leaseNs } ?? false
            guard isStale != partition.pointee.reach.isStale else { continue }
            partition.pointee.reach.isStale = isStale
            passReach(partition)
        }
    }
}
