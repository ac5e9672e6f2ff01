package import CLinux
package import PushRecords

extension DeliveryMachine {
    /// How many records may be read from this partition now; 0: none. Ask right before reading: each `receive` changes
    /// it. No more than this may be given to `receive` before asking again.
    package func room(for id: PartitionID) -> Int {
        guard let partition = ledger.partitions.find(id), ledger.partitions[partition].takesRecords else { return 0 }
        if ledger.partitions[partition].deadLetters >= Self.unwrittenDeadLetters, !isWritable(.deadLetters) { return 0 }
        let most = min(recordsBehindCommit(partition), ledger.partitions[partition].isSpanFull ? 1 : .max)
        return min(room.records(for: ledger.partitions[partition].group), most)
    }

    /// How many records may be read beside a commit that may never be taken: those below the reach, and a share of
    /// those above. While its commits are taken, one more: what waits to be admitted has the reach raised.
    private func recordsBehindCommit(_ partition: PartitionSlot) -> Int {
        let next = ledger.partitions[partition].nextOffset
        let below = max(0, ledger.partitions[partition].reach.allowed.offset - next)
        let most = min(Int(clamping: below), room.total) + roomAboveReach(partition, at: next)
        return max(most, ledger.partitions[partition].commits.refusals == 0 ? 1 : 0)
    }

    func roomAboveReach(_ partition: PartitionSlot, at offset: Int64) -> Int {
        room.aboveReach(
            open: ledger.partitions[partition].openAboveReach(at: offset), partitions: ledger.partitions.count)
    }

    /// The place of a partition's records, with an offset of 0; nothing where the assignment is gone.
    package func place(of id: PartitionID) -> CrashPlace {
        ledger.partitions.find(id).map { ledger.partitions[$0].place } ?? CrashPlace()
    }

