internal import Kafka

/// A topic that the worker writes to: whether it can be written, and what it refused. Decides only; no clock, no I/O.
///
/// A topic that refuses records is blocked: nothing more goes to it but one refused record at a time, with a growing
/// pause, until one is taken; then all of them go. A record that is only too large blocks nothing: it is tried alone,
/// then in ever smaller forms, each once.
struct TargetTopic {
    /// How a record is written; each form is tried once by a record that is too large.
    enum Form: Int, Comparable {
        /// Among others: a batch may be refused as too large for another's sake.
        case together
        case alone
        case reduced
        /// The first bytes of what is not left out.
        case least
        /// What it cannot do without.
        case bare

        static func < (left: Form, right: Form) -> Bool { left.rawValue < right.rawValue }
    }

    struct Refused {
        let record: UndeliveredRecord
        var form: Form
    }

    /// Times are monotonic.
    enum State: Equatable {
        case writable
        case blocked(KafkaCode, sinceNs: Int64, nextTryNs: Int64)
        /// As `blocked`, with one record under way.
        case probing(KafkaCode, sinceNs: Int64)
        /// A probe was taken: what was refused follows, by itself, before anything new.
        case returning
    }

    let name: String
    private(set) var state = State.writable
    private var queue = RefusedQueue()
    /// How records by themselves that have no report yet were written, by their tags.
    private var underWay: [UInt64: Form] = [:]
    private var pauseNs = Self.leastPauseNs
    private var isFull = false
    /// Records that were too large for it even by themselves, and were written smaller or elsewhere.
    private(set) var tooLargeCount = 0

    static let leastPauseNs: Int64 = 1_000_000_000
    static let longestPauseNs: Int64 = 30_000_000_000
    /// Above either of them nothing new is written before what was refused is.
    static let refusedLimit = 1_000
    static let refusedBytesLimit = 8 << 20
    /// Records by themselves that are under way at once, each in a request of its own.
    static let underWayLimit = 64

    init(_ name: String) { self.name = name }

    /// Whether new records may be written.
    var isOpen: Bool { state == .writable && !isFull }

    /// Why it is blocked, and since when (monotonic); `nil`: it is not.
    var cause: (code: KafkaCode, sinceNs: Int64)? {
        switch state {
        case .writable, .returning: nil
        case .blocked(let code, let sinceNs, _), .probing(let code, let sinceNs): (code, sinceNs)
        }
    }

    var refusedCount: Int { queue.count }
    var refusedBytes: Int { queue.bytes }
    /// Whether a record by itself has no report yet.
    var awaitsReport: Bool { !underWay.isEmpty }
    var isIdle: Bool { queue.count == 0 && underWay.isEmpty }

    /// When a record is to be tried again without any report (monotonic); `nil`: nothing is. A report is waited for first.
    var nextTryNs: Int64? {
        guard case .blocked(_, _, let nextTryNs) = state, queue.count > 0, underWay.isEmpty else { return nil }
        return nextTryNs
    }

    // MARK: Refusals

    /// The topic refused a record for a reason that is not the record's.
    mutating func block(_ code: KafkaCode, nowNs: Int64) {
        switch state {
        case .writable, .returning:
            pauseNs = Self.leastPauseNs
            state = .blocked(code, sinceNs: nowNs, nextTryNs: nowNs + pauseNs)
        case .blocked(_, let sinceNs, let nextTryNs):
            state = .blocked(code, sinceNs: sinceNs, nextTryNs: nextTryNs)
        case .probing:
            // The answer to the probe is still to come.
            break
        }
    }

    /// A record that was written among others comes back, or never left: it is written after those before it.
    mutating func take(_ record: UndeliveredRecord, _ form: Form) {
        queue.append(Refused(record: record, form: form))
        if queue.count >= Self.refusedLimit || queue.bytes >= Self.refusedBytesLimit { isFull = true }
    }

    /// A record in this form, by itself, was too large for the topic. True: it is the first of all.
    mutating func noteTooLarge(_ form: Form) -> Bool {
        // Smaller ones are of a record that was counted.
        guard form == .alone else { return false }
        tooLargeCount += 1
        return tooLargeCount == 1
    }

    /// How a record under this tag was written by itself; `nil`: it was not.
    func form(of tag: UInt64) -> Form? { underWay[tag] }

    /// A record by itself was written.
    mutating func written(_ tag: UInt64) {
        guard underWay.removeValue(forKey: tag) != nil else { return }
        if state != .writable { state = .returning }
        returnIfIdle()
    }

    /// A record by itself was refused for a reason that is not its own.
    mutating func refused(_ record: UndeliveredRecord, _ code: KafkaCode, nowNs: Int64) {
        guard let form = underWay.removeValue(forKey: record.tag) else { return }
        queue.insertFirst(Refused(record: record, form: form))
        if case .probing(_, let sinceNs) = state {
            pause(code, sinceNs: sinceNs, nowNs)
        } else {
            block(code, nowNs: nowNs)
        }
    }

