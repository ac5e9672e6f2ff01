import PushRecords

extension DeliveryMachine {
    // MARK: Piece by piece

    /// Puts a record that could not be admitted wholly behind those of its partition that wait already.
    mutating func waitForAdmission(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        if partition.pointee.firstAdmitting == noSlot {
            partition.pointee.firstAdmitting = slot
            admittingCount += 1
        } else {
            records[partition.pointee.lastAdmitting].nextAdmitting = slot
        }
        partition.pointee.lastAdmitting = slot
    }

    /// Goes on with the records that are not wholly admitted, as far as there is room; partitions in turn, a piece each.
    mutating func admitWaiting() {
        var progress = admittingCount > 0
        while progress {
            progress = false
            for case let partition? in partitions where partition.pointee.firstAdmitting != noSlot {
                let slot = partition.pointee.firstAdmitting
                let before = records[slot].cursor.index
                let isWhole = admit(slot, limit: Self.admissionPiece)
                // A record that was admitted and settled at once is gone: its slot is not looked at again.
                if isWhole { finishAdmission(of: partition, after: slot) }
                if isWhole || records[slot].cursor.index > before { progress = true }
            }
        }
    }

    private mutating func finishAdmission(of partition: UnsafeMutablePointer<Partition>, after slot: UInt32) {
        partition.pointee.firstAdmitting = records[slot].nextAdmitting
        records[slot].nextAdmitting = noSlot
        if partition.pointee.firstAdmitting == noSlot {
            partition.pointee.lastAdmitting = noSlot
            admittingCount -= 1
        }
        finish(record: slot)
    }

    /// Admits the next notifications of a record, at most `limit`; whether all of it is admitted now.
    ///
    /// The last one being admitted, the body is no longer held for the rest. The record itself is not freed here while
    /// it waits for admission.
    mutating func admit(_ slot: UInt32, limit: Int) -> Bool {
        guard let body = records[slot].body else { return true }
        let group = Int(records[slot].group)
        var left = limit
        if let partition = partitions[Int(records[slot].partition)], partition.pointee.phase == .active {
            left = min(left, roomBehindCommit(slot, partition))
            if left == 0 { raiseReach(to: slot, partition) }
        }
        while !records[slot].isAdmitted {
            guard left > 0, shares.room(for: group) > 0 else { return false }
            // Each holds bytes of its own. One of a record may always be open, so that it comes to its end.
            if body.pointee.isList, records[slot].unsettled > 0, byteShares.room(for: group) <= 0 { return false }
            left -= 1
            let app = Int(body.pointee.app)
            var cause: HeldCause?
            if liveApps > 1, app >= 0, !body.pointee.isInvalid {
                if !isFull(app: app) || isClosed(app: app) {
                    apps[app].fullSinceNs = nil
                } else if now.ns - fullNs(app: app) >= Self.shareWaitNs {
                    cause = .share
                } else {
                    return false
                }
            }
            admitNext(slot, body, heldFor: cause)
        }
        releaseBody(slot)
        return true
    }

    /// How many more of this record may be admitted: those below the reach, and a share of those above.
    @inline(__always)
    private func roomBehindCommit(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) -> Int {
        let offset = records[slot].offset
        let below = partition.pointee.reach.allowed.indexes(at: offset)
        guard below < records[slot].count else { return .max }
        return Int(max(0, below - records[slot].cursor.index)) + roomAboveReach(partition, at: offset)
    }

    /// What is not admitted because of the reach is no notification that could wait for it. It asks for a commit that
    /// names it where streams of its app are free, and where others that have some may wait behind it.
    private mutating func raiseReach(to slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        guard partition.pointee.behindReach.isEmpty else { return }
        let app = records[slot].body.map { Int($0.pointee.app) } ?? -1
        let isIdle = app < 0 || queues[app].count == 0 && apps[app].outstanding < apps[app].concurrency
        guard isIdle || liveApps > 1 && now.ns - records[slot].receivedNs >= Self.shareWaitNs else { return }
        partition.pointee.reach.advance(to: records[slot].offset, records[slot].cursor.index)
    }

