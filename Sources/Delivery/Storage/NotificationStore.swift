internal import CLinux
import PushRecords

/// The open notifications, their records, and their bytes. All parts of the machine share the store.
///
/// Notifications and records are identified by slots of different types: `store[slot]` returns a notification or a
/// record, depending on the slot's type. No other type stores pointers to notifications or records.
struct NotificationStore: ~Copyable {
    private let inPlace = InPlace()
    private var notifications = Slab(empty: Notification())
    private(set) var records = Slab(empty: Record())
    private var blocks: BlockStore
    /// The limits of open notifications and bytes, and their use.
    var budget: AdmissionBudget
    /// The bytes that notifications use in addition to blocks (`takeBytes`).
    private(set) var countedBytes = 0
    /// The buffer for a token while the token is parsed.
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

    /// All slots of notifications, including unused ones.
    var slots: SlotWalk<Notification> { SlotWalk(count: notifications.capacity) }
    /// All slots of records, including unused ones.
    var recordSlots: SlotWalk<Record> { SlotWalk(count: records.capacity) }
    /// The number of open notifications.
    var count: Int { notifications.count }
    /// The size of all blocks in use.
    var blockBytes: Int { blocks.openBytes }

    /// Returns whether the slot exists. An id from another module may contain a slot that does not exist.
    func has(_ slot: NotificationSlot) -> Bool { Int(slot.number) < notifications.capacity }

    /// Returns the id of the notification in this slot.
    @inline(__always)
    func id(of slot: NotificationSlot) -> NotificationID {
        NotificationID(slot: slot, generation: self[slot].generation)
    }

    /// Returns whether the id is the current one of its slot, and the notification is concluded.
    func isCurrent(_ id: NotificationID) -> Bool {
        self[id.slot].generation == id.generation && self[id.slot].state.isConcluded
    }

    /// Adds a notification of a record, and returns its slot.
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

    /// Frees the slot of a notification.
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

    /// Notes that a send of this notification is in doubt. The record counts each notification once.
    mutating func doubt(_ slot: NotificationSlot) {
        guard notifications[slot].tries.past != .inDoubt else { return }
        notifications[slot].tries.past = .inDoubt
        records[notifications[slot].record].doubts += 1
    }

    /// Moves a notification and its bytes to another app.
    mutating func move(_ slot: NotificationSlot, toApp app: Int) {
        let size = Int(notifications[slot].countedBytes) + Int(notifications[slot].tokenBlockSize)
        budget.move(size, from: Int(notifications[slot].app), to: app)
        notifications[slot].app = Int32(app)
    }

