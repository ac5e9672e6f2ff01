internal import Kafka

/// What happens to the records that one output topic refuses. Decides only; no clock, no I/O.
///
/// 1. A topic that refuses a record for a reason of the topic's own is closed and reported as a problem. New records
///    wait. The refused ones are written alone, one at a time with growing pauses, until the topic takes one; the
///    others follow in order, then new ones.
/// 2. A record that is too large is written alone, then in its reduced form.
/// 3. A record whose refusal may be its own fault is written alone, with growing pauses. It becomes a dead letter after
///    `KafkaCode.ownRefusals`, each after the topic took others. The topic stays open, since new records show whether
///    it works.
///
/// A record may stay without a report for long, because its partition has no leader. Others are tried meanwhile, and
/// after `silentNs` the topic opens without waiting for it: a new record may overtake it then.
struct TargetTopic {
    enum Form: Comparable {
        /// Among others: a batch may be refused as too large because of another record.
        case together
        case alone
        case reduced
    }

    struct Refused {
        fileprivate(set) var record: UndeliveredRecord
        fileprivate(set) var form: Form
        fileprivate let order: UInt64
        /// Refusals of the record alone after each of which the topic took others.
        fileprivate var ownRefusals = 0
        /// How many records the topic had taken at the last refusal.
        fileprivate var takenBefore: UInt64
        fileprivate var code = KafkaCode.none
        /// Has begun once the record was refused alone, perhaps for its own fault.
        fileprivate var pause = GrowingPause()
    }

    let name: String
    /// What the machine was last told of `isOpen`.
    var isKnownOpen = true
    var acknowledgements = AcknowledgementWatch()
    /// Why the topic is closed, and the pause before it is tried again.
    private(set) var cause: (code: KafkaCode, pause: GrowingPause)?
    /// The topic took a record after it was closed, and the other refused ones are being written.
    private var isReturning = false
    private var waiting: ArraySlice<Refused> = []
    private var suspects: [Refused] = []
    /// Records written alone that have no report yet, by tag.
    private var underWay: [UInt64: Refused] = [:]
    private var lastTryNs: Int64 = 0
    private var takenCount: UInt64 = 0
    private var lastOrder: UInt64 = 0
    var tooLargeCount = 0
    private(set) var rejectedCount = 0

    /// With this many refused records, new ones wait. It also limits how many are written alone at once.
    static let limit = 1_000
    static let silentNs: Int64 = 2_000_000_000

    init(_ name: String) { self.name = name }

    var isOpen: Bool { cause == nil && !isReturning && refusedCount < Self.limit }

    /// Why it refuses single records, and whether it has taken none since.
    var causeOfSingle: (code: KafkaCode, refusesAll: Bool)? {
        (suspects.first ?? underWay.values.first(where: \.pause.hasBegun)).map {
            ($0.code, $0.takenBefore == takenCount)
        }
    }

    var refusedCount: Int { waiting.count + suspects.count }
    var isIdle: Bool { refusedCount == 0 && underWay.isEmpty }
    private var hasRoom: Bool { underWay.count < Self.limit }

    /// When `next` has something without any report (monotonic), or `nil`.
    var nextTryNs: Int64? {
        if waiting.count == 0, cause != nil || isReturning { return lastTryNs + Self.silentNs }
        guard hasRoom else { return nil }
        if let cause { return cause.pause.endNs }
        return suspects.lazy.map(\.pause.endNs).min()
    }

    // MARK: Refusals

    /// Keeps a record that was refused among others, or that was not written yet.
    mutating func take(_ record: UndeliveredRecord, _ form: Form) {
        lastOrder += 1
        waiting.insert(Refused(record: record, form: form, order: lastOrder, takenBefore: takenCount))
    }

    /// Notes that the topic refuses records, or that none can be written to it.
    mutating func close(_ code: KafkaCode, nowNs: Int64) {
        cause?.code = code
        guard cause == nil else { return }
        cause = (code, GrowingPause())
        cause?.pause.begin(nowNs)
        isReturning = false
    }

    /// How the record with this tag was written alone, or `nil` if it was not.
    func form(of tag: UInt64) -> Form? { underWay[tag]?.form }

    /// Notes that the topic took a record.
    ///
    /// - Parameter tag: of a record that was written alone.
    mutating func written(_ tag: UInt64? = nil) {
        takenCount += 1
        guard let tag, underWay.removeValue(forKey: tag) != nil, cause != nil else { return }
        cause = nil
        isReturning = true
    }

