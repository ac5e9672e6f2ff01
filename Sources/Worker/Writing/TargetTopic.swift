internal import Kafka

/// The refused records of one output topic, and when to produce them again. A value type without a clock or I/O.
///
/// 1. If the topic is the cause of a refusal, the topic is closed and reported as a problem. New records wait. Refused
///   records are produced one at a time with growing pauses until Kafka accepts one. Then the remaining refused records
///   are produced in order, and new records after them.
/// 2. A record that is refused as too large is produced alone in its batch and, if it is refused again, in its reduced
///    form.
/// 3. A record that may itself be the cause of its refusal is produced alone, with growing pauses. After
///   `KafkaCode.ownRefusals` such refusals, each after Kafka has accepted other records of the topic, it is replaced by
///   another record (`replacement`). The topic stays open, because new records show whether it works.
///
/// A record may have no delivery report for a long time, because its partition has no leader. Meanwhile, other records
/// are produced. After `silentNs` the topic opens, so new records may overtake the record without a report.
struct TargetTopic {
    enum Form: Comparable {
        /// The record is produced in a batch with other records, any of which may cause the broker to refuse the batch
        /// as too large.
        case together
        case alone
        case reduced
    }

    struct Refused {
        fileprivate(set) var record: UndeliveredRecord
        fileprivate(set) var form: Form
        fileprivate let order: UInt64
        /// The number of refusals of the record alone in its batch, each after Kafka had accepted other records of the
        /// topic.
        fileprivate var ownRefusals = 0
        /// The number of the topic's records that Kafka had accepted at the last refusal of this record.
        fileprivate var takenBefore: UInt64
        fileprivate var code = KafkaCode.none
        /// The pause before the next attempt. It begins when the record is refused alone in its batch and may itself be
        /// the cause of the refusal.
        fileprivate var pause = GrowingPause()
    }

    let name: String
    /// The value of `isOpen` that was last passed to the delivery machine.
    var isKnownOpen = true
    var acknowledgements = AcknowledgementWatch()
    /// The reason why the topic is closed and the pause before the next attempt, or `nil` if the topic is open.
    private(set) var cause: (code: KafkaCode, pause: GrowingPause)?
    /// Whether Kafka has accepted a record of the closed topic again, and the other refused records are being produced.
    private var isReturning = false
    private var waiting: ArraySlice<Refused> = []
    private var suspects: [Refused] = []
    /// Records produced alone whose delivery reports are outstanding, by tag.
    private var underWay: [UInt64: Refused] = [:]
    private var lastTryNs: Int64 = 0
    private var takenCount: UInt64 = 0
    private var lastOrder: UInt64 = 0
    var tooLargeCount = 0
    private(set) var rejectedCount = 0

    /// The number of refused records at which new records wait. Also the maximum number of records that are produced
    /// alone and have no delivery report yet.
    static let limit = 1_000
    static let silentNs: Int64 = 2_000_000_000

    init(_ name: String) { self.name = name }

    var isOpen: Bool { cause == nil && !isReturning && refusedCount < Self.limit }

    /// The reason why a record that was produced alone was refused, and whether Kafka has accepted no other record of
    /// the topic since the refusal.
    var causeOfSingle: (code: KafkaCode, refusesAll: Bool)? {
        (suspects.first ?? underWay.values.first(where: \.pause.hasBegun)).map {
            ($0.code, $0.takenBefore == takenCount)
        }
    }

    var refusedCount: Int { waiting.count + suspects.count }
    var isIdle: Bool { refusedCount == 0 && underWay.isEmpty }
    private var hasRoom: Bool { underWay.count < Self.limit }

    /// The time at which `next` returns a record even without another delivery report (monotonic), or `nil` if there is
    /// no such time.
    var nextTryNs: Int64? {
        if waiting.count == 0, cause != nil || isReturning { return lastTryNs + Self.silentNs }
        guard hasRoom else { return nil }
        if let cause { return cause.pause.endNs }
        return suspects.lazy.map(\.pause.endNs).min()
    }

    // MARK: Refusals

    /// Stores a record that was refused in a batch with other records, or that was not produced yet.
    mutating func take(_ record: UndeliveredRecord, _ form: Form) {
        lastOrder += 1
        waiting.insert(Refused(record: record, form: form, order: lastOrder, takenBefore: takenCount))
    }

