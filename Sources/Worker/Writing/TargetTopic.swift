internal import Kafka

/// A topic that the worker writes to: whether it can be written, and what it refused. Decides only; no clock, no I/O.
///
/// A topic that refuses records is blocked: nothing more goes to it but refused records by themselves, until one is
/// taken; then all of them go. Where the refusal may be a record's own, all that came back among others are tried once,
/// at once: the bad ones show themselves, however many they are. Else, and after that, one is tried at a time, each in
/// its turn, with a growing pause. A record that is only too large blocks nothing: it is tried alone, then in ever
/// smaller forms, each once.
///
/// A record that is refused while others are taken blocks nothing either: it stands apart, and is tried again with
/// growing pauses of its own. When others were taken between its refusals, `ownRefusals` times (`unclearRefusals`),
/// they are for its own sake, and it is written elsewhere. A topic that takes nothing is the topic's trouble, however
/// often it refuses.
///
/// A record by itself that has no report for `silentNs` says nothing of the topic: its partition may have no leader. It
/// is waited for no more, and the next is tried beside it, which may be of another partition. As long as the topic is
/// not writable, records of one key keep their order, since they go to one partition by one producer; behind that, what
/// is new may overtake a silent one, as it may one that stands apart.
struct TargetTopic {
    /// How a record is written; each form is tried once by a record that is too large.
    enum Form: Int, Comparable {
        /// Among others: a batch may be refused as too large for another's sake.
        case together
        case single
        case reduced
        /// The first bytes of what is not left out.
        case least
        /// What it cannot do without.
        case bare

        static func < (left: Form, right: Form) -> Bool { left.rawValue < right.rawValue }
    }

    /// What a record has behind it.
    struct History {
        var form: Form
        /// The order in which records came back, which is that of their production.
        let order: UInt64
        /// How often it was refused by itself, for a reason that may be its own.
        var refusals = 0
        /// Nothing refused it yet: a blocked topic is tried with it, in its time.
        var isNew = false
        /// How often others had been taken since the refusal before.
        var refusalsBesideOthers = 0
        /// Others were taken since it was refused first: it blocks nothing.
        var isApart = false
        /// What the topic had taken when it was refused last, and of this the partition that refused it.
        var takenThen: UInt64
        var partition: Int32 = -1
        var takenByPartitionThen: UInt64 = 0
        /// Why it was refused last; since when it is, and when it is tried again (monotonic).
        var code = KafkaCode.none
        var sinceNs: Int64 = 0
        var nextTryNs: Int64 = 0
        /// Of key, value and headers, while it is under way by itself.
        var bytes = 0
    }

    struct Refused {
        let record: UndeliveredRecord
        var history: History

        var form: Form { history.form }
    }

    /// Times are monotonic.
    enum State: Equatable {
        case writable
        case blocked(KafkaCode, sinceNs: Int64, nextTryNs: Int64)
        /// As `blocked`, with records under way by themselves.
        case probing(KafkaCode, sinceNs: Int64)
        /// A probe was taken: what was refused follows, by itself, before anything new.
        case returning
    }

    /// What `next` named.
    private enum Named {
        case queue(RefusedQueue.Index)
        case apart(RefusedQueue.Index)
    }

    let name: String
    private(set) var state = State.writable
    private var queue = RefusedQueue()
    /// Refused while others were taken.
    private var apart = RefusedQueue()
    /// Records by themselves that have no report yet, by their tags.
    private var underWay: [UInt64: History] = [:]
    private var underWayBytes = 0
    /// Records under way by themselves whose report is still waited for, and since when (monotonic), by their tags;
    /// silent ones are dropped from here.
    private var awaited: [UInt64: Int64] = [:]
    private var named: Named?
    /// When it was (monotonic).
    private var namedNs: Int64 = 0
    /// Counted while something is refused or under way by itself.
    private var taken = TakenRecords()
    private var lastOrder: UInt64 = 0
    private var pauseNs = Self.leastPauseNs
    private var isFull = false
    /// Records that were too large for it even by themselves, and were written smaller or elsewhere.
    private(set) var tooLargeCount = 0
    /// Records that it refused for their own sake, and that were written smaller or elsewhere.
    private(set) var rejectedCount = 0

