internal import Kafka

/// A topic that the worker writes to: whether it can be written, and what it refused. Decides only; no clock, no I/O.
///
/// 1. A topic that refuses a record is closed and named. Nothing new goes to it, and what it refused is tried alone,
///    one record at a time with growing pauses. Where the refusal may be a record's own fault, all that came back are
///    first tried once, at once. When the topic takes one, the others follow in order, and then new records.
/// 2. A record that is too large closes nothing. It is tried alone, then in its one reduced form.
/// 3. A record that is refused alone although the topic took others is kept apart. It closes nothing, and is tried
///    again with growing pauses of its own. After `ownRefusals` it is given up, and the publisher writes a dead letter.
///
/// A record alone that has no report for `silentNs` says nothing of the topic: its partition may have no leader. The
/// next one is tried beside it. As long as the topic is not open, records of one key keep their order; behind that, a
/// new record may overtake a silent one, or one that is kept apart.
struct TargetTopic {
    /// How a record is written.
    enum Form: Int, Comparable {
        /// Among others: a batch may be refused as too large because of another record.
        case together
        case alone
        case reduced

        static func < (left: Form, right: Form) -> Bool { left.rawValue < right.rawValue }
    }

    struct Refused {
        fileprivate(set) var record: UndeliveredRecord
        /// The order in which records came back, which is that of their production.
        fileprivate let order: UInt64
        fileprivate(set) var form: Form
        /// The topic has not refused it yet: it is only tried in the topic's time.
        fileprivate var isNew: Bool
        /// How often it was refused alone for what may be its own fault, and how often others were taken in between.
        fileprivate var refusals = 0
        fileprivate var ownRefusals = 0
        fileprivate var isApart = false
        /// How many records the topic had taken when it was refused last.
        fileprivate var takenThen: UInt64
        fileprivate var code = KafkaCode.none
        fileprivate var sinceNs: Int64 = 0
        fileprivate var nextTryNs: Int64 = 0
        /// It was written while the topic was closed.
        fileprivate var isProbe = false
    }

    private enum Source {
        case queue, tried
        case apart(Int)
    }

    let name: String
    /// Why the topic is closed; `nil` otherwise.
    private var closure: (code: KafkaCode, sinceNs: Int64, nextTryNs: Int64)?
    /// The topic took a record after it was closed. What it refused goes before anything new.
    private var isReturning = false
    private var queue = RefusedQueue()
    /// Refused alone since the topic was closed, in the order of their next try.
    private var tried: [Refused] = []
    private var apart: [Refused] = []
    /// Written alone, without a report, by their tags; and those of them that are not silent, with the time of writing.
    private var underWay: [UInt64: Refused] = [:]
    private var underWayBytes = 0
    private var awaited: [UInt64: Int64] = [:]
    /// What `next` offered, and when.
    private var offered: Source?
    private var offeredNs: Int64 = 0
    /// Records that the topic took while it had something refused.
    private var takenCount: UInt64 = 0
    private var lastOrder: UInt64 = 0
    private var pauseNs = Self.leastPauseNs
    private var isFull = false
    private(set) var refusedBytes = 0
    /// Records that were too large for it even alone.
    private(set) var tooLargeCount = 0
    /// Records that it refused for themselves.
    private(set) var rejectedCount = 0

    static let leastPauseNs: Int64 = 1_000_000_000
    static let longestPauseNs: Int64 = 30_000_000_000
    /// Above either of them nothing new is written before what was refused is.
    static let refusedLimit = 1_000
    static let refusedBytesLimit = 8 << 20
    /// Records alone that are waited for at once.
    static let awaitedLimit = 64
    static let silentNs: Int64 = 2_000_000_000

    init(_ name: String) { self.name = name }

    /// Whether new records may be written among others.
    var isClear: Bool { closure == nil && !isReturning && !isFull }

    /// Whether a new record may be handed over. A closed topic takes one, too, when it has refused all others for what
    /// may be their own fault: the new one may show that the topic works.
    var isOpen: Bool {
        if isFull || isReturning { return false }
        guard let closure else { return true }
        return closure.code.fault != .topic && queue.isEmpty && awaited.isEmpty && !tried.isEmpty
    }

