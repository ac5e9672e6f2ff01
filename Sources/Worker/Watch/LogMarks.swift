internal import Kafka

/// Tells a log that only grew from one that was made anew (or cut and written on) between two looks at it, although its
/// offsets go on.
///
/// A mark says: no record stamped `timeMs` or later lies below `bound`. In one log that stays true: records are only
/// appended, and retention takes only the oldest. In a log that was made anew it is false once something is written to
/// it with a clock that is not behind the mark's. Two marks of each partition are looked at, one of the last look and
/// one that is a minute old or two, for producers whose clocks are behind. (librdkafka 2.0.2 does not tell the id of a
/// topic.)
///
/// Records that a mirror copied have the times of long ago, which neither mark sees. So there is a third one: a record
/// that was read, the one of the latest time: the witness. The first record of that time or later lies at it or below,
/// and stays where it is. One look may be mistaken (a leader that is none any more): two in a row have to miss it.
///
/// What brokers find by times is a suspicion only. Of a segment whose records have no times they take the file's for
/// the latest one: where that is later than what is asked for, they look into no other segment, and find nothing. So
/// before a log is taken for another one the record at the witness's own offset is looked at: of the same time, the log
/// is the same, and the witness is looked at itself from then on. Something else there, or nothing, in a log that has
/// the offset, is another log; without an answer it is asked for again.
///
/// Not seen: a log whose predecessor was younger than one look and of which nothing was read, and one with the same
/// times at the same offsets.
struct LogMarks {
    /// A record that was read.
    struct Witness: Hashable, Sendable {
        let offset: Int64
        /// Its timestamp; greater than 0.
        let timeMs: Int64
        /// Monotonic.
        let readNs: Int64
    }

    /// What is asked of the brokers; what is not answered for is left out.
    struct Questions {
        /// The first record of each partition that is stamped so (milliseconds since the epoch) or later.
        var firstRecords: ([TopicPartition: Int64]) -> [TopicPartition: StampedRecord]
        /// The first offset that each partition holds.
        var starts: ([TopicPartition]) -> [TopicPartition: Int64]
        /// Those of these topics that are known not to be compacted.
        var uncompacted: (Set<String>) -> Set<String>
        /// What stands at some partitions' offsets, as far as there is time to look: the first ones come first.
        var recordsAt: ([(partition: TopicPartition, offset: Int64)]) -> [TopicPartition: BatchProbe.RecordAt]
    }

    /// What the look at a witness's own offset tells.
    enum Verdict: Hashable, Sendable {
        case sameLog, anotherLog
        /// Nobody told, or the log ends there.
        case unknown
    }

    /// - Parameter record: what comes first from the witness's offset on, which the log has; `nil`: nobody told.
    static func verdict(of witness: Witness, _ record: BatchProbe.RecordAt?) -> Verdict {
        switch record {
        case nil: .unknown
        case .end(let offset): offset > witness.offset ? .anotherLog : .unknown
        case .record(let offset, _) where offset < witness.offset: .unknown
        case .record(let offset, let timeMs):
            offset == witness.offset && timeMs == witness.timeMs ? .sameLog : .anotherLog
        }
    }

    /// A partition whose log is another one.
    struct Change: Hashable, Sendable {
        let partition: TopicPartition
        /// The first record that is known not to be of the log before.
        let from: Int64
        /// When the log was the one before for the last time (monotonic).
        let unchangedNs: Int64
    }

    private struct Mark {
        let timeMs: Int64
        var bound: Int64
        /// When it was true for the last time.
        var checkedNs: Int64
    }

    private var last: [TopicPartition: Mark] = [:]
    private var older: [TopicPartition: Mark] = [:]
    /// Takes the place of `older` when it is old enough; not looked at until then.
    private var coming: [TopicPartition: Mark] = [:]
    private var witnesses: [TopicPartition: Testimony] = [:]

    private struct Testimony {
        let witness: Witness
        /// Where the first record of its time or later lies: at it or below, and where it lay once, it stays.
        var place: Int64
        var isPlaceKnown = false
        /// When it was there for the last time.
        var checkedNs: Int64
        /// The last look missed it, or something else speaks against it.
        var isMissed = false
        /// Found at its offset, and not by its time: it is not asked for by its time again.
        var isHidden = false
        /// Its own offset is looked at then at the earliest, and so long after that without an answer.
        var nextLookNs = Int64.min
        var pauseNs = LogMarks.leastPauseNs

        init(_ witness: Witness) {
            self.witness = witness
            place = witness.offset
            checkedNs = witness.readNs
        }
    }