    static let leastPauseNs: Int64 = 1_000_000_000
    static let longestPauseNs: Int64 = 30_000_000_000
    /// Above either of them nothing new is written before what was refused is, and nothing more by itself before some
    /// of it has its report.
    static let refusedLimit = 1_000
    static let refusedBytesLimit = 8 << 20
    /// Records by themselves that are under way at once, each in a request of its own; silent ones (`silentNs`) beside
    /// them.
    static let underWayLimit = 64
    /// A record by itself that has no report for so long is waited for no more.
    static let silentNs: Int64 = 2_000_000_000
    /// So many refusals, each after others were taken, are for the record's own sake.
    static let ownRefusals = 2
    /// As `ownRefusals`, where the code does not speak of records: some eight minutes. A leader in trouble answers so
    /// to some and takes others, and what is given up for that was deliverable.
    static let unclearRefusals = 20

    init(_ name: String) { self.name = name }

    /// Whether new records may be written among others.
    var isClear: Bool { state == .writable && !isFull }

    /// Whether a new record may be handed over: because the topic is clear, or because a blocked topic has only records
    /// left to try that it refused for their own sake, and a new one may show that it works.
    var isOpen: Bool { isClear || wantsProbe }

    private var wantsProbe: Bool {
        guard !isFull, case .blocked(let code, _, _) = state, code.blame != .topic else { return false }
        return queue.count > 0 && queue.untriedCount == 0
    }

    /// Why it is blocked, and since when (monotonic); `nil`: it is not.
    var cause: (code: KafkaCode, sinceNs: Int64)? {
        switch state {
        case .writable, .returning: nil
        case .blocked(let code, let sinceNs, _), .probing(let code, let sinceNs): (code, sinceNs)
        }
    }

    /// Why it refuses single records, and since when (monotonic); `nil`: none stands apart.
    var causeOfSingle: (code: KafkaCode, sinceNs: Int64)? {
        (apart.first?.history ?? underWay.values.first(where: \.isApart)).map { ($0.code, $0.sinceNs) }
    }

    var refusedCount: Int { queue.count + apart.count }
    var refusedBytes: Int { queue.bytes + apart.bytes }
    /// Whether a record by itself has no report yet.
    var awaitsReport: Bool { !underWay.isEmpty }
    var isIdle: Bool { queue.count == 0 && apart.count == 0 && underWay.isEmpty }
    /// Silent ones are waited for by nobody.
    private var isQueueDone: Bool { queue.count == 0 && awaited.isEmpty }
    /// Whether one more may be under way by itself, beside the silent ones.
    private var hasRoom: Bool {
        awaited.count < Self.underWayLimit && underWay.count < Self.refusedLimit
            && underWayBytes < Self.refusedBytesLimit
    }

    /// When `next` is to be asked again without any report (monotonic); `nil`: only a report changes something. A
    /// report is waited for first, but not for long.
    var nextTryNs: Int64? {
        let silentNs = awaited.values.min().map { $0 + Self.silentNs }
        switch state {
        case .blocked(_, _, let nextTryNs):
            if let silentNs { return silentNs }
            return queue.count > 0 && hasRoom ? nextTryNs : nil
        case .writable:
            if hasRoom { return apart.earliest?.history.nextTryNs }
            return refusedCount > 0 ? silentNs : nil
        case .probing, .returning: return silentNs
        }
    }

    // MARK: Refusals

    /// The topic refused a record for a reason that is not the record's.
    mutating func block(_ code: KafkaCode, nowNs: Int64) {
        switch state {
        case .writable, .returning:
            pauseNs = Self.leastPauseNs
            state = .blocked(code, sinceNs: nowNs, nextTryNs: mayShow(code) ? nowNs : nowNs + pauseNs)
        case .blocked(_, let sinceNs, let nextTryNs):
            state = .blocked(code, sinceNs: sinceNs, nextTryNs: mayShow(code) ? min(nowNs, nextTryNs) : nextTryNs)
        case .probing:
            // The answer to the probe is still to come.
            break
        }
    }