    /// Why it is closed, and since when (monotonic).
    var cause: (code: KafkaCode, sinceNs: Int64)? { closure.map { ($0.code, $0.sinceNs) } }

    /// Why it refuses single records, and since when (monotonic).
    var causeOfSingle: (code: KafkaCode, sinceNs: Int64)? {
        (apart.first ?? underWay.values.first(where: \.isApart)).map { ($0.code, $0.sinceNs) }
    }

    var refusedCount: Int { queue.count + tried.count + apart.count }
    /// Whether a record alone has no report yet.
    var awaitsReport: Bool { !underWay.isEmpty }
    var isIdle: Bool { refusedCount == 0 && underWay.isEmpty }

    private var hasRoom: Bool {
        awaited.count < Self.awaitedLimit && underWay.count < Self.refusedLimit
            && underWayBytes < Self.refusedBytesLimit
    }

    /// Whether the head of the queue is tried without a pause, to show whether the refusal is its own.
    private var triesAtOnce: Bool {
        guard let closure, closure.code.fault != .topic, let first = queue.first else { return false }
        return !first.isNew
    }

    /// When `next` is to be asked again without any report (monotonic); `nil` when only a report changes something.
    var nextTryNs: Int64? {
        let silentNs = awaited.values.min().map { $0 + Self.silentNs }
        if let closure {
            if let silentNs { return silentNs }
            guard hasRoom, !queue.isEmpty || !tried.isEmpty else { return nil }
            return triesAtOnce ? min(offeredNs, closure.nextTryNs) : closure.nextTryNs
        }
        if isReturning { return silentNs }
        if hasRoom { return apart.map(\.nextTryNs).min() }
        return refusedCount > 0 ? silentNs : nil
    }

    // MARK: Refusals

    /// A record was refused among others, or is to wait behind those that were.
    ///
    /// - Parameter isNew: the topic has not refused it; the topic is tried with it.
    mutating func take(_ record: UndeliveredRecord, _ form: Form, isNew: Bool = false) {
        lastOrder += 1
        put(Refused(record: record, order: lastOrder, form: form, isNew: isNew, takenThen: takenCount))
        lookWhetherFull()
    }

    /// The topic refused records among others.
    mutating func block(_ code: KafkaCode, nowNs: Int64) {
        if closure == nil {
            close(code, nowNs)
        } else if awaited.isEmpty {
            closure?.code = code
        }
    }

    private mutating func close(_ code: KafkaCode, _ nowNs: Int64) {
        pauseNs = Self.leastPauseNs
        closure = (code, sinceNs: nowNs, nextTryNs: nowNs + pauseNs)
        isReturning = false
    }

    /// A record alone was too large for the topic. Returns true for the first one.
    mutating func noteTooLarge(_ form: Form) -> Bool {
        guard form == .alone else { return false }
        tooLargeCount += 1
        return tooLargeCount == 1
    }

    /// How the record with this tag was written alone; `nil` if it was not.
    func form(of tag: UInt64) -> Form? { underWay[tag]?.form }

    /// The topic took a record, alone or among others.
    mutating func noteTaken() { if !isIdle { takenCount += 1 } }

    /// A record alone was written.
    mutating func written(_ tag: UInt64) {
        guard arrived(tag) != nil else { return }
        if closure != nil {
            closure = nil
            isReturning = true
            // The topic took another after it refused these. Those that are due go with the others, in order.
            let refused = tried
            tried = []
            refused.forEach { refusedBytes -= $0.record.byteCount }
            for var each in refused.sorted(by: { $0.order > $1.order }) {
                each.isApart = each.nextTryNs > offeredNs
                put(each)
            }
        }
        settle()
    }

