package import CLinux
package import PushRecords

extension DeliveryMachine {
    /// How many records may be read from this partition now; 0: none. Ask right before reading: each `receive` changes
    /// it. No more than this may be given to `receive` before asking again.
    package func room(for id: PartitionID) -> Int {
        guard let partition = find(id), partition.pointee.phase == .active, partition.pointee.firstAdmitting == noSlot
        else { return 0 }
        // A map that was read back may be full of what comes next: with nothing open, only reading on makes it shorter. So
        // it is where what was open when the partition was lost has to come again.
        if partition.pointee.isSpanFull, partition.pointee.ledger.openCount > 0, !partition.pointee.ledger.isRereading {
            return 0
        }
        if partition.pointee.deadLetters >= Self.unwrittenDeadLetters, !isWritable(.deadLetters) { return 0 }
        let bytes = byteShares.room(for: partition.pointee.group)
        guard bytes > 0 else { return 0 }
        let most = min(roomBehindCommit(partition), partition.pointee.isSpanFull ? 1 : .max)
        return min(shares.room(for: partition.pointee.group), max(1, bytes / recordBytesMean), most)
    }

    /// How many records may be read beside a commit that may never be taken: those below the reach, and a share of those
    /// above. While its commits are taken, one more: what waits to be admitted has the reach raised.
    private func roomBehindCommit(_ partition: UnsafeMutablePointer<Partition>) -> Int {
        let next = max(partition.pointee.ledger.highestArrived + 1, partition.pointee.ledger.committable ?? 0)
        let below = max(0, partition.pointee.reach.allowed.offset - next)
        let room = min(Int(clamping: below), shares.total) + roomAboveReach(partition, at: next)
        return max(room, partition.pointee.commits.refusals == 0 ? 1 : 0)
    }

    /// Of what is admitted above the reach, all partitions together have at most half of the room, notifications and bytes:
    /// a commit that is never taken leaves the rest to others. A commit may name less than the one before, and what was
    /// below the reach is above it then.
    func roomAboveReach(_ partition: UnsafeMutablePointer<Partition>, at offset: Int64) -> Int {
        let most = min(shares.total, settings.maxOpenBytes / recordBytesMean)
        var above = partition.pointee.open
        // Each offset is one at most, and nothing waits for the reach that was below it before.
        if partition.pointee.fanOuts == 0, partition.pointee.behindReach.isEmpty {
            above = min(above, Int(clamping: max(0, offset - partition.pointee.reach.allowed.offset)))
        }
        return max(0, max(1, most / (2 * max(1, partitions.count))) - above)
    }

    /// The highest of these offsets that the commit read back does not name settled; `nil`: it names them all. For records
    /// that are passed by unread: one dead letter, under that offset, stands for them.
    package func lastUnsettled(_ id: PartitionID, of offsets: ClosedRange<Int64>) -> Int64? {
        guard let partition = find(id) else { return nil }
        return partition.pointee.ledger.lastUnsettled(of: offsets)
    }

    /// The place of a partition's records, with an offset of 0; nothing where the assignment is gone.
    package func place(of id: PartitionID) -> CrashPlace { find(id)?.pointee.place ?? CrashPlace() }