    /// Counts bytes that a notification uses, or will produce, in addition to its record's block and its token's block:
    /// the repeated part of its result, the payload of its retry record, the bytes of a dead letter, or texts of its
    /// answer. They are released with the notification, because the producer retains them until the acknowledgement.
    ///
    /// The memory in use is therefore bounded by the sum of these parts:
    /// - `maxOpenBytes`,
    /// - one record of each partition, which may be read while the use is just below that limit,
    /// - a fixed size per notification (its slot, and `RecordLimits.result` at most).
    ///
    /// Each retained byte of a record is counted in the record's block. Each token of a list also counts its copy
    /// (`BlockStore.rounded`) and the repeated part of its result, and a retry record counts the payload again.
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
        precondition(records[record].body == nil, "The body of a record must be freed before its slot")
        records[record].settledIndexes?.deallocate()
        records[record] = Record()
        records.giveBack(record)
    }

    // MARK: Bodies

    func hasBody(_ record: RecordSlot) -> Bool { records[record].body != nil }

    /// The values that the notifications of a record share. Valid only while `hasBody` is true.
    subscript(bodyOf record: RecordSlot) -> Record.Body {
        @inline(__always) unsafeAddress { UnsafePointer(records[record].body.unsafelyUnwrapped) }
        @inline(__always) unsafeMutableAddress { records[record].body.unsafelyUnwrapped }
    }

    /// Returns the record's topic, partition and offset for crash reports, valid while `hasBody` is true.
    func place(of record: RecordSlot) -> UnsafePointer<CrashPlace>? {
        records[record].body.map { UnsafeRawPointer($0).assumingMemoryBound(to: CrashPlace.self) }
    }

    /// Stores the topic, partition and offset of a notification's record for crash reports, before an output record is
    /// produced.
    func enterPlace(of id: NotificationID) {
        precondition(isCurrent(id), "The notification must be concluded before its records are produced")
        guard let place = place(of: self[id.slot].record) else {
            preconditionFailure("A notification must have its bytes until its records are produced")
        }
        crash_at(place)
    }

    /// Returns whether the notification has expiration 0, so that it must not wait.
    func isNowOrNever(_ slot: NotificationSlot) -> Bool { self[recordOf: slot].body?.pointee.headers.expiration == 0 }

    /// Returns the scheduled time of the notification by the wall clock, or 0 if it is not scheduled.
    func notBeforeMs(_ slot: NotificationSlot) -> Int64 { self[recordOf: slot].body?.pointee.notBeforeMs ?? 0 }

    /// Returns whether the notification may wait in a retry tier. A notification with expiration 0 may not, unless its
    /// scheduled time is in the future.
    func mayBeDeferred(_ slot: NotificationSlot, nowMs: Int64) -> Bool {
        !isNowOrNever(slot) || notBeforeMs(slot) > nowMs
    }

    /// Returns whether more than `limitMs` have passed since the original request's timestamp, or since the scheduled
    /// time if that is later. If the request has no timestamp, the time counts from when the record was received.
    func isLate(_ record: RecordSlot, limitMs: Int64, now: DeliveryTime) -> Bool {
        let startMs = RecordTime.start(self[bodyOf: record].firstMs, notBefore: self[bodyOf: record].notBefore)
        if startMs != RecordTime.unknown { return RecordTime.age(of: startMs, nowMs: now.wallMs) > limitMs }
        return now.ns - records[record].receivedNs > limitMs * 1_000_000
    }

    /// Returns whether the record's expiration has passed at the time `now`. With expiration 0, a notification may be
    /// sent for 30 s after the request's timestamp, or after its scheduled time if that is later.
    @inline(__always)
    func isPastExpiration(_ record: RecordSlot, now: DeliveryTime) -> Bool {
        guard let expiration = self[bodyOf: record].headers.expiration else { return false }
        return expiration == 0
            ? isLate(record, limitMs: 30_000, now: now) : now.wallMs >= Int64(expiration) * 1_000
    }

    /// Copies the required parts of a request into one block, the body of its record.
    ///
    /// - Parameters:
    ///   - firstMs: The timestamp of the original request.
    ///   - app: The index of the request's app, or -1 if no app is known.
    ///   - defaultTopic: The topic for a request that names no topic.
    @inline(__always)
    mutating func makeBody(
        of record: RecordSlot, _ request: ParsedRequest, in partition: borrowing Partition, firstMs: Int64,
        app: Int32, defaultTopic: UnsafeRawBufferPointer
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
            preconditionFailure("A request with a body must have a device token, a list of tokens or a channel id")
        }
        // The payload of a rejected request is not copied, because it is never sent and may be large.
        let payload = request.isInvalid ? UnsafeRawBufferPointer.nothing : request.payload
        let subject = UnsafeRawBufferPointer(
            start: request.detail.subject.baseAddress, count: min(request.detail.subject.count, Detail.subjectLimit))
        let originalTopic = request.retry?.request.topic ?? UnsafeRawBufferPointer.nothing
        let headersSize = request.copiedHeaders.count * MemoryLayout<RecordHeader>.stride
        var copiedBytes = 0
        for header in request.copiedHeaders { copiedBytes += header.name.count + header.value.count }
        var size = MemoryLayout<Record.Body>.stride + headersSize + token.count + payload.count + copiedBytes
        size += request.headers.byteCount + request.key.count
        size += subject.count + originalTopic.count

        let block = blocks.take(size)
        var next = block + MemoryLayout<Record.Body>.stride + headersSize
        let copy = ParsedRequest.Headers.copy
        let headers = (block + MemoryLayout<Record.Body>.stride).bindMemory(
            to: RecordHeader.self, capacity: request.copiedHeaders.count)
        for (index, header) in request.copiedHeaders.enumerated() {
            (headers + index).initialize(
                to: RecordHeader(name: copy(header.name, &next), value: copy(header.value, &next)))
        }

        let body = block.bindMemory(to: Record.Body.self, capacity: 1)
        var origin = partition.place
        origin.offset = records[record].offset
        var place = RequestPlace(
            topic: partition.topic, partition: partition.number, offset: origin.offset, index: 0)
        if let retry = request.retry {
            place = retry.request
            place.topic = copy(originalTopic, &next)
        }
        body.initialize(
            to: Record.Body(
                place: origin, blockSize: BlockStore.rounded(size), payload: copy(payload, &next),
                headers: request.headers.copied(to: &next), key: copy(request.key, &next),
                tokens: copy(token, &next), isList: isList, tokenFailure: tokenFailure,
                copiedHeaders: UnsafeBufferPointer(start: headers, count: request.copiedHeaders.count),
                isBroadcast: isBroadcast, app: app, isInvalid: request.isInvalid,
                failureReason: request.failureReason, detail: Detail(request.detail.text, copy(subject, &next)),
                request: place, firstMs: firstMs, sends: request.retry?.sends ?? 0,
                inDoubt: request.retry?.inDoubt ?? 0, attempt: request.retry?.attempt ?? 0,
                tierDelayMs: partition.tierDelayMs, topicHash: partition.topicHash, notBefore: request.notBefore))
        precondition(next == block + size, "The copied parts of a request must fill its block exactly")
        if request.headers.topic.isEmpty, app >= 0 { body.pointee.headers.topic = defaultTopic }
        let repeated = min(request.key.count, RecordLimits.key) + body.pointee.headers.topic.count + copiedBytes
        body.pointee.repeatedBytes = Int32(clamping: max(0, repeated - Record.Body.fixedResultBytes))
        records[record].body = body
        budget.addRecord(body.pointee.blockSize, group: Int(records[record].group), app: Int(app))
    }

    /// Frees a token's separate block, and releases one reference to the record's body.
    mutating func releaseBytes(_ slot: NotificationSlot) {
        if notifications[slot].tokenBlockSize > 0, let token = notifications[slot].token.baseAddress {
            let size = Int(notifications[slot].tokenBlockSize)
            blocks.giveBack(UnsafeMutableRawPointer(mutating: token), size: size)
            notifications[slot].tokenBlockSize = 0
            budget.add(
                bytes: -size, group: Int(self[recordOf: slot].group), app: Int(notifications[slot].app))
        }
        notifications[slot].token = UnsafeRawBufferPointer.nothing
        releaseBody(notifications[slot].record)
    }

    /// Releases one reference to the record's body, and frees the body when no reference is left.
    mutating func releaseBody(_ record: RecordSlot) {
        guard let body = records[record].body else { return }
        records[record].holders -= 1
        guard records[record].holders == 0 else { return }
        let size = body.pointee.blockSize
        budget.add(bytes: -size, group: Int(records[record].group), app: Int(body.pointee.app))
        records[record].body = nil
        blocks.giveBack(UnsafeMutableRawPointer(body), size: size)
    }

    // MARK: Fan-outs

    /// Returns the next token of a record's list, valid until the next call, and the reason if the token is invalid.
    mutating func nextToken(of record: RecordSlot) -> (token: UnsafeRawBufferPointer, failure: ReasonCode) {
        guard let next = records[record].cursor.next(in: self[bodyOf: record].tokens, into: scratch) else {
            preconditionFailure("A list must contain as many tokens as the parser counted")
        }
        return (UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(scratch)[..<next.count]), next.failure)
    }

    /// Begins to track the settled indexes of a record, if it has several notifications.
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

    /// Returns whether an index of a fan-out is settled.
    func isSettled(_ index: Int32, of record: RecordSlot) -> Bool {
        records[record].settledIndexes.map { $0[Int(index / 64)] >> UInt64(index % 64) & 1 == 1 } ?? false
    }

    /// Marks an index of a fan-out as settled.
    mutating func noteSettled(_ index: Int32, of record: RecordSlot) {
        guard let words = records[record].settledIndexes else { return }
        words[Int(index / 64)] |= 1 << UInt64(index % 64)
        records[record].hasSettledIndexes = true
    }

    /// Returns the settled indexes of a fan-out as bits, or `nil` if none is settled.
    func settledIndexes(of record: RecordSlot) -> UnsafeBufferPointer<UInt64>? {
        guard records[record].hasSettledIndexes, let words = records[record].settledIndexes else { return nil }
        return UnsafeBufferPointer(start: words, count: records[record].indexWordCount)
    }

    // MARK: Tokens

    /// Copies a token into a separate block of its notification.
    mutating func copyToken(_ token: UnsafeRawBufferPointer, for slot: NotificationSlot) {
        guard let source = token.baseAddress, token.count > 0 else { return }
        let size = BlockStore.rounded(token.count)
        let block = blocks.take(size)
        block.copyMemory(from: source, byteCount: token.count)
        notifications[slot].tokenBlockSize = Int16(size)
        notifications[slot].token = UnsafeRawBufferPointer(start: block, count: token.count)
        budget.add(bytes: size, group: Int(self[recordOf: slot].group), app: Int(notifications[slot].app))
    }
}