    /// With several apps, one holds at most half of what may be open, notifications and bytes.
    func isFull(app: Int) -> Bool {
        apps[app].open * 2 >= shares.total
            || apps[app].openBytes * 2 >= settings.maxOpenBytes && apps[app].open > 0
    }

    /// Since when a full app is waited for: its oldest unsent notification waits so long for a stream, or, when all it
    /// has are in flight, so long nothing more of it could be admitted.
    private mutating func fullNs(app: Int) -> Int64 {
        let sinceNs = apps[app].fullSinceNs ?? now.ns
        apps[app].fullSinceNs = sinceNs
        return queues[app].oldestNs(in: notifications) ?? sinceNs
    }

    /// When a record that waits for its app's share is held instead, or when one that waits for the reach has it raised.
    func shareWaitEndNs(_ record: UInt32) -> Int64? {
        let reach = partitions[Int(records[record].partition)]?.pointee.reach.allowed ?? .none
        let raisedNs = records[record].receivedNs + Self.shareWaitNs
        if raisedNs > now.ns, reach.indexes(at: records[record].offset) < records[record].count { return raisedNs }
        guard let app = records[record].body.map({ Int($0.pointee.app) }), app >= 0, isFull(app: app),
            let sinceNs = queues[app].oldestNs(in: notifications) ?? apps[app].fullSinceNs
        else { return nil }
        return sinceNs + Self.shareWaitNs
    }

    private mutating func admitNext(
        _ recordSlot: UInt32, _ body: UnsafeMutablePointer<RecordBody>, heldFor cause: HeldCause?
    ) {
        let index = records[recordSlot].cursor.index
        var token = body.pointee.tokens
        var failure = body.pointee.tokenFailure
        if body.pointee.isList {
            guard let next = records[recordSlot].cursor.next(in: body.pointee.tokens, into: scratch) else {
                preconditionFailure("a list holds as many tokens as the parser counted")
            }
            failure = next.failure
            token = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(scratch)[..<next.count])
        } else {
            records[recordSlot].cursor.index = 1
        }
        if records[recordSlot].hasSettledIndexes, isSettled(index, in: recordSlot) {
            counters.duplicatesSkipped &+= 1
            return
        }

        let app = body.pointee.app
        let slot = admitNotification(record: recordSlot, index: index, app: app)
        records[recordSlot].holders += 1
        notifications[slot].sends = body.pointee.sends
        notifications[slot].inDoubt = body.pointee.inDoubt
        let isInvalid = body.pointee.isInvalid || failure != .none
        if index < body.pointee.inheritedDoubts, failure == .none {
            notifications[slot].sends.countUp()
            notifications[slot].inDoubt.countUp()
            counters.apps[app >= 0 ? Int(app) : apps.count].inDoubt &+= 1
        }
        notifications[slot].token = body.pointee.isList ? copyToken(token, for: slot) : token
        if body.pointee.repeatedBytes > 0 { takeBytes(Int(body.pointee.repeatedBytes), for: slot) }