    /// Closes the topic, because an error concerns all its records: brokers refuse them, or no producer accepts them.
    mutating func close(_ code: KafkaCode, nowNs: Int64) {
        cause?.code = code
        guard cause == nil else { return }
        cause = (code, GrowingPause())
        cause?.pause.begin(nowNs)
        isReturning = false
    }

    /// Returns the form in which the record with this tag was produced alone, or `nil` if it was not produced alone.
    func form(of tag: UInt64) -> Form? { underWay[tag]?.form }

    /// Registers that Kafka accepted a record of the topic.
    ///
    /// - Parameter tag: The tag of a record that was produced alone, or `nil` for a record in a batch.
    mutating func written(_ tag: UInt64? = nil) {
        takenCount += 1
        guard let tag, underWay.removeValue(forKey: tag) != nil, cause != nil else { return }
        cause = nil
        isReturning = true
    }

    /// Registers a refusal of a record that was produced alone.
    ///
    /// - Parameters:
    ///   - partition: The partition whose leader refused the record, or a negative number if the record was not sent to
    ///     a broker.
    ///   - isReplaceable: Whether another record can replace the refused record.
    /// - Returns: Whether the record is given up as the cause of its refusals. The caller then calls `writeAgain` or
    ///   `remove`. If false, the record is tried again.
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

    /// Stores a record that must be produced alone again: a replaced producer dropped it, or it is the reduced form of
    /// a record that was refused.
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

    /// Removes a record that was produced alone and whose replacement has another topic.
    mutating func remove(_ tag: UInt64) { underWay[tag] = nil }

    // MARK: Writing

    /// Returns the next record to produce now and whether to produce it alone, or `nil` if none is due. The caller then
    /// calls `wrote` or `putBack`.
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

    /// Registers that a producer accepted the record that `next` returned.
    mutating func wrote(_ refused: Refused, isSingle: Bool, nowNs: Int64) {
        guard isSingle else { return }
        cause?.pause.begin(nowNs)
        lastTryNs = nowNs
        underWay[refused.record.tag] = refused
        underWay[refused.record.tag]?.form = max(refused.form, .alone)
    }

    /// Puts a record that `next` has returned back into its queue, because the producer did not accept it.
    mutating func putBack(_ refused: Refused, nowNs: Int64) {
        waiting.insert(refused)
        cause?.pause.begin(nowNs)
    }
}

extension ArraySlice<TargetTopic.Refused> {
    /// Inserts a record at its place in the order of production, which is usually the end.
    fileprivate mutating func insert(_ refused: TargetTopic.Refused) {
        insert(refused, at: (lastIndex { $0.order < refused.order } ?? startIndex - 1) + 1)
    }

    fileprivate mutating func pop() -> TargetTopic.Refused? {
        // An empty slice would keep the memory of its former elements.
        defer { if isEmpty { self = [] } }
        return popFirst()
    }
}

extension KafkaCode {
    enum Fault {
        case topic, record
        /// The error may come from a broken partition leader, which refuses some records and accepts others.
        case unclear
    }

    var fault: Fault {
        switch self {
        case .invalidRecord, .batchWithInvalidRecord, .messageTooLarge, .policyViolation: .record
        // Codes below -1 are errors of librdkafka, such as a timeout. No broker has rejected the record.
        case _ where rawValue < -1 || isUnknownTopic: .topic
        // `invalidTimestamp` does not mean that the record is at fault, because each attempt sets a new timestamp.
        case .topicAuthorizationFailed, .clusterAuthorizationFailed, .invalidTopic, .unsupportedForMessageFormat,
            .invalidTimestamp, .requestTimedOut:
            .topic
        default: .unclear
        }
    }

    /// Whether no broker has refused the record: librdkafka dropped it, or has no confirmation that it was written.
    var isPurged: Bool { self == .purgedInQueue || self == .purgedInFlight || self == .inconsistent }

    /// The number of refusals after which a record is given up. Only a refusal of the record alone counts, and only if
    /// Kafka has accepted other records of the topic since the record's previous refusal. For an unclear fault, the
    /// limit is higher (20, about eight minutes), because the record may still be deliverable.
    var ownRefusals: Int { fault == .record ? 2 : 20 }
}