    /// Takes one record. Key, value and headers are lent for the call; what is needed is copied. A `nil` base address
    /// says that the record has no key, or no value (a tombstone).
    ///
    /// Offsets of a partition come in ascending order; lower ones than before are `.below`.
    ///
    /// - Parameter unread: not even look at it: it is a dead letter for this reason.
    package mutating func receive(
        _ id: PartitionID, offset: Int64, timestampMs: Int64, key: UnsafeRawBufferPointer,
        value: UnsafeRawBufferPointer, headers: UnsafeBufferPointer<RecordHeader>,
        unread: DeadLetterReason? = nil, now: DeliveryTime
    ) -> Receipt {
        self.now = now
        let timestampMs = RecordTime.checked(timestampMs)
        guard let partition = find(id), partition.pointee.phase == .active else { return .unassigned }
        // One more is what a commit says once it is settled.
        guard offset >= 0, offset < OffsetLimit.highest else { return .unassigned }
        if partition.pointee.ledger.isReset(offset) {
            events.append(
                .offsetReset(id, committed: partition.pointee.ledger.committedAtAssignment ?? 0, offset: offset))
            partition.pointee.ledger.reset()
            // Nothing is sent before the offset that is right now was committed; a commit in flight says nothing.
            partition.pointee.reach = Reach(minimum: settings.reachMargin)
            partition.pointee.pending = nil
        }
        if partition.pointee.ledger.isBelow(offset) {
            return .below(highest: partition.pointee.ledger.highestArrived)
        }

        let isRetry = partition.pointee.tierDelayMs > 0
        let request =
            unread.map { .unread($0) }
            ?? parser.parse(key: key, value: value, headers: headers, role: isRetry ? .retry : .request)
        if let retry = request.retry, timestampMs != RecordTime.unknown {
            // Whatever a skewed clock wrote into the header. One that wrote a time still to come was ahead, by more than
            // the tier is long: who knows when that was, so nobody waits for it.
            let dueMs = min(retry.dueMs, RecordTime.adding(partition.pointee.tierDelayMs, to: timestampMs))
            if dueMs > now.wallMs, timestampMs - now.wallMs <= partition.pointee.tierDelayMs {
                return .notDue(untilMs: dueMs)
            }
        }
        counters.recordsReceived &+= 1

        if partition.pointee.ledger.isRereading { passOver(partition, below: offset) }
        let arrival = partition.pointee.ledger.receive(offset, record: records.take())
        let settledIndexes: [Range<Int64>]
        switch arrival {
        case .again(let slot):
            return receiveAgain(slot, request, partition, timestampMs)
        case .known:
            return .known
        case .settledBefore:
            partition.pointee.isDirty = true
            counters.duplicatesSkipped &+= 1
            return .known
        case .open(let indexes):
            settledIndexes = indexes
        }
        let slot = partition.pointee.ledger.lastRecord
        var record = Record()
        record.partition = id.slot
        record.group = Int32(partition.pointee.group)
        record.offset = offset
        record.timestampMs = timestampMs
        record.firstMs = RecordTime.checked(request.retry?.firstMs ?? timestampMs)
        record.receivedNs = now.ns
        record.position = partition.pointee.ledger.lastPosition
        record.count = 1
        let isList: Bool
        switch request.target {
        case .none:
            record.cursor.index = 1
            records[slot] = record
            let notification = admitDeadLetter(record: slot, key, value, headers)
            let reason = request.deadLetter ?? .badEnvelope
            return .deadLetter(id: notification, reason: reason, detail: request.detail)
        case .devices: isList = true
        case .device, .channel: isList = false
        }

        record.count = Int32(request.tokenCount)
        record.body = makeBody(request, partition: partition, offset: offset, timestampMs: timestampMs)
        record.holders = 1
        if isList { record.settledIndexes = makeIndexes(record, settled: settledIndexes) }
        record.hasSettledIndexes = !settledIndexes.isEmpty
        if record.count > 1 { partition.pointee.fanOuts += 1 }
        records[slot] = record
        admitNew(slot, partition)
        return .taken
    }

    private mutating func admitNew(_ slot: UInt32, _ partition: UnsafeMutablePointer<Partition>) {
        if partition.pointee.firstAdmitting != noSlot || !admit(slot, limit: Self.admissionPiece) {
            waitForAdmission(slot, partition)
        } else {
            // All of it may be settled already.
            finish(record: slot)
        }
    }