    /// A record of a partition that came back, which is open since before: what was dropped of it is taken again.
    mutating func receiveAgain(
        _ record: RecordSlot, _ request: ParsedRequest, _ partition: PartitionSlot, _ timestampMs: Int64,
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> Receipt {
        guard store[record].isDropped else {
            journal.counters.duplicatesSkipped &+= 1
            return .known
        }
        guard Int(store[record].count) == request.tokenCount else {
            // Nobody can read any more what was dropped of it, or another record stands there, which the watch tells:
            // it must not stay open for ever.
            store[record].forgo()
            guard request.target == .none else {
                ledger.finish(record, in: &store)
                return .known
            }
            let letter = admitDeadLetter(record: record, key, value, headers)
            return .deadLetter(id: letter, reason: request.deadLetter ?? .badEnvelope, detail: request.detail)
        }
        if store.hasBody(record) {
            // Some of it is on connections, and its bytes are lent.
            store[bodyOf: record].inheritedDoubtEnd =
                request.isInvalid
                ? 0 : ledger.partitions[partition].ledger.inheritedDoubtEnd(at: store[record].offset)
        } else {
            makeBody(of: record, request, partition: partition, timestampMs: timestampMs)
        }
        store[record].need()
        store[record].takeAgain()
        if store[record].indexesUnderWay != nil { store[record].hasSettledIndexes = true }
        admitNew(record, partition)
        return .taken
    }

    mutating func makeBody(
        of record: RecordSlot, _ request: ParsedRequest, partition: PartitionSlot, timestampMs: Int64
    ) {
        let offset = store[record].offset
        let firstMs = RecordTime.checked(request.retry?.firstMs ?? timestampMs)
        let origin = ledger.partitions[partition].origin(of: offset)
        let startMs = RecordTime.start(firstMs, notBefore: request.notBefore)
        let isExpired = settings.maxAgeMs > 0 && RecordTime.age(of: startMs, nowMs: now.wallMs) > settings.maxAgeMs
        // What the parser refuses was refused there too; what has no app may have had one.
        let doubts = request.isInvalid ? 0 : ledger.partitions[partition].ledger.inheritedDoubtEnd(at: offset)
        let match = findApp(request, of: ledger.partitions[partition].group)
        let size =
            switch match {
            case .app where isTooFarAhead(request):
                store.makeBody(
                    of: record,
                    request.refused(
                        .none, "push-not-before is further ahead than delivery.max_ahead: write the request later",
                        .nothing), read: origin, firstMs: firstMs, isExpired: isExpired, inheritedDoubtEnd: doubts)
            case .app:
                store.makeBody(
                    of: record, request, read: origin, firstMs: firstMs, isExpired: isExpired, inheritedDoubtEnd: doubts
                )
            case .failure(let reason, let text, let subject):
                store.makeBody(
                    of: record, request.refused(reason, text, subject), read: origin, firstMs: firstMs,
                    isExpired: isExpired, inheritedDoubtEnd: doubts)
            }
        if case .app(let app, let defaultTopic) = match {
            store[bodyOf: record].app = Int32(app.value)
            store[bodyOf: record].firstApp = firstApp(request, foundApp: app)
            if request.headers.topic.isEmpty { store[bodyOf: record].headers.topic = defaultTopic }
        }
        store[bodyOf: record].countRepeated()
        room.takeRecord(size, group: ledger.partitions[partition].group, app: Int(store[bodyOf: record].app))
    }

    /// Whether a request is to be sent so late that it is a mistake rather than a plan. What was taken once goes on.
    private func isTooFarAhead(_ request: ParsedRequest) -> Bool {
        request.notBefore > 0 && request.retry == nil
            && Int64(request.notBefore) &* 1_000 - now.wallMs > settings.maxAheadMs
    }

    /// The app that called the token of a retry record bad before, or else the one that was found.
    private func firstApp(_ request: ParsedRequest, foundApp: AppIndex) -> Int32 {
        guard let tried = request.retry?.triedApp, !tried.isEmpty else { return Int32(foundApp.value) }
        return directory.index(named: tried).map { Int32($0.value) } ?? RecordBody.unknownApp
    }

    private mutating func findApp(_ request: ParsedRequest, of group: Int) -> AppDirectory.Match {
        let isBroadcast = request.target == .channel
        if request.app.isEmpty,
            let match = directory.findDefault(
                of: group, environment: request.environment, topic: request.headers.topic,
                pushType: request.headers.pushType, isBroadcast: isBroadcast)
        {
            return match
        }
        let match = directory.find(
            name: request.app, environment: request.environment, topic: request.headers.topic,
            pushType: request.headers.pushType, isBroadcast: isBroadcast)
        // The worker that wrote a retry record knew the app; here it may have another name, while workers are replaced
        // or for good.
        guard case .failure = match, request.retry != nil, !request.app.isEmpty, !request.headers.topic.isEmpty else {
            return match
        }
        let noName = UnsafeRawBufferPointer(start: nil, count: 0)
        let byTopic = directory.find(
            name: noName, environment: request.environment, topic: request.headers.topic,
            pushType: request.headers.pushType, isBroadcast: isBroadcast)
        // Nobody sends to the other environment here: it is again one of the app that sent it on.
        guard case .failure = byTopic, let tried = request.retry?.triedApp, !tried.isEmpty else { return byTopic }
        return directory.find(
            name: tried, environment: nil, topic: request.headers.topic, pushType: request.headers.pushType,
            isBroadcast: isBroadcast)
    }

    /// A record from which nothing can be read is one notification that is only produced: the publisher holds its bytes
    /// until that is acknowledged.
    mutating func admitDeadLetter(
        record: RecordSlot, _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer,
        _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> NotificationID {
        journal.counters.deadLetters &+= 1
        let slot = admitNotification(record: record, index: 0, app: -1)
        store.move(slot, to: .concluded)
        store[slot].unacknowledged = 1
        store[slot].isDeadLetter = true
        ledger.countDeadLetter(of: record, in: store)
        room.takeBytes(Self.letterBytes(key, value, headers), for: slot, in: &store)
        return store.id(of: slot)
    }

    /// What it takes in memory until it is written, nearly: a header without a byte of its own is not for nothing.
    package static func letterBytes(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> Int {
        headers.reduce(key.count + value.count) { $0 + $1.name.count + $1.value.count + Self.headerBytes }
    }
}

extension ParsedRequest {
    /// Refused because it has no app, unless it is for something else already: the detail names what was asked for.
    fileprivate func refused(_ reason: ReasonCode, _ text: StaticString, _ subject: AppDirectory.Subject)
        -> ParsedRequest
    {
        guard !isInvalid else { return self }
        var refused = self
        refused.isInvalid = true
        refused.failureReason = reason
        refused.detail =
            switch subject {
            case .name: Detail(text, app)
            case .topic: Detail(text, headers.topic)
            case .nothing: Detail(text)
            }
        return refused
    }
}
