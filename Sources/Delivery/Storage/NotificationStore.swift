internal import CLinux
import PushRecords

/// Every open notification, its record, and their bytes: what the parts of the machine share.
///
/// A notification is named by its slot, and so is a record: `store[slot]` is the one or the other, by the type of the
/// slot. No pointer to one is kept elsewhere.
struct NotificationStore: ~Copyable {
    private let inPlace = InPlace()
    private var notifications = Slab<Notification, NotificationSlot>(capacity: 1_024, empty: Notification())
    private var records = Slab<Record, RecordSlot>(capacity: 1_024, empty: Record())
    private var blocks: BlockStore
    /// How much may be open, and what is.
    var budget: AdmissionBudget
    /// Bytes that notifications hold beside blocks (`takeBytes`).
    private(set) var countedBytes = 0
    /// Holds a token while it is read.
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 8)

    init(_ settings: MachineSettings) {
        blocks = BlockStore(idleLimit: max(1 << 20, settings.maxOpenBytes / 4))
        budget = AdmissionBudget(mostOpen: settings.mostOpen(streams: 0), mostBytes: settings.maxOpenBytes)
    }

    deinit {
        for slot in slots where notifications[slot].state != .free && notifications[slot].tokenBlockSize > 0 {
            UnsafeMutableRawPointer(mutating: notifications[slot].token.baseAddress)?.deallocate()
        }
        for record in recordSlots {
            records[record].body?.deallocate()
            records[record].settledIndexes?.deallocate()
        }
        scratch.deallocate()
    }

    // MARK: Notifications

    subscript(slot: NotificationSlot) -> Notification {
        @inline(__always) unsafeAddress { UnsafePointer(notifications.base + Int(slot.number)) }
        @inline(__always) unsafeMutableAddress { notifications.base + Int(slot.number) }
    }

    /// All slots of notifications, used or not.
    var slots: SlotWalk<NotificationSlot> { SlotWalk(count: notifications.capacity) }
    /// As `slots`, of records.
    var recordSlots: SlotWalk<RecordSlot> { SlotWalk(count: records.capacity) }
    /// Notifications that are open.
    var count: Int { notifications.count }
    /// As `count`, of records.
    var recordCount: Int { records.count }
    /// Bytes of the blocks that are given out.
    var blockBytes: Int { blocks.openBytes }

    /// Whether there is such a slot: what comes from outside may name any.
    func has(_ slot: NotificationSlot) -> Bool { Int(slot.number) < notifications.capacity }

    /// The name of what is in this slot now.
    @inline(__always)
    func id(of slot: NotificationSlot) -> NotificationID {
        NotificationID(slot: slot, generation: self[slot].generation)
    }

    /// Whether this notification is decided, and its productions are under way.
    func isCurrent(_ id: NotificationID) -> Bool {
        self[id.slot].generation == id.generation && self[id.slot].state.isConcluded
    }

    /// A slot of its own for one notification of a record, of which that counts one more.
    mutating func take(of record: RecordSlot, index: Int32, app: Int32) -> NotificationSlot {
        let slot = notifications.take()
        notifications[slot] = Notification(generation: notifications[slot].generation &+ 1)
        notifications[slot].state = .admitted
        notifications[slot].record = record
        notifications[slot].index = index
        notifications[slot].app = app
        records[record].unsettled += 1
        budget.add(notifications: 1, group: Int(records[record].group), app: Int(app))
        return slot
    }

    /// The record counts one less.
    mutating func giveBack(_ slot: NotificationSlot) {
        let record = notifications[slot].record
        let taken = Int(notifications[slot].countedBytes)
        countedBytes -= taken
        budget.add(
            notifications: -1, bytes: -taken, group: Int(records[record].group), app: Int(notifications[slot].app))
        records[record].unsettled -= 1
        if notifications[slot].tries.past == .inDoubt { records[record].doubts -= 1 }
        notifications[slot].state = .free
        notifications.giveBack(slot)
    }

    /// A send of it is in doubt: counted once in its record.
    mutating func doubt(_ slot: NotificationSlot) {
        guard notifications[slot].tries.past != .inDoubt else { return }
        notifications[slot].tries.past = .inDoubt
        records[notifications[slot].record].doubts += 1
    }

    /// Leaves the doubt of a dropped notification with its record, for the last commit's horizon.
    mutating func leaveDoubt(_ slot: NotificationSlot) {
        if notifications[slot].tries.past == .inDoubt { notifications[slot].tries.past = .tried }
    }

    /// A notification belongs to another app from now on, with all that it holds.
    mutating func move(_ slot: NotificationSlot, toApp app: Int) {
        let size = Int(notifications[slot].countedBytes) + tokenBytes(slot)
        budget.move(size, from: Int(notifications[slot].app), to: app)
        notifications[slot].app = Int32(app)
    }

    /// Counts bytes that a notification holds, or will write, beside its record's block and its own token: what its
    /// result repeats, the payload of its retry record, a dead letter's key and value, texts of its answer. They are
    /// given back with the notification, since they lie in the producer until then.
    ///
    /// With these, what is held is bounded by `maxOpenBytes`, one record for each partition that began within it, and a
    /// fixed size for each notification (its slot, and a result without what it repeats: `RecordLimits.result` at
    /// most). A byte read holds itself in its record's block; each token of a list, of at least three bytes, its copy
    /// (`BlockStore.rounded`) and what its result repeats; a retry record the payload once more.
    mutating func takeBytes(_ count: Int, for slot: NotificationSlot) {
        let taken = min(count, Int(Int32.max - notifications[slot].countedBytes))
        notifications[slot].countedBytes += Int32(taken)
        countedBytes += taken
        budget.add(bytes: taken, group: Int(self[recordOf: slot].group), app: Int(notifications[slot].app))
    }

    // MARK: Records

    subscript(record: RecordSlot) -> Record {
        @inline(__always) unsafeAddress { UnsafePointer(records.base + Int(record.number)) }
        @inline(__always) unsafeMutableAddress { records.base + Int(record.number) }
    }

    /// The record of a notification.
    subscript(recordOf slot: NotificationSlot) -> Record {
        @inline(__always) unsafeAddress { UnsafePointer(records.base + Int(self[slot].record.number)) }
        @inline(__always) unsafeMutableAddress { records.base + Int(self[slot].record.number) }
    }

    mutating func takeRecord() -> RecordSlot { records.take() }

    mutating func giveBack(_ record: RecordSlot) {
        precondition(records[record].body == nil, "a record's bytes go before it")
        records[record].settledIndexes?.deallocate()
        records[record] = Record()
        records.giveBack(record)
    }

    // MARK: Bodies

    func hasBody(_ record: RecordSlot) -> Bool { records[record].body != nil }

    /// What the notifications of a record share: there as long as one of them needs it (`hasBody`).
    subscript(bodyOf record: RecordSlot) -> RecordBody {
        @inline(__always) unsafeAddress { UnsafePointer(records[record].body.unsafelyUnwrapped) }
        @inline(__always) unsafeMutableAddress { records[record].body.unsafelyUnwrapped }
    }

    /// The record's place for the crash history, lent as long as its body is there.
    func place(of record: RecordSlot) -> UnsafePointer<CrashPlace>? {
        records[record].body.map { UnsafeRawPointer($0).assumingMemoryBound(to: CrashPlace.self) }
    }

    /// Tells the supervisor which record is written, in case the process dies at it.
    func enterPlace(of id: NotificationID) {
        precondition(isCurrent(id), "what is lent is to be produced")
        guard let place = place(of: self[id.slot].record) else {
            preconditionFailure("what is to be produced has its bytes")
        }
        crash_at(place)
    }

    /// Whether it is to be sent now or never: its expiration is 0.
    func isNowOrNever(_ slot: NotificationSlot) -> Bool { self[recordOf: slot].body?.pointee.headers.expiration == 0 }

    /// When it is to be sent, by the wall clock, or 0 for at once.
    func notBeforeMs(_ slot: NotificationSlot) -> Int64 { self[recordOf: slot].body?.pointee.notBeforeMs ?? 0 }

    /// Whether it may wait in a tier: all may, except what is to be sent now or never, once its time has come.
    func mayBeDeferred(_ slot: NotificationSlot, nowMs: Int64) -> Bool {
        !isNowOrNever(slot) || notBeforeMs(slot) > nowMs
    }

    /// Whether the notifications of a record with expiration 0 were tried for `limitMs`: since the record was written
    /// or its time came, or, when that is not known, since it came here.
    func isLate(_ record: RecordSlot, limitMs: Int64, now: DeliveryTime) -> Bool {
        let startMs = RecordTime.start(self[bodyOf: record].firstMs, notBefore: self[bodyOf: record].notBefore)
        if startMs != RecordTime.unknown { return RecordTime.age(of: startMs, nowMs: now.wallMs) > limitMs }
        return now.ns - records[record].receivedNs > limitMs * 1_000_000
    }

    /// Copies what is needed of a request into one block, the body of its record.
    ///
    /// - Parameters:
    ///   - firstMs: timestamp of the original record.
    ///   - isExpired: it is too old to be sent.
    ///   - isInDoubt: it may have been sent by the owner before.
    ///   - app: the app that it is for, or -1 if no app is known.
    ///   - firstApp: as in `RecordBody`.
    ///   - defaultTopic: the topic if the request has none.
    mutating func makeBody(
        of record: RecordSlot, _ request: ParsedRequest, in partition: borrowing Partition, firstMs: Int64,
        isExpired: Bool, isInDoubt: Bool, app: Int32, firstApp: Int32, defaultTopic: UnsafeRawBufferPointer
    ) {
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
        let payload = request.isInvalid ? UnsafeRawBufferPointer.nothing : request.payload
        let subject = UnsafeRawBufferPointer(
            start: request.detail.subject.baseAddress, count: min(request.detail.subject.count, Detail.subjectLimit))
        let originalTopic = request.retry?.request.topic ?? UnsafeRawBufferPointer.nothing
        let headersSize = request.copiedHeaders.count * MemoryLayout<RecordHeader>.stride
        var size = MemoryLayout<RecordBody>.stride + headersSize + token.count + payload.count
        size += request.headers.byteCount + request.key.count
        size += subject.count + originalTopic.count
        for header in request.copiedHeaders { size += header.name.count + header.value.count }

        let block = blocks.take(size)
        var writer = BlockWriter(next: block + MemoryLayout<RecordBody>.stride + headersSize)
        let headers = (block + MemoryLayout<RecordBody>.stride).bindMemory(
            to: RecordHeader.self, capacity: request.copiedHeaders.count)
        for (index, header) in request.copiedHeaders.enumerated() {
            let copy = RecordHeader(name: writer.copy(header.name), value: writer.copy(header.value))
            (headers + index).initialize(to: copy)
        }

        let body = block.bindMemory(to: RecordBody.self, capacity: 1)
        var origin = partition.place
        origin.offset = records[record].offset
        var place = RequestPlace(
            topic: partition.topic, partition: partition.number, offset: origin.offset, index: 0)
        if let retry = request.retry {
            place = retry.request
            place.topic = writer.copy(originalTopic)
        }
        body.initialize(
            to: RecordBody(
                place: origin, blockSize: size, payload: writer.copy(payload),
                headers: request.headers.copied(to: &writer.next), key: writer.copy(request.key),
                tokens: writer.copy(token), isList: isList, tokenFailure: tokenFailure,
                copiedHeaders: UnsafeBufferPointer(start: headers, count: request.copiedHeaders.count),
                isBroadcast: isBroadcast, app: app, firstApp: firstApp, isInvalid: request.isInvalid,
                isExpired: isExpired,
                failureReason: request.failureReason, detail: Detail(request.detail.text, writer.copy(subject)),
                request: place, firstMs: firstMs, sends: request.retry?.sends ?? 0,
                inDoubt: request.retry?.inDoubt ?? 0, isInDoubt: isInDoubt,
                attempt: request.retry?.attempt ?? 0, tierDelayMs: partition.tierDelayMs,
                topicHash: partition.topicHash,
                notBefore: request.notBefore))
        precondition(writer.next == block + size, "a block has room for what is copied into it")
        if request.headers.topic.isEmpty, app >= 0 { body.pointee.headers.topic = defaultTopic }
        body.pointee.countRepeated()
        records[record].body = body
        budget.addRecord(BlockStore.rounded(size), group: Int(records[record].group), app: Int(app))
    }

    /// The bytes of a notification are no longer needed.
    mutating func releaseBytes(_ slot: NotificationSlot) {
        if notifications[slot].tokenBlockSize > 0, let token = notifications[slot].token.baseAddress {
            let size = Int(notifications[slot].tokenBlockSize)
            blocks.giveBack(UnsafeMutableRawPointer(mutating: token), size: size)
            notifications[slot].tokenBlockSize = 0
            budget.add(
                bytes: -BlockStore.rounded(size), group: Int(self[recordOf: slot].group),
                app: Int(notifications[slot].app))
        }
        notifications[slot].token = UnsafeRawBufferPointer.nothing
        releaseBody(notifications[slot].record)
    }

    /// One less needs the record's body.
    mutating func releaseBody(_ record: RecordSlot) {
        guard let body = records[record].body else { return }
        records[record].holders -= 1
        guard records[record].holders == 0 else { return }
        let size = body.pointee.blockSize
        budget.add(
            bytes: -BlockStore.rounded(size), group: Int(records[record].group), app: Int(body.pointee.app))
        records[record].body = nil
        blocks.giveBack(UnsafeMutableRawPointer(body), size: size)
    }

    // MARK: Fan-outs

    /// The next token of a record's list, lent until another one is read, and what is wrong with it.
    mutating func nextToken(of record: RecordSlot) -> (token: UnsafeRawBufferPointer, failure: ReasonCode) {
        guard let next = records[record].cursor.next(in: self[bodyOf: record].tokens, into: scratch) else {
            preconditionFailure("a list holds as many tokens as the parser counted")
        }
        return (UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(scratch)[..<next.count]), next.failure)
    }

    /// Which indexes of a record are settled is written down from now on, unless it has one notification only.
    mutating func makeIndexes(of record: RecordSlot, settled: [Range<Int64>]) {
        let count = records[record].count
        guard count > 1 else { return }
        let words = UnsafeMutablePointer<UInt64>.allocate(capacity: records[record].indexWordCount)
        words.initialize(repeating: 0, count: records[record].indexWordCount)
        for range in settled {
            for index in range where index < Int64(count) { words[Int(index / 64)] |= 1 << UInt64(index % 64) }
        }
        records[record].settledIndexes = words
    }

    /// Whether an index of a fan-out is settled.
    func isSettled(_ index: Int32, of record: RecordSlot) -> Bool {
        records[record].settledIndexes.map { $0[Int(index / 64)] >> UInt64(index % 64) & 1 == 1 } ?? false
    }

    /// Of a fan-out, this index is settled.
    mutating func noteSettled(_ index: Int32, of record: RecordSlot) {
        guard let words = records[record].settledIndexes else { return }
        words[Int(index / 64)] |= 1 << UInt64(index % 64)
        records[record].hasSettledIndexes = true
    }

    /// The settled indexes of a fan-out, as bits; `nil` if none is settled.
    func settledIndexes(of record: RecordSlot) -> UnsafeBufferPointer<UInt64>? {
        guard records[record].hasSettledIndexes, let words = records[record].settledIndexes else { return nil }
        return UnsafeBufferPointer(start: words, count: records[record].indexWordCount)
    }

    // MARK: Tokens

    /// Gives a notification a copy of its token.
    mutating func copyToken(_ token: UnsafeRawBufferPointer, for slot: NotificationSlot) {
        guard let source = token.baseAddress, token.count > 0 else { return }
        let block = blocks.take(token.count)
        block.copyMemory(from: source, byteCount: token.count)
        notifications[slot].tokenBlockSize = Int16(token.count)
        notifications[slot].token = UnsafeRawBufferPointer(start: block, count: token.count)
        budget.add(
            bytes: BlockStore.rounded(token.count), group: Int(self[recordOf: slot].group),
            app: Int(notifications[slot].app))
    }

    /// Bytes of the block of its own that holds the token.
    func tokenBytes(_ slot: NotificationSlot) -> Int {
        let size = Int(notifications[slot].tokenBlockSize)
        return size > 0 ? BlockStore.rounded(size) : 0
    }
}

/// Copies bytes into a block, one after the other.
private struct BlockWriter {
    var next: UnsafeMutableRawPointer

    /// A `nil` base address stays one.
    mutating func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard let source = bytes.baseAddress else { return UnsafeRawBufferPointer.nothing }
        next.copyMemory(from: source, byteCount: bytes.count)
        defer { next += bytes.count }
        return UnsafeRawBufferPointer(start: next, count: bytes.count)
    }
}