    /// A record of a partition that came back, which is open since before: what was dropped of it is taken again.
    private mutating func receiveAgain(
        _ slot: UInt32, _ request: ParsedRequest, _ partition: UnsafeMutablePointer<Partition>, _ timestampMs: Int64
    ) -> Receipt {
        guard records[slot].isDropped, Int(records[slot].count) == request.tokenCount else {
            counters.duplicatesSkipped += 1
            return .known
        }
        if let body = records[slot].body {
            // Some of it is on connections, and its bytes are lent.
            records[slot].holders += 1
            body.pointee.inheritedDoubts =
                request.isInvalid ? 0 : partition.pointee.ledger.inheritedDoubts(at: records[slot].offset)
        } else {
            records[slot].body = makeBody(
                request, partition: partition, offset: records[slot].offset, timestampMs: timestampMs)
            records[slot].holders = 1
        }
        records[slot].isDropped = false
        records[slot].cursor = TokenCursor()
        if records[slot].lentIndexes != nil { records[slot].hasSettledIndexes = true }
        admitNew(slot, partition)
        return .taken
    }

    private func makeIndexes(_ record: Record, settled: [Range<Int64>]) -> UnsafeMutablePointer<UInt64>? {
        guard record.count > 1 else { return nil }
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: record.indexWordCount)
        words.initialize(repeating: 0, count: record.indexWordCount)
        for range in settled {
            for index in range where index < Int64(record.count) { words[Int(index / 64)] |= 1 << UInt64(index % 64) }
        }
        return words
    }

    /// Copies what is needed of a record into one block.
    private mutating func makeBody(
        _ request: ParsedRequest, partition: UnsafeMutablePointer<Partition>, offset: Int64, timestampMs: Int64
    ) -> UnsafeMutablePointer<RecordBody> {
        var token = request.tokenList
        var tokenFailure = ReasonCode.none
        var isList = false
        var isBroadcast = false
        switch request.target {
        case .device:
            let normalized = DeviceToken.normalize(request.token, into: scratch)
            tokenFailure = normalized.failure
            token = UnsafeRawBufferPointer(rebasing: scratch[..<normalized.count])
        case .channel:
            token = request.channelID
            isBroadcast = true
        case .devices:
            isList = true
        case .none:
            preconditionFailure("a dead letter has no body")
        }
        // What is refused is never sent, and may be large.
        let payload = request.isInvalid ? UnsafeRawBufferPointer(start: nil, count: 0) : request.payload
        let subject = UnsafeRawBufferPointer(
            start: request.detail.subject.baseAddress, count: min(request.detail.subject.count, Detail.subjectLimit))
        let originalTopic = request.retry?.request.topic ?? UnsafeRawBufferPointer(start: nil, count: 0)
        let headersSize = request.copiedHeaders.count * MemoryLayout<RecordHeader>.stride
        var size = MemoryLayout<RecordBody>.stride + headersSize + token.count + payload.count
        size += request.headers.byteCount + request.key.count
        size += subject.count + originalTopic.count
        for header in request.copiedHeaders { size += header.name.count + header.value.count }

        let block = blocks.take(size)
        byteShares.take(BlockStore.rounded(size), for: partition.pointee.group)
        recordBytesMean += (BlockStore.rounded(size) - recordBytesMean) / 16
        if recordBytesMean < 64 { recordBytesMean = 64 }
        var writer = BlockWriter(next: block + MemoryLayout<RecordBody>.stride + headersSize)
        let headers = (block + MemoryLayout<RecordBody>.stride).bindMemory(
            to: RecordHeader.self, capacity: request.copiedHeaders.count)
        for (index, header) in request.copiedHeaders.enumerated() {
            let copy = RecordHeader(name: writer.copy(header.name), value: writer.copy(header.value))
            (headers + index).initialize(to: copy)
        }

        let body = block.bindMemory(to: RecordBody.self, capacity: 1)
        let tierDelayMs = partition.pointee.tierDelayMs
        let firstMs = RecordTime.checked(request.retry?.firstMs ?? timestampMs)
        // What the parser refuses was refused there too; what has no app may have had one.
        let inheritedDoubts = request.isInvalid ? 0 : partition.pointee.ledger.inheritedDoubts(at: offset)
        var place = RequestPlace(
            topic: partition.pointee.topic, partition: partition.pointee.number, offset: offset, index: 0)
        if let retry = request.retry {
            place = retry.request
            place.topic = writer.copy(originalTopic)
        }
        var readAt = partition.pointee.place
        readAt.offset = offset
        body.initialize(
            to: RecordBody(
                place: readAt, blockSize: size, payload: writer.copy(payload),
                headers: request.headers.copied(to: &writer.next), key: writer.copy(request.key),
                tokens: writer.copy(token), isList: isList, tokenFailure: tokenFailure,
                copiedHeaders: UnsafeBufferPointer(start: headers, count: request.copiedHeaders.count),
                isBroadcast: isBroadcast, app: -1, isInvalid: request.isInvalid,
                isExpired: settings.maxAgeMs > 0
                    && RecordTime.age(of: firstMs, nowMs: now.wallMs) > settings.maxAgeMs,
                failureReason: request.failureReason, detail: Detail(request.detail.text, writer.copy(subject)),
                request: place, firstMs: firstMs, sends: request.retry?.sends ?? 0,
                inDoubt: request.retry?.inDoubt ?? 0, inheritedDoubts: inheritedDoubts,
                attempt: request.retry?.attempt ?? 0,
                tierDelayMs: tierDelayMs, topicHash: partition.pointee.topicHash))
        precondition(writer.next == block + size, "a block has room for what is copied into it")
        findApp(request, body)
        body.pointee.countRepeated()
        let app = Int(body.pointee.app)
        if app >= 0 { apps[app].openBytes += BlockStore.rounded(size) }
        return body
    }

    private mutating func findApp(_ request: ParsedRequest, _ body: UnsafeMutablePointer<RecordBody>) {
        var match = directory.find(name: request.app, environment: request.environment, topic: request.headers.topic)
        // The worker that wrote a retry record knew the app; here it may have another name, while workers are replaced
        // or for good.
        if case .failure = match, request.retry != nil, !request.app.isEmpty, !request.headers.topic.isEmpty {
            let noName = UnsafeRawBufferPointer(start: nil, count: 0)
            match = directory.find(name: noName, environment: request.environment, topic: request.headers.topic)
        }
        switch match {
        case .app(let app, let defaultTopic):
            body.pointee.app = Int32(app.value)
            if request.headers.topic.isEmpty { body.pointee.headers.topic = defaultTopic }
        case .failure(let reason, let text):
            guard !body.pointee.isInvalid else { return }
            body.pointee.isInvalid = true
            body.pointee.failureReason = reason
            body.pointee.detail = Detail(text)
        }
    }

    /// A record from which nothing can be read is one notification that is only produced: the publisher holds its bytes
    /// until that is acknowledged.
    private mutating func admitDeadLetter(
        record: UInt32, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> NotificationID {
        counters.deadLetters &+= 1
        let slot = admitNotification(record: record, index: 0, app: -1)
        notifications[slot].state = .concluded
        notifications[slot].unacknowledged = 1
        notifications[slot].isDeadLetter = true
        partitions[Int(records[record].partition)]?.pointee.deadLetters += 1
        takeBytes(headers.reduce(key.count + value.count) { $0 + $1.name.count + $1.value.count }, for: slot)
        return NotificationID(slot: slot, generation: notifications[slot].generation)
    }
}

/// Copies bytes into a block, one after the other.
private struct BlockWriter {
    var next: UnsafeMutableRawPointer

    /// A `nil` base address stays one.
    mutating func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard let source = bytes.baseAddress else { return UnsafeRawBufferPointer(start: nil, count: 0) }
        next.copyMemory(from: source, byteCount: bytes.count)
        defer { next += bytes.count }
        return UnsafeRawBufferPointer(start: next, count: bytes.count)
    }
}