    /// Whether records that came back among others, and were not tried by themselves, may show that it is theirs.
    private func mayShow(_ code: KafkaCode) -> Bool { code.blame != .topic && queue.unshownCount > 0 }

    /// A record that was written among others comes back, or never left: it is written after those before it.
    ///
    /// - Parameter isNew: it never left, and the topic is to be tried with it.
    mutating func take(_ record: UndeliveredRecord, _ form: Form, isNew: Bool = false) {
        lastOrder += 1
        queue.insert(
            Refused(
                record: record, history: History(form: form, order: lastOrder, isNew: isNew, takenThen: taken.count)))
        lookWhetherFull()
    }

    /// A record in this form, by itself, was too large for the topic. True: it is the first of all.
    mutating func noteTooLarge(_ form: Form) -> Bool {
        // Smaller ones are of a record that was counted.
        guard form == .single else { return false }
        tooLargeCount += 1
        return tooLargeCount == 1
    }

    /// How a record under this tag was written by itself; `nil`: it was not.
    func form(of tag: UInt64) -> Form? { underWay[tag]?.form }

    /// The topic took a record into this partition, by itself or among others.
    mutating func noteTaken(partition: Int32) { if !isIdle { taken.note(partition) } }

    /// A record by itself was written.
    mutating func written(_ tag: UInt64) {
        guard arrived(tag) != nil else { return }
        if state != .writable { state = .returning }
        settle()
    }

    /// A record by itself has its report, or goes on in another form.
    private mutating func arrived(_ tag: UInt64) -> History? {
        awaited[tag] = nil
        guard let history = underWay.removeValue(forKey: tag) else { return nil }
        underWayBytes -= history.bytes
        return history
    }

    /// What is silent for long is waited for no more.
    private mutating func passOverSilent(_ nowNs: Int64) {
        let silent = awaited.filter { nowNs - $0.value >= Self.silentNs }
        if silent.isEmpty { return }
        for tag in silent.keys { awaited[tag] = nil }
        if awaited.isEmpty { probeAgain(nowNs) }
        settle()
    }

    /// A record by itself was refused.
    ///
    /// - Parameter partition: which refused it; negative: none was asked.
    /// - Returns: true: it is for the record's own sake, and `shrunk` or `handedOn` follows. Else it is tried again.
    @discardableResult
    mutating func refused(_ record: UndeliveredRecord, _ code: KafkaCode, partition: Int32, nowNs: Int64) -> Bool {
        guard var history = underWay[record.tag] else { return false }
        let mayBeItsOwn = code.blame != .topic && partition >= 0
        if mayBeItsOwn {
            if history.refusals > 0, hasTakenOthers(since: history, code) { history.refusalsBesideOthers += 1 }
            if taken.count > history.takenThen { history.isApart = true }
            if history.refusals == 0 { history.sinceNs = nowNs }
            history.code = code
            history.takenThen = taken.count
            history.partition = partition
            history.takenByPartitionThen = taken.count(of: partition)
            history.nextTryNs = nowNs + Self.pauseNs(after: history.refusals)
            history.refusals += 1
            // The last form has no other: it is tried for as long as it takes.
            let limit = code.blame == .unclear ? Self.unclearRefusals : Self.ownRefusals
            if history.refusalsBesideOthers >= limit, history.form < .bare {
                if history.form == .single { rejectedCount += 1 }
                underWay[record.tag] = history
                return true
            }
        }
        _ = arrived(record.tag)
        let standsApart = mayBeItsOwn && history.isApart
        if standsApart {
            apart.insert(Refused(record: record, history: history))
        } else {
            queue.insert(Refused(record: record, history: history))
        }
        if case .probing(_, let sinceNs) = state {
            endProbe(code, sinceNs: sinceNs, nowNs)
        } else if !standsApart {
            block(code, nowNs: nowNs)
        }
        settle()
        return false
    }