    /// A record by itself was dropped by the producer, which was made anew: it is written again, as it was.
    mutating func dropped(_ record: UndeliveredRecord, nowNs: Int64) {
        guard let form = underWay.removeValue(forKey: record.tag) else { return }
        queue.insertFirst(Refused(record: record, form: form))
        probeAgain(nowNs)
    }

    /// A record by itself was too large, and is written in a smaller form.
    mutating func shrunk(to smaller: UndeliveredRecord, _ form: Form, nowNs: Int64) {
        guard underWay.removeValue(forKey: smaller.tag) != nil else { return }
        queue.insertFirst(Refused(record: smaller, form: form))
        probeAgain(nowNs)
    }

    /// A record by itself goes on under another topic.
    mutating func handedOn(_ tag: UInt64, nowNs: Int64) {
        guard underWay.removeValue(forKey: tag) != nil else { return }
        probeAgain(nowNs)
        returnIfIdle()
    }

    /// The probe said nothing about the topic.
    private mutating func probeAgain(_ nowNs: Int64) {
        if case .probing(let code, let sinceNs) = state {
            state = .blocked(code, sinceNs: sinceNs, nextTryNs: nowNs)
        }
    }

    private mutating func pause(_ code: KafkaCode, sinceNs: Int64, _ nowNs: Int64) {
        pauseNs = min(2 * pauseNs, Self.longestPauseNs)
        state = .blocked(code, sinceNs: sinceNs, nextTryNs: nowNs + pauseNs)
    }

    // MARK: Writing

    /// The next record to be written now, and whether by itself; `nil`: none, or not yet. The same one until `wrote` or
    /// `couldNotWrite`.
    func next(nowNs: Int64) -> (refused: Refused, byItself: Bool)? {
        guard let first = queue.first else {
            // A blocked topic without a refused record is tried by the next new one.
            return nil
        }
        switch state {
        case .writable:
            guard first.form > .together else { return (first, false) }
            return underWay.count < Self.underWayLimit ? (first, true) : nil
        case .returning:
            return underWay.count < Self.underWayLimit ? (first, true) : nil
        case .blocked(_, _, let nextTryNs):
            return nowNs >= nextTryNs && underWay.isEmpty ? (first, true) : nil
        case .probing:
            return nil
        }
    }

    /// A producer took what `next` named.
    mutating func wrote(byItself: Bool) {
        guard let first = queue.removeFirst() else { return }
        if queue.count == 0 { isFull = false }
        if byItself {
            underWay[first.record.tag] = max(first.form, .alone)
            if case .blocked(let code, let sinceNs, _) = state { state = .probing(code, sinceNs: sinceNs) }
        }
        returnIfIdle()
    }

    /// A producer refused at once what `next` named, for a reason that is not the record's.
    mutating func couldNotWrite(_ code: KafkaCode, nowNs: Int64) {
        if case .blocked(_, let sinceNs, _) = state {
            pause(code, sinceNs: sinceNs, nowNs)
        } else {
            block(code, nowNs: nowNs)
        }
    }

    /// A producer found what `next` named too large at once: it stands in the queue in its smaller form.
    mutating func replaceFirst(by smaller: UndeliveredRecord, _ form: Form) {
        guard queue.removeFirst() != nil else { return }
        queue.insertFirst(Refused(record: smaller, form: form))
    }

    /// What `next` named goes on under another topic.
    mutating func removeFirst() {
        _ = queue.removeFirst()
        if queue.count == 0 { isFull = false }
        returnIfIdle()
    }

    private mutating func returnIfIdle() {
        if isIdle, state == .returning { state = .writable }
        // A block that nothing is left to end: the next new record shows whether it still stands.
        if isIdle, case .blocked = state { state = .writable }
    }
}

/// Refused records in the order in which they are written.
private struct RefusedQueue {
    private var places: [TargetTopic.Refused?] = []
    private var head = 0
    private(set) var bytes = 0

    var count: Int { places.count - head }
    var first: TargetTopic.Refused? { head < places.count ? places[head] : nil }

    mutating func append(_ refused: TargetTopic.Refused) {
        places.append(refused)
        bytes += refused.record.byteCount
    }

    mutating func insertFirst(_ refused: TargetTopic.Refused) {
        bytes += refused.record.byteCount
        if head > 0 {
            head -= 1
            places[head] = refused
        } else {
            places.insert(refused, at: 0)
        }
    }

    mutating func removeFirst() -> TargetTopic.Refused? {
        guard head < places.count, let first = places[head] else { return nil }
        places[head] = nil
        head += 1
        if head == places.count {
            places.removeAll(keepingCapacity: true)
            head = 0
        } else if head > 1_024, 2 * head > places.count {
            places.removeFirst(head)
            head = 0
        }
        bytes -= first.record.byteCount
        return first
    }
}
