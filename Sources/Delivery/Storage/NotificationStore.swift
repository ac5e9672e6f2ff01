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
    /// Holds a token while it is read.
    private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 8)

    /// - Parameter idleLimit: bytes of blocks that are kept for what comes.
    init(idleLimit: Int) { blocks = BlockStore(idleLimit: idleLimit) }

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

    /// A notification comes into another state: the one place where that happens. Lists and counts are the caller's
    /// matter. A debug build looks whether it may (`Notification.State.mayBecome`).
    @inline(__always)
    mutating func move(_ slot: NotificationSlot, to state: Notification.State) { notifications[slot].move(to: state) }

    /// A slot of its own for one notification of a record, of which that counts one more.
    mutating func take(of record: RecordSlot, index: Int32, app: Int32) -> NotificationSlot {
        let slot = notifications.take()
        notifications[slot] = Notification(generation: notifications[slot].generation &+ 1)
        notifications[slot].move(to: .admitted)
        notifications[slot].record = record
        notifications[slot].index = index
        notifications[slot].app = app
        records[record].unsettled += 1
        return slot
    }

    /// The record counts one less.
    mutating func giveBack(_ slot: NotificationSlot) {
        let record = notifications[slot].record
        records[record].unsettled -= 1
        if notifications[slot].tries.past == .inDoubt { records[record].doubts -= 1 }
        notifications[slot].move(to: .free)
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

    /// The record's place, for whoever dies at it: lent as long as its body is there.
    func place(of record: RecordSlot) -> UnsafePointer<CrashPlace>? { records[record].body.map { $0.place } }

    /// Whether it is to be sent now or never: its expiration is 0.
    func isNowOrNever(_ slot: NotificationSlot) -> Bool { self[recordOf: slot].body?.pointee.expiration == 0 }

    /// When it is to be sent, by the wall clock, or 0 for at once.
    func notBeforeMs(_ slot: NotificationSlot) -> Int64 { self[recordOf: slot].body?.pointee.notBeforeMs ?? 0 }

    /// Copies what is needed of a request into one block, the body of its record.
    ///
    /// - Parameters:
    ///   - firstMs: timestamp of the original record.
    ///   - isExpired: it is too old to be sent.
    ///   - inheritedDoubtEnd: indexes below it may have been sent by the owner before.
    /// - Returns: the bytes that it takes.
    mutating func makeBody(
        of record: RecordSlot, _ request: ParsedRequest, read origin: RecordOrigin, firstMs: Int64, isExpired: Bool,
        inheritedDoubtEnd: Int32
    ) -> Int {
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
        var writer = BlockWriter(next: block + MemoryLayout<RecordBody>.stride + headersSize)
        let headers = (block + MemoryLayout<RecordBody>.stride).bindMemory(
            to: RecordHeader.self, capacity: request.copiedHeaders.count)
        for (index, header) in request.copiedHeaders.enumerated() {
            let copy = RecordHeader(name: writer.copy(header.name), value: writer.copy(header.value))
            (headers + index).initialize(to: copy)
        }

        let body = block.bindMemory(to: RecordBody.self, capacity: 1)
        var place = RequestPlace(
            topic: origin.topic, partition: origin.place.partition, offset: origin.place.offset, index: 0)
        if let retry = request.retry {
            place = retry.request
            place.topic = writer.copy(originalTopic)
        }
        body.initialize(
            to: RecordBody(
                place: origin.place, blockSize: size, payload: writer.copy(payload),
                headers: request.headers.copied(to: &writer.next), key: writer.copy(request.key),
                tokens: writer.copy(token), isList: isList, tokenFailure: tokenFailure,
                copiedHeaders: UnsafeBufferPointer(start: headers, count: request.copiedHeaders.count),
                isBroadcast: isBroadcast, app: -1, firstApp: -1, isInvalid: request.isInvalid, isExpired: isExpired,
                failureReason: request.failureReason, detail: Detail(request.detail.text, writer.copy(subject)),
                request: place, firstMs: firstMs, sends: request.retry?.sends ?? 0,
                inDoubt: request.retry?.inDoubt ?? 0, inheritedDoubtEnd: inheritedDoubtEnd,
                attempt: request.retry?.attempt ?? 0, tierDelayMs: origin.tierDelayMs, topicHash: origin.topicHash,
                notBefore: request.notBefore))
        precondition(writer.next == block + size, "a block has room for what is copied into it")
        records[record].body = body
        return BlockStore.rounded(size)
    }

    /// Counts one less that needs the record's body. Returns the bytes that became free with it, and its app.
    mutating func releaseBody(_ record: RecordSlot) -> (bytes: Int, app: Int)? {
        guard let body = records[record].body else { return nil }
        records[record].holders -= 1
        guard records[record].holders == 0 else { return nil }
        let size = body.pointee.blockSize
        let app = Int(body.pointee.app)
        records[record].body = nil
        blocks.giveBack(UnsafeMutableRawPointer(body), size: size)
        return (BlockStore.rounded(size), app)
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

    /// Gives a notification a copy of its token, and returns the bytes that it takes.
    mutating func copyToken(_ token: UnsafeRawBufferPointer, for slot: NotificationSlot) -> Int {
        guard let source = token.baseAddress, token.count > 0 else { return 0 }
        let block = blocks.take(token.count)
        block.copyMemory(from: source, byteCount: token.count)
        notifications[slot].tokenBlockSize = Int16(token.count)
        notifications[slot].token = UnsafeRawBufferPointer(start: block, count: token.count)
        return BlockStore.rounded(token.count)
    }

    /// Bytes of the block of its own that holds the token.
    func tokenBytes(_ slot: NotificationSlot) -> Int {
        let size = Int(notifications[slot].tokenBlockSize)
        return size > 0 ? BlockStore.rounded(size) : 0
    }

    /// The token is needed no more; returns the bytes that became free.
    mutating func releaseToken(_ slot: NotificationSlot) -> Int {
        var bytes = 0
        if notifications[slot].tokenBlockSize > 0, let token = notifications[slot].token.baseAddress {
            let size = Int(notifications[slot].tokenBlockSize)
            blocks.giveBack(UnsafeMutableRawPointer(mutating: token), size: size)
            bytes = BlockStore.rounded(size)
            notifications[slot].tokenBlockSize = 0
        }
        notifications[slot].token = UnsafeRawBufferPointer(start: nil, count: 0)
        return bytes
    }
}

/// Where a record was read.
struct RecordOrigin {
    /// For whoever dies at it.
    var place: CrashPlace
    var topic: UnsafeRawBufferPointer
    var topicHash: UInt64
    /// Delay of its tier, or 0 for a request topic.
    var tierDelayMs: Int64
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
