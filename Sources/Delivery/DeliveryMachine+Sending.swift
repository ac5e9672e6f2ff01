import PushRecords

extension DeliveryMachine {
    /// Hands out what may be sent now, at most one batch per app, to be posted as `TransportCommand.send`. The bytes in
    /// it stay valid until the fate of each came back through `handle`.
    package mutating func sends(now: DeliveryTime, _ body: (AppIndex, [OutgoingRequest]) -> Void) {
        self.now = now
        renewLeases()
        if admittingCount > 0 { admitWaiting() }
        let handedMs = UInt32(truncatingIfNeeded: now.ns / 1_000_000)
        for app in apps.indices {
            var free = apps[app].concurrency - apps[app].outstanding
            guard free > 0, queues[app].count > 0 else { continue }
            var most = Int.max
            if apps[app].isRateLimited {
                free = min(free, controls[app].rateLimit.allowance(now.ns))
                guard free > 0 else { continue }
                most = free
            }
            var batch: [OutgoingRequest] = []
            var suspects = 0
            batch.reserveCapacity(min(free, queues[app].count))
            while batch.count - suspects < free, batch.count < most,
                let slot = queues[app].removeFirst(from: &notifications)
            {
                guard let partition = partitions[Int(records[notifications[slot].record].partition)] else {
                    preconditionFailure("what is ready has an assignment")
                }
                guard mayBeSent(slot, partition) else { continue }
                if isSuspect(slot) { suspects += 1 }
                batch.append(handOut(slot, handedMs))
            }
            if !batch.isEmpty {
                apps[app].outstanding += batch.count - suspects
                apps[app].quarantined += suspects
                if apps[app].isRateLimited { controls[app].rateLimit.take(batch.count, now.ns) }
                counters.apps[app].handed &+= batch.count
                body(AppIndex(app), batch)
            }
        }
    }

    /// Below the reach, and in time.
    @inline(__always)
    private mutating func mayBeSent(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) -> Bool {
        let offset = records[notifications[slot].record].offset
        let index = notifications[slot].index
        guard partition.pointee.reach.allows(offset, index) else {
            waitForReach(slot, partition)
            return false
        }
        guard let body = records[notifications[slot].record].body else {
            preconditionFailure("what is ready has its bytes")
        }
        guard let expiration = body.pointee.expiration else {
            partition.pointee.reach.advance(to: offset, index)
            return true
        }
        guard expiration == 0 ? isLate(slot, body) : now.wallMs >= Int64(expiration) * 1_000 else {
            partition.pointee.reach.advance(to: offset, index)
            return true
        }
        conclude(slot, .expired)
        return false
    }

    /// Whether a notification with expiration 0 was tried for long enough: since its record was written, or, when that is
    /// not known, since it came here.
    private func isLate(_ slot: UInt32, _ body: UnsafeMutablePointer<RecordBody>) -> Bool {
        let firstMs = body.pointee.firstMs
        if firstMs != RecordTime.unknown { return RecordTime.age(of: firstMs, nowMs: now.wallMs) > Self.nowOrNeverMs }
        return now.ns - records[notifications[slot].record].receivedNs > Self.nowOrNeverMs * 1_000_000
    }

    /// Until an acknowledged commit names a reach above its record.
    mutating func waitForReach(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        if partition.pointee.behindReach.isEmpty {
            let offset = records[notifications[slot].record].offset
            partition.pointee.reach.advance(to: offset, notifications[slot].index)
        }
        // The commit may never come, and a circuit waits for its probe: another one may try.
        if notifications[slot].isProbe { endProbe(slot) }
        notifications[slot].state = .behindReach
        partition.pointee.behindReach.append(slot, in: &notifications)
        if partition.pointee.commits.isImpossible || partition.pointee.besideLanes > 0 {
            letOthersPass(slot, partition)
        }
    }

    /// It waits for a commit that is impossible, and lets others of its device go first, which other partitions brought.
    /// Those of its own leave the lane with it: they come back in their order.
    mutating func letOthersPass(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        markBesideLane(slot, partition)
        guard notifications[slot].isLaneMember else { return }
        var next = notifications[slot].laneNext
        while next != noSlot {
            let other = next
            next = notifications[other].laneNext
            guard records[notifications[other].record].partition == partition.pointee.id.slot else { continue }
            leaveLane(other)
            notifications[other].state = .behindReach
            partition.pointee.behindReach.append(other, in: &notifications)
            markBesideLane(other, partition)
        }
        leaveLane(slot)
    }

    private mutating func markBesideLane(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        guard !notifications[slot].isBesideLane else { return }
        notifications[slot].isBesideLane = true
        partition.pointee.besideLanes += 1
        besideLanes += 1
    }

    /// It no longer waits for the reach.
    mutating func leaveReach(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        partition.pointee.behindReach.remove(slot, from: &notifications)
        guard notifications[slot].isBesideLane else { return }
        notifications[slot].isBesideLane = false
        partition.pointee.besideLanes -= 1
        besideLanes -= 1
    }

    private mutating func handOut(_ slot: UInt32, _ handedMs: UInt32) -> OutgoingRequest {
        let recordSlot = notifications[slot].record
        guard let body = records[recordSlot].body else { preconditionFailure("what is ready has its bytes") }
        notifications[slot].state = .handed
        notifications[slot].handedMs = handedMs
        records[recordSlot].handed += 1
        var headers = body.pointee.headers
        headers.apnsID = requestID(body, index: notifications[slot].index)
        return OutgoingRequest(
            id: NotificationID(slot: slot, generation: notifications[slot].generation),
            token: notifications[slot].token, payload: body.pointee.payload, headers: headers,
            isBroadcast: body.pointee.isBroadcast, isSuspect: isSuspect(slot), place: body.place)
    }

    /// The id that the request carries; `.none`: Apple makes one.
    @inline(__always)
    func requestID(_ body: UnsafeMutablePointer<RecordBody>, index: Int32) -> NotificationUUID {
        if body.pointee.apnsID != .none || !settings.derivesIDs || body.pointee.tierDelayMs > 0 {
            return body.pointee.apnsID
        }
        return DerivedID.make(
            topicHash: body.pointee.topicHash, partition: body.pointee.request.partition,
            offset: body.pointee.request.offset, index: index)
    }

    /// How long ago it was handed out last.
    func handedForMs(_ slot: UInt32) -> Int64 {
        Int64(UInt32(truncatingIfNeeded: now.ns / 1_000_000) &- notifications[slot].handedMs)
    }

    /// Hands out what is to be taken back from transports, to be posted as `TransportCommand.recall`.
    package mutating func recalls(_ body: (AppIndex, [NotificationID]) -> Void) {
        for app in recallLists.indices where !recallLists[app].isEmpty {
            body(AppIndex(app), recallLists[app])
            recallLists[app].removeAll()
        }
    }
}