    private static let olderByMs: Int64 = 60_000
    /// Marks of partitions that nobody answers for are kept so long.
    private static let keptNs: Int64 = 3_600_000_000_000
    /// Between two looks at an offset that nobody tells of; it doubles.
    private static let leastPauseNs: Int64 = 4_000_000_000
    /// And between two at a witness that is not found by its time.
    private static let longestPauseNs: Int64 = 60_000_000_000

    /// Looks at all partitions that are known, and at those that were.
    ///
    /// - Parameters:
    ///   - ends: as their leaders told, before `questions` are asked.
    ///   - read: of each partition the record of the latest time that was read since the last look.
    mutating func look(
        ends: [TopicPartition: Int64], read: [TopicPartition: Witness] = [:], nowNs: Int64, wallMs: Int64,
        _ questions: Questions
    ) -> [Change] {
        let ask = questions.firstRecords
        defer {
            for (partition, witness) in read { hear(witness, of: partition) }
        }
        var found: [TopicPartition: Change] = [:]
        let isLastAnswered = Self.check(&last, ends, nowNs, ask, &found)
        guard last.isEmpty || isLastAnswered else { return [] }
        _ = Self.check(&older, ends, nowNs, ask, &found)
        let suspects = checkWitnesses(ends, nowNs, questions, &found)
        for partition in found.keys {
            witnesses[partition] = nil
            last[partition] = nil
            older[partition] = nil
            coming[partition] = nil
        }
        // Nothing takes the place of a mark that was not looked at.
        let due = ends.filter {
            !suspects.contains($0.key) && last[$0.key].map { $0.checkedNs == nowNs } ?? true
        }
        guard !due.isEmpty else { return Array(found.values) }
        for (partition, record) in ask(due.mapValues { _ in wallMs }) {
            guard let end = ends[partition] else { continue }
            let mark = Mark(timeMs: wallMs, bound: record.bound(end: end), checkedNs: nowNs)
            last[partition] = mark
            let isOld = coming[partition].map { wallMs - $0.timeMs >= Self.olderByMs }
            if isOld == true { older[partition] = coming[partition] }
            if isOld != false { coming[partition] = mark }
        }
        return Array(found.values)
    }

    /// Of two, the one of the later time is kept, for a new log to have nothing like it; one that was missed stays
    /// until that is explained.
    private mutating func hear(_ witness: Witness, of partition: TopicPartition) {
        if let known = witnesses[partition], known.isMissed || known.witness.timeMs >= witness.timeMs { return }
        witnesses[partition] = Testimony(witness)
    }

    /// Looks at the witnesses, and by them at what the marks say: where a record that was read before the mark was true
    /// for the last time still stands at its offset, all below it is the same. Returns those of the marks' that stay
    /// suspicions.
    private mutating func checkWitnesses(
        _ ends: [TopicPartition: Int64], _ nowNs: Int64, _ questions: Questions,
        _ found: inout [TopicPartition: Change]
    ) -> Set<TopicPartition> {
        witnesses = witnesses.filter { nowNs - $0.value.checkedNs < Self.keptNs }
        // A log that ends below it is noticed by who reads it, or its leader does not know all of it yet.
        let known = witnesses.filter { partition, testimony in ends[partition] ?? 0 > testimony.witness.offset }
        var byMarks: [TopicPartition: Change] = [:]
        for (partition, change) in found {
            guard let witness = known[partition]?.witness, change.from <= witness.offset,
                witness.readNs <= change.unchangedNs
            else { continue }
            byMarks[partition] = change
        }
        // Where retention took that record, nothing speaks against the marks.
        let starts = byMarks.isEmpty ? [:] : questions.starts(Array(byMarks.keys))
        byMarks = byMarks.filter { starts[$0.key] ?? 0 <= known[$0.key]?.witness.offset ?? 0 }
        for partition in byMarks.keys { found[partition] = nil }
        let asked = known.filter { found[$0.key] == nil && byMarks[$0.key] == nil }
        var doubted = checkTimes(asked, nowNs, questions)
        doubted.merge(byMarks) { $1 }
        lookAtOffsets(doubted, Set(byMarks.keys), nowNs, questions, &found)
        let open = byMarks.keys.filter { found[$0] == nil && witnesses[$0]?.isMissed == true }
        return Set(open)
    }