    /// Whether the topic took what shows that it is the record which is refused: a code that speaks of records is shown
    /// by any other, one that may speak of the partition by one of the same partition.
    private func hasTakenOthers(since history: History, _ code: KafkaCode) -> Bool {
        code.blame == .record
            ? taken.count > history.takenThen : taken.count(of: history.partition) > history.takenByPartitionThen
    }

    private static func pauseNs(after refusals: Int) -> Int64 { min(leastPauseNs << min(refusals, 8), longestPauseNs) }

    /// A record by itself was dropped by the producer, which was made anew: it is written again, as it was.
    mutating func dropped(_ record: UndeliveredRecord, nowNs: Int64) {
        guard let history = arrived(record.tag) else { return }
        queue.insert(Refused(record: record, history: history))
        probeAgain(nowNs)
    }

    /// A record by itself was refused for its own sake, and is written in a smaller form.
    mutating func shrunk(to smaller: UndeliveredRecord, _ form: Form, nowNs: Int64) {
        guard let history = arrived(smaller.tag) else { return }
        queue.insert(Refused(record: smaller, history: smallerHistory(of: history, form)))
        probeAgain(nowNs)
    }

    private func smallerHistory(of history: History, _ form: Form) -> History {
        History(
            form: form, order: history.order, isApart: history.isApart, takenThen: taken.count, code: history.code,
            sinceNs: history.sinceNs)
    }

    /// A record by itself goes on under another topic.
    mutating func handedOn(_ tag: UInt64, nowNs: Int64) {
        guard arrived(tag) != nil else { return }
        probeAgain(nowNs)
        settle()
    }

    /// The probe said nothing about the topic.
    private mutating func probeAgain(_ nowNs: Int64) {
        if case .probing(let code, let sinceNs) = state {
            state = .blocked(code, sinceNs: sinceNs, nextTryNs: nowNs)
        }
    }

    /// A probe was refused. The topic is left alone for longer only when none of those that may show more is left.
    private mutating func endProbe(_ code: KafkaCode, sinceNs: Int64, _ nowNs: Int64) {
        if !awaited.isEmpty {
            state = .probing(code, sinceNs: sinceNs)
        } else if mayShow(code) {
            state = .blocked(code, sinceNs: sinceNs, nextTryNs: nowNs)
        } else {
            pause(code, sinceNs: sinceNs, nowNs)
        }
    }

    private mutating func pause(_ code: KafkaCode, sinceNs: Int64, _ nowNs: Int64) {
        pauseNs = min(2 * pauseNs, Self.longestPauseNs)
        state = .blocked(code, sinceNs: sinceNs, nextTryNs: nowNs + pauseNs)
    }

    // MARK: Writing

    /// The next record to be written now, and whether by itself; `nil`: none, or not yet. The same one until `wrote` or
    /// `couldNotWrite`.
    mutating func next(nowNs: Int64) -> (refused: Refused, isSingle: Bool)? {
        if !awaited.isEmpty { passOverSilent(nowNs) }
        namedNs = nowNs
        switch state {
        case .probing(let code, _):
            guard mayShow(code), hasRoom, let index = queue.firstUnshown else { return nil }
            return offer(.queue(index), isSingle: true)
        case .blocked(let code, _, let nextTryNs):
            // A blocked topic without a refused record is tried by the next new one.
            guard nowNs >= nextTryNs, awaited.isEmpty, hasRoom else { return nil }
            guard let index = mayShow(code) ? queue.firstUnshown : queue.leastRefused else { return nil }
            return offer(.queue(index), isSingle: true)
        case .writable, .returning: break
        }
        setApart(nowNs)
        if let first = queue.indexOfFirst {
            if state == .writable, queue[first].form == .together { return offer(.queue(first), isSingle: false) }
            return hasRoom ? offer(.queue(first), isSingle: true) : nil
        }
        guard state == .writable, hasRoom, let index = apart.indexOfEarliest, apart[index].history.nextTryNs <= nowNs
        else { return nil }
        return offer(.apart(index), isSingle: true)
    }