        if isInvalid {
            notifications[slot].reason = body.pointee.isInvalid ? body.pointee.failureReason : failure
            conclude(slot, .invalid)
        } else if body.pointee.isExpired {
            conclude(slot, .expired)
        } else if let cause = cause ?? causeToHold(slot) {
            hold(slot, cause)
        } else if settings.ordering == .device {
            joinLane(slot)
        } else {
            becomeReady(slot, first: false)
        }
    }

    /// Settled, or under way since before its record was read again.
    private func isSettled(_ index: Int32, in record: UInt32) -> Bool {
        guard let words = records[record].settledIndexes else { return false }
        let place = Int(index / 64)
        let word = words[place] | (records[record].lentIndexes.map { $0[place] } ?? 0)
        return word >> UInt64(index % 64) & 1 == 1
    }

    private mutating func copyToken(_ token: UnsafeRawBufferPointer, for slot: UInt32) -> UnsafeRawBufferPointer {
        guard let source = token.baseAddress, token.count > 0 else {
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        let block = blocks.take(token.count)
        block.copyMemory(from: source, byteCount: token.count)
        notifications[slot].tokenBlockSize = Int16(token.count)
        byteShares.take(BlockStore.rounded(token.count), for: Int(records[notifications[slot].record].group))
        let app = Int(notifications[slot].app)
        if app >= 0 { apps[app].openBytes += BlockStore.rounded(token.count) }
        return UnsafeRawBufferPointer(start: block, count: token.count)
    }

    /// Counts bytes that a notification holds, or will write, beside its record's block and its own token: what its
    /// result repeats, the payload of its retry record, a dead letter's key and value, texts of its answer. Given back
    /// when it is settled, since until then they lie in the producer.
    ///
    /// With these, what is held is bounded by `maxOpenBytes`, one record for each partition that began within it, and a
    /// fixed size for each notification (its slot, and a result without what it repeats: `RecordLimits.result` at most). A byte read holds itself in its
    /// record's block; each token of a list, of at least three bytes, its copy (`BlockStore.rounded`) and what its result
    /// repeats; a retry record the payload once more.
    mutating func takeBytes(_ count: Int, for slot: UInt32) {
        let bytes = min(count, Int(Int32.max - notifications[slot].countedBytes))
        notifications[slot].countedBytes += Int32(bytes)
        countedBytes += bytes
        byteShares.take(bytes, for: Int(records[notifications[slot].record].group))
        if notifications[slot].app >= 0 { apps[Int(notifications[slot].app)].openBytes += bytes }
    }

    /// It is settled.
    mutating func giveBackBytes(_ slot: UInt32) {
        let bytes = Int(notifications[slot].countedBytes)
        notifications[slot].countedBytes = 0
        countedBytes -= bytes
        byteShares.giveBack(bytes, for: Int(records[notifications[slot].record].group))
        if notifications[slot].app >= 0 { apps[Int(notifications[slot].app)].openBytes -= bytes }
    }

    /// A slot of its own for one notification, counted everywhere.
    mutating func admitNotification(record: UInt32, index: Int32, app: Int32) -> UInt32 {
        let slot = notifications.take()
        let generation = notifications[slot].generation &+ 1
        notifications[slot] = Notification()
        notifications[slot].generation = generation
        notifications[slot].state = .concluded
        notifications[slot].record = record
        notifications[slot].index = index
        notifications[slot].app = app
        records[record].unsettled += 1
        shares.take(1, for: Int(records[record].group))
        if app >= 0 { apps[Int(app)].open += 1 }
        if let partition = partitions[Int(records[record].partition)] { partition.pointee.open += 1 }
        counters.notificationsAdmitted &+= 1
        return slot
    }

    // MARK: Lanes

    mutating func joinLane(_ slot: UInt32) {
        let token = notifications[slot].token
        let laneApp = apps[Int(notifications[slot].app)].laneApp
        let seed = settings.hashSeed ^ UInt64(truncatingIfNeeded: laneApp) &* 0x9E37_79B9_7F4A_7C15
        let hash = UInt32(truncatingIfNeeded: BytesHash.hash(token, seed: seed) >> 16)
        notifications[slot].laneHash = hash
        let head = laneHead(hash: hash, token: token, laneApp: laneApp)
        if besideLanes > 0, let partition = partitionToWaitFor(slot, beside: head) {
            waitForReach(slot, partition)
            return
        }
        guard let head else {
            notifications[slot].isLaneMember = true
            notifications[slot].laneTail = slot
            notifications[slot].laneCount = 1
            lanes.insert(hash: hash, head: slot)
            takeTurn(slot)
            return
        }
        guard Int(notifications[head].laneCount) < min(settings.laneLimit, Int(UInt16.max)) else {
            notifications[slot].heldTier = laneTier(notifications[head].laneTurnedAway)
            notifications[head].laneTurnedAway.countUp()
            hold(slot, .lane)
            return
        }
        notifications[slot].isLaneMember = true
        notifications[slot].state = .inLane
        notifications[notifications[head].laneTail].laneNext = slot
        notifications[head].laneTail = slot
        notifications[head].laneCount += 1
    }

    /// Its partition, where those of it that came before have left their lanes and it has to wait behind them; `nil`: it
    /// joins its lane. One that is in the lane and would have to wait has left none there: it goes behind that. One that
    /// needs not wait may have come back before the others.
    private func partitionToWaitFor(_ slot: UInt32, beside head: UInt32?) -> UnsafeMutablePointer<Partition>? {
        let record = notifications[slot].record
        guard let partition = partitions[Int(records[record].partition)], partition.pointee.besideLanes > 0,
            !partition.pointee.reach.allows(records[record].offset, notifications[slot].index)
        else { return nil }
        var member = head ?? noSlot
        while member != noSlot {
            let other = notifications[member].record
            if records[other].partition == records[record].partition,
                !partition.pointee.reach.allows(records[other].offset, notifications[member].index)
            {
                return nil
            }
            member = notifications[member].laneNext
        }
        return partition
    }

    /// Where the notification waits that a full lane turned away after so many others: as many as a lane takes pass each
    /// time it is tried.
    private func laneTier(_ turnedAway: UInt16) -> UInt8 {
        let limit = max(1, settings.laneLimit)
        let roundMs = max(tiers.patienceMs, Int64(limit) * Self.laneStepMs)
        let rounds = turnedAway == .max ? Int64.max : Int64(Int(turnedAway) / limit + 1)
        return UInt8(clamping: tiers.tier(inRounds: rounds, ofMs: roundMs))
    }

    private func laneHead(hash: UInt32, token: UnsafeRawBufferPointer, laneApp: Int32) -> UInt32? {
        lanes.head(hash: hash) { head in
            apps[Int(notifications[head].app)].laneApp == laneApp
                && BytesHash.isEqual(notifications[head].token, token)
        }
    }

    /// Takes a notification out of its lane; when it was the first, the next one has its turn. Its token must still be
    /// there.
    mutating func leaveLane(_ slot: UInt32) {
        guard notifications[slot].isLaneMember else { return }
        notifications[slot].isLaneMember = false
        let hash = notifications[slot].laneHash
        let next = notifications[slot].laneNext
        if notifications[slot].state == .inLane {
            leaveMiddle(slot, hash: hash, next: next)
            return
        }
        guard next != noSlot else {
            lanes.remove(hash: hash, head: slot)
            return
        }
        notifications[next].laneTail = notifications[slot].laneTail
        notifications[next].laneCount = notifications[slot].laneCount - 1
        notifications[next].laneTurnedAway = notifications[slot].laneTurnedAway
        notifications[slot].laneNext = noSlot
        lanes.replace(hash: hash, head: slot, by: next)
        takeTurn(next)
    }

    /// It is the first of its lane, which may be a slow one.
    private mutating func takeTurn(_ slot: UInt32) {
        if !slowedLanes.isEmpty, slowedLanes.contains(notifications[slot].laneHash) {
            notifications[slot].sinceNs = now.ns
            backOff(slot)
        } else {
            becomeReady(slot, first: false)
        }
    }

    /// Apple has had too many notifications for this device: the next one waits.
    mutating func slowLane(_ slot: UInt32) {
        guard notifications[slot].isLaneMember else { return }
        slowedLanes.slow(notifications[slot].laneHash, untilNs: now.ns + Self.backOffNs)
    }

    /// A lane has at most `laneLimit` notifications, and this happens when a partition is given up only.
    private mutating func leaveMiddle(_ slot: UInt32, hash: UInt32, next: UInt32) {
        let laneApp = apps[Int(notifications[slot].app)].laneApp
        guard let head = laneHead(hash: hash, token: notifications[slot].token, laneApp: laneApp) else {
            preconditionFailure("a lane has a head")
        }
        var previous = head
        while notifications[previous].laneNext != slot { previous = notifications[previous].laneNext }
        notifications[previous].laneNext = next
        if next == noSlot { notifications[head].laneTail = previous }
        notifications[head].laneCount -= 1
        notifications[slot].laneNext = noSlot
    }

    /// It waits for a free stream; those that were sent before go first.
    mutating func becomeReady(_ slot: UInt32, first: Bool) {
        notifications[slot].state = .ready
        if !first { notifications[slot].sinceNs = now.ns }
        let app = Int(notifications[slot].app)
        let group = Int(records[notifications[slot].record].group)
        if first {
            queues[app].prepend(slot, group: group, in: &notifications)
        } else {
            queues[app].append(slot, group: group, in: &notifications)
        }
    }
}