    /// Notes that a record alone was refused.
    ///
    /// - Parameters:
    ///   - partition: the partition that refused it, or a negative number if no broker was asked.
    ///   - isReplaceable: whether something else can be written in its place.
    /// - Returns: whether it is given up for its own fault; `writeAgain` or `remove` follows. Otherwise it is tried
    ///   again.
    mutating func refused(
        _ record: UndeliveredRecord, _ code: KafkaCode, partition: Int32, isReplaceable: Bool = true, nowNs: Int64
    ) -> Bool {
        guard var refused = underWay[record.tag] else { return false }
        let mayBeItsOwn = code.fault != .topic && partition >= 0
        if mayBeItsOwn, takenCount != refused.takenBefore { refused.ownRefusals += 1 }
        if mayBeItsOwn, refused.ownRefusals >= code.ownRefusals, isReplaceable {
            if refused.form == .alone { rejectedCount += 1 }
            return true
        }
        refused.code = code
        refused.record = record
        refused.takenBefore = takenCount
        underWay[record.tag] = nil
        if mayBeItsOwn {
            refused.pause.begin(nowNs)
            suspects.append(refused)
        } else {
            refused.pause = GrowingPause()
            waiting.insert(refused)
            close(code, nowNs: nowNs)
        }
        return false
    }

    /// Keeps a record alone to write it again: one that the producer dropped when it was made anew, or the reduced form
    /// of one that was refused.
    mutating func writeAgain(_ record: UndeliveredRecord, isReduced: Bool = false) {
        guard var refused = underWay.removeValue(forKey: record.tag) else { return }
        refused.record = record
        if isReduced {
            refused.form = .reduced
            refused.ownRefusals = min(refused.ownRefusals, 1)
            refused.takenBefore = takenCount
        }
        waiting.insert(refused)
    }

    /// Forgets a record alone that another topic takes.
    mutating func remove(_ tag: UInt64) { underWay[tag] = nil }

    // MARK: Writing

    /// Returns the next record to write, and whether alone, or `nil` for none now. `wrote` or `putBack` follows.
    mutating func next(nowNs: Int64) -> (refused: Refused, isSingle: Bool)? {
        if waiting.count == 0, underWay.isEmpty || nowNs - lastTryNs >= Self.silentNs {
            cause = nil
            isReturning = false
        }
        if let cause {
            guard hasRoom, nowNs >= cause.pause.endNs else { return nil }
            return waiting.pop().map { ($0, true) }
        }
        if let first = waiting.first {
            let isSingle = isReturning || first.form != .together
            guard hasRoom || !isSingle else { return nil }
            return waiting.pop().map { ($0, isSingle) }
        }
        guard hasRoom, let index = suspects.firstIndex(where: { $0.pause.endNs <= nowNs }) else { return nil }
        return (suspects.remove(at: index), true)
    }

    /// Notes that a producer took what `next` returned.
    mutating func wrote(_ refused: Refused, isSingle: Bool, nowNs: Int64) {
        guard isSingle else { return }
        cause?.pause.begin(nowNs)
        lastTryNs = nowNs
        underWay[refused.record.tag] = refused
        underWay[refused.record.tag]?.form = max(refused.form, .alone)
    }

    /// Takes back what `next` returned, since no producer has room for it.
    mutating func putBack(_ refused: Refused, nowNs: Int64) {
        waiting.insert(refused)
        cause?.pause.begin(nowNs)
    }
}

/// A pause that doubles from one second to thirty.
struct GrowingPause {
    private(set) var endNs: Int64 = 0
    private(set) var lengthNs: Int64 = 0

    static let leastNs: Int64 = 1_000_000_000
    static let longestNs: Int64 = 30_000_000_000

    var hasBegun: Bool { lengthNs > 0 }

    mutating func begin(_ nowNs: Int64) {
        lengthNs = min(max(Self.leastNs, 2 * lengthNs), Self.longestNs)
        endNs = nowNs + lengthNs
    }
}

extension ArraySlice<TargetTopic.Refused> {
    /// Inserts a record in the order of production, in which all of them are. It mostly comes last.
    fileprivate mutating func insert(_ refused: TargetTopic.Refused) {
        insert(refused, at: (lastIndex { $0.order < refused.order } ?? startIndex - 1) + 1)
    }

    fileprivate mutating func pop() -> TargetTopic.Refused? {
        // The storage of an empty slice keeps its former elements.
        defer { if isEmpty { self = [] } }
        return popFirst()
    }
}

extension KafkaCode {
    enum Fault {
        case topic, record
        /// A leader in trouble answers some records so and takes others.
        case unclear
    }

    var fault: Fault {
        switch self {
        case .invalidRecord, .batchWithInvalidRecord, .messageTooLarge, .policyViolation: .record
        // Codes below -1 are the client's own: no broker has seen the record.
        case _ where rawValue < -1 || isUnknownTopic: .topic
        // A record gets a new timestamp with each try.
        case .topicAuthorizationFailed, .clusterAuthorizationFailed, .invalidTopic, .unsupportedForMessageFormat,
            .invalidTimestamp, .requestTimedOut:
            .topic
        default: .unclear
        }
    }

    /// How often a record is refused alone, each time after the topic took others, before it is given up. For an
    /// unclear fault that takes about eight minutes, since the record may be deliverable.
    var ownRefusals: Int { fault == .record ? 2 : 20 }
}