    private mutating func offer(_ record: Named, isSingle: Bool) -> (refused: Refused, isSingle: Bool) {
        named = record
        switch record {
        case .queue(let index): return (queue[index], isSingle)
        case .apart(let index): return (apart[index], isSingle)
        }
    }

    private mutating func takeNamed() -> Refused? {
        defer { named = nil }
        switch named {
        case .queue(let index): return queue.remove(at: index)
        case .apart(let index): return apart.remove(at: index)
        case nil: return nil
        }
    }

    /// Those that were refused a moment before others were taken wait for their own next try.
    private mutating func setApart(_ nowNs: Int64) {
        while let index = queue.indexOfFirst, case let history = queue[index].history, history.refusals > 0,
            history.nextTryNs > nowNs, taken.count > history.takenThen
        {
            var refused = queue.remove(at: index)
            refused.history.isApart = true
            apart.insert(refused)
        }
        settle()
    }

    /// A producer took what `next` named.
    mutating func wrote(isSingle: Bool) {
        guard let refused = takeNamed() else { return }
        if isSingle {
            var history = refused.history
            history.form = max(history.form, .single)
            history.bytes = refused.record.byteCount
            underWay[refused.record.tag] = history
            underWayBytes += history.bytes
            awaited[refused.record.tag] = namedNs
            if case .blocked(let code, let sinceNs, _) = state { state = .probing(code, sinceNs: sinceNs) }
        }
        settle()
    }

    /// A producer refused at once what `next` named, for a reason that is not the record's.
    mutating func couldNotWrite(_ code: KafkaCode, nowNs: Int64) {
        // The topic is tried with it as with any other.
        if case .apart = named, let refused = takeNamed() { queue.insert(refused) }
        if case .blocked(_, let sinceNs, _) = state {
            pause(code, sinceNs: sinceNs, nowNs)
        } else {
            block(code, nowNs: nowNs)
        }
    }

    /// A producer found what `next` named too large at once: it stands in the queue in its smaller form.
    mutating func replaceNamed(by smaller: UndeliveredRecord, _ form: Form) {
        guard let refused = takeNamed() else { return }
        queue.insert(Refused(record: smaller, history: smallerHistory(of: refused.history, form)))
    }

    /// What `next` named goes on under another topic.
    mutating func removeNamed() {
        _ = takeNamed()
        settle()
    }

    private mutating func lookWhetherFull() {
        if refusedCount >= Self.refusedLimit || refusedBytes >= Self.refusedBytesLimit { isFull = true }
    }

    /// Looks what holds when something has come or gone.
    private mutating func settle() {
        if isQueueDone, state == .returning { state = .writable }
        // A block that nothing is left to end: the next new record shows whether it still stands.
        if isQueueDone, case .blocked = state { state = .writable }
        if queue.count == 0 {
            isFull = false
            lookWhetherFull()
        }
        if isIdle { taken = TakenRecords() }
    }
}

/// How many records a topic took, in all and by partition.
private struct TakenRecords {
    private(set) var count: UInt64 = 0
    private var byPartition: [Int32: UInt64] = [:]

    func count(of partition: Int32) -> UInt64 { byPartition[partition] ?? 0 }

    mutating func note(_ partition: Int32) {
        count += 1
        byPartition[partition, default: 0] += 1
    }
}

extension KafkaCode {
    /// What a refusal may be due to.
    enum Blame {
        case topic
        /// The record, where the topic takes others.
        case record
        /// The record, where the partition takes others.
        case recordOrPartition
        /// As `recordOrPartition`, and the partition's leader more likely than the record.
        case unclear
    }

    var blame: Blame {
        switch self {
        case .invalidRecord, .batchWithInvalidRecord, .messageTooLarge: .record
        case .policyViolation: .recordOrPartition
        // The client's own: no broker has seen the record.
        case _ where rawValue < -1: .topic
        case .topicAuthorizationFailed, .clusterAuthorizationFailed, .invalidTopic, .unsupportedForMessageFormat,
            // A record is given its time anew with each try.
            .invalidTimestamp, .requestTimedOut:
            .topic
        case _ where isUnknownTopic: .topic
        default: .unclear
        }
    }
}