    /// A record alone was refused.
    ///
    /// - Parameters:
    ///   - partition: the partition that refused it; negative if no broker was asked.
    ///   - isLast: nothing can be written in its place.
    /// - Returns: whether it is given up for its own fault; `reduced` or `handedOn` follows. Otherwise it is tried
    ///   again.
    @discardableResult
    mutating func refused(
        _ record: UndeliveredRecord, _ code: KafkaCode, partition: Int32, isLast: Bool = false, nowNs: Int64
    ) -> Bool {
        guard var refused = underWay[record.tag] else { return false }
        let mayBeItsOwn = code.fault != .topic && partition >= 0
        if mayBeItsOwn {
            if takenCount > refused.takenThen {
                if refused.refusals > 0 { refused.ownRefusals += 1 }
                refused.isApart = true
            }
            if refused.ownRefusals >= code.ownRefusals, !isLast {
                if refused.form == .alone { rejectedCount += 1 }
                return true
            }
            refused.nextTryNs =
                nowNs + min(Self.leastPauseNs << min(refused.refusals, 8), Self.longestPauseNs)
            refused.refusals += 1
            refused.takenThen = takenCount
        }
        if refused.code == .none { refused.sinceNs = nowNs }
        refused.code = code
        refused.record = record
        refused.isNew = false
        _ = arrived(record.tag)
        if !mayBeItsOwn { refused.isApart = false }
        let wasClosed = closure != nil
        if !wasClosed, !refused.isApart { close(code, nowNs) }
        putBack(refused, code)
        if refused.isProbe, wasClosed {
            closure?.code = code
            if awaited.isEmpty, !triesAtOnce {
                pauseNs = min(2 * pauseNs, Self.longestPauseNs)
                closure?.nextTryNs = nowNs + pauseNs
            }
        }
        settle()
        return false
    }

    /// A record alone was dropped by the producer, which was made anew: it is written again.
    mutating func dropped(_ record: UndeliveredRecord) {
        guard var refused = arrived(record.tag) else { return }
        refused.record = record
        refused.isApart = false
        put(refused)
    }

    /// A record alone was refused for its own fault, and is written in its reduced form.
    mutating func reduced(to smaller: UndeliveredRecord) {
        guard let before = arrived(smaller.tag) else { return }
        var refused = Refused(record: smaller, order: before.order, form: .reduced, isNew: false, takenThen: takenCount)
        refused.isApart = before.isApart
        refused.code = before.code
        refused.sinceNs = before.sinceNs
        put(refused)
    }

    /// Another topic takes what a record alone says.
    mutating func handedOn(_ tag: UInt64) {
        _ = arrived(tag)
        settle()
    }

    private mutating func put(_ refused: Refused) {
        refusedBytes += refused.record.byteCount
        if refused.isApart { apart.append(refused) } else { queue.insert(refused) }
    }

    /// What may be at fault itself is not tried again at once.
    private mutating func putBack(_ refused: Refused, _ code: KafkaCode) {
        guard code.fault != .topic, !refused.isApart else { return put(refused) }
        refusedBytes += refused.record.byteCount
        tried.append(refused)
    }

    private mutating func arrived(_ tag: UInt64) -> Refused? {
        awaited[tag] = nil
        guard let refused = underWay.removeValue(forKey: tag) else { return nil }
        underWayBytes -= refused.record.byteCount
        return refused
    }

    // MARK: Writing

    /// The next record to be written now, and whether alone; `nil` for none, or not yet. The same one until `wrote` or
    /// `couldNotWrite`.
    mutating func next(nowNs: Int64) -> (refused: Refused, isSingle: Bool)? {
        if awaited.values.contains(where: { nowNs - $0 >= Self.silentNs }) {
            awaited = awaited.filter { nowNs - $0.value < Self.silentNs }
            settle()
        }
        offered = nil
        offeredNs = nowNs
        let first = queue.first
        if let closure {
            let isDue = nowNs >= closure.nextTryNs && awaited.isEmpty
            guard hasRoom, triesAtOnce || isDue, let refused = first ?? tried.first else { return nil }
            offered = first == nil ? .tried : .queue
            return (refused, true)
        }
        if let first {
            let isSingle = isReturning || first.form != .together
            guard hasRoom || !isSingle else { return nil }
            offered = .queue
            return (first, isSingle)
        }
        guard !isReturning, hasRoom,
            let index = apart.indices.min(by: { apart[$0].nextTryNs < apart[$1].nextTryNs }),
            apart[index].nextTryNs <= nowNs
        else { return nil }
        offered = .apart(index)
        return (apart[index], true)
    }