    /// Asks for the witnesses by their times. Returns those whose own offset is to be looked at, and what is so if the
    /// log is another one.
    private mutating func checkTimes(
        _ known: [TopicPartition: Testimony], _ nowNs: Int64, _ questions: Questions
    ) -> [TopicPartition: Change] {
        var doubted: [TopicPartition: Change] = [:]
        var missed = known.filter { $0.value.isHidden && $0.value.nextLookNs <= nowNs }
        for (partition, record) in questions.firstRecords(
            known.filter { !$0.value.isHidden }.mapValues(\.witness.timeMs))
        {
            guard var testimony = known[partition] else { continue }
            switch record {
            case .at(let offset) where offset < testimony.place && testimony.isPlaceKnown:
                doubted[partition] = Change(partition: partition, from: offset, unchangedNs: testimony.checkedNs)
            case .at(let offset) where offset <= testimony.place:
                testimony.place = offset
                testimony.isPlaceKnown = true
                testimony.checkedNs = nowNs
                testimony.isMissed = false
                witnesses[partition] = testimony
            case .at, .none:
                missed[partition] = testimony
            }
        }
        guard !missed.isEmpty else { return doubted }
        let starts = questions.starts(Array(missed.keys))
        for (partition, testimony) in missed {
            guard let start = starts[partition] else { continue }
            if start > testimony.place {
                // Retention took that one, and perhaps what was read.
                var left = Testimony(testimony.witness)
                left.checkedNs = testimony.checkedNs
                witnesses[partition] = start > left.place ? nil : left
            } else if !testimony.isMissed && !testimony.isHidden {
                witnesses[partition]?.isMissed = true
            } else {
                doubted[partition] = Change(partition: partition, from: start, unchangedNs: testimony.checkedNs)
            }
        }
        return doubted
    }

    /// Looks at what stands at the offsets of witnesses that are doubted, those first that wait the longest for it.
    private mutating func lookAtOffsets(
        _ doubted: [TopicPartition: Change], _ byMarks: Set<TopicPartition>, _ nowNs: Int64, _ questions: Questions,
        _ found: inout [TopicPartition: Change]
    ) {
        for partition in doubted.keys { witnesses[partition]?.isMissed = true }
        let due = doubted.keys.compactMap { partition -> (TopicPartition, Testimony)? in
            guard let testimony = witnesses[partition], testimony.nextLookNs <= nowNs || testimony.isHidden else {
                return nil
            }
            return (partition, testimony)
        }.sorted { $0.1.nextLookNs < $1.1.nextLookNs }
        guard !due.isEmpty else { return }
        let records = questions.recordsAt(due.map { (partition: $0.0, offset: $0.1.witness.offset) })
        var others: [TopicPartition: Change] = [:]
        for (partition, testimony) in due {
            var testimony = testimony
            switch Self.verdict(of: testimony.witness, records[partition]) {
            case .sameLog:
                testimony.isMissed = false
                testimony.checkedNs = nowNs
                testimony.pauseNs = Self.leastPauseNs
                if byMarks.contains(partition) {
                    // Made anew below.
                    last[partition] = nil
                    older[partition] = nil
                    coming[partition] = nil
                } else {
                    testimony.isHidden = true
                    testimony.nextLookNs = nowNs + Self.longestPauseNs
                }
                witnesses[partition] = testimony
            case .anotherLog: others[partition] = doubted[partition]
            case .unknown:
                testimony.nextLookNs = nowNs + testimony.pauseNs
                testimony.pauseNs = min(2 * testimony.pauseNs, Self.longestPauseNs)
                witnesses[partition] = testimony
            }
        }
        let topics = Set(others.keys.filter { !byMarks.contains($0) }.map(\.topic))
        let uncompacted = topics.isEmpty ? [] : questions.uncompacted(topics)
        for (partition, change) in others {
            if byMarks.contains(partition) || uncompacted.contains(partition.topic) {
                found[partition] = change
            } else {
                witnesses[partition] = nil
            }
        }
    }

    /// False: nobody answered.
    private static func check(
        _ marks: inout [TopicPartition: Mark], _ ends: [TopicPartition: Int64], _ nowNs: Int64,
        _ ask: ([TopicPartition: Int64]) -> [TopicPartition: StampedRecord], _ found: inout [TopicPartition: Change]
    ) -> Bool {
        marks = marks.filter { nowNs - $0.value.checkedNs < keptNs }
        let known = marks.filter { ends[$0.key] != nil }
        guard !known.isEmpty else { return true }
        let answers = ask(known.mapValues(\.timeMs))
        for (partition, record) in answers {
            guard let mark = marks[partition], let end = ends[partition] else { continue }
            if case .at(let offset) = record, offset < mark.bound {
                let other = found[partition]
                found[partition] = Change(
                    partition: partition, from: min(offset, other?.from ?? offset),
                    unchangedNs: max(mark.checkedNs, other?.unchangedNs ?? mark.checkedNs))
            } else {
                marks[partition] = Mark(
                    timeMs: mark.timeMs, bound: max(mark.bound, record.bound(end: end)), checkedNs: nowNs)
            }
        }
        return !answers.isEmpty
    }
}

extension StampedRecord {
    /// Below it no record is stamped so. Only the log as far as an end that was asked for before is known to be
    /// without.
    fileprivate func bound(end: Int64) -> Int64 {
        switch self {
        case .none: end
        case .at(let offset): offset
        }
    }
}