    /// A producer took what `next` offered.
    mutating func wrote(isSingle: Bool) {
        guard var refused = takeOffered() else { return }
        if isSingle {
            refused.form = max(refused.form, .alone)
            refused.isProbe = closure != nil
            underWay[refused.record.tag] = refused
            underWayBytes += refused.record.byteCount
            awaited[refused.record.tag] = offeredNs
        }
        settle()
    }

    /// A producer refused at once what `next` offered, for a reason that is not the record's.
    mutating func couldNotWrite(_ code: KafkaCode, nowNs: Int64) {
        if var refused = takeOffered() {
            refused.isApart = false
            putBack(refused, code)
        }
        guard let sinceNs = closure?.sinceNs else { return close(code, nowNs) }
        pauseNs = min(2 * pauseNs, Self.longestPauseNs)
        closure = (code, sinceNs, nextTryNs: nowNs + pauseNs)
    }

    private mutating func takeOffered() -> Refused? {
        defer { offered = nil }
        let refused: Refused
        switch offered {
        case .queue: refused = queue.removeFirst()
        case .tried: refused = tried.removeFirst()
        case .apart(let index): refused = apart.remove(at: index)
        case nil: return nil
        }
        refusedBytes -= refused.record.byteCount
        return refused
    }

    private mutating func lookWhetherFull() {
        if refusedCount >= Self.refusedLimit || refusedBytes >= Self.refusedBytesLimit { isFull = true }
    }

    /// Opens the topic once nothing is left that it refused. Silent records are not waited for.
    private mutating func settle() {
        guard queue.isEmpty, tried.isEmpty else { return }
        if awaited.isEmpty {
            closure = nil
            isReturning = false
        }
        isFull = false
        lookWhetherFull()
    }
}

/// Refused records in the order of their production, cheap at both ends.
private struct RefusedQueue {
    /// The first ones, last first, and the others.
    private var front: [TargetTopic.Refused] = []
    private var back: [TargetTopic.Refused] = []

    var count: Int { front.count + back.count }
    var isEmpty: Bool { front.isEmpty && back.isEmpty }
    var first: TargetTopic.Refused? { front.last ?? back.first }

    mutating func insert(_ refused: TargetTopic.Refused) {
        if let last = front.first, refused.order < last.order {
            front.insert(refused, at: (front.lastIndex { $0.order > refused.order } ?? -1) + 1)
        } else {
            back.insert(refused, at: (back.lastIndex { $0.order < refused.order } ?? -1) + 1)
        }
    }

    mutating func removeFirst() -> TargetTopic.Refused {
        if front.isEmpty {
            front = back.reversed()
            back = []
        }
        return front.removeLast()
    }
}

extension KafkaCode {
    /// What a refusal may be due to.
    enum Fault {
        case topic, record
        /// A leader in trouble answers so to some and takes others.
        case unclear
    }

    var fault: Fault {
        switch self {
        case .invalidRecord, .batchWithInvalidRecord, .messageTooLarge, .policyViolation: .record
        // The client's own: no broker has seen the record.
        case _ where rawValue < -1: .topic
        // A record is given its time anew with each try.
        case .topicAuthorizationFailed, .clusterAuthorizationFailed, .invalidTopic, .unsupportedForMessageFormat,
            .invalidTimestamp, .requestTimedOut:
            .topic
        case _ where isUnknownTopic: .topic
        default: .unclear
        }
    }

    /// How often a record is refused alone, each time after the topic took others, before it is given up. For an
    /// unclear fault that takes some eight minutes, since the record may be deliverable.
    var ownRefusals: Int { fault == .record ? 2 : 20 }
}
