internal import Kafka

/// Tells a log that only grew from one that was made anew (or cut and written on) between two looks at it, although its
/// offsets go on.
///
/// A mark says: no record stamped `timeMs` or later lies below `bound`. In one log that stays true: records are only
/// appended, and retention takes only the oldest. In a log that was made anew it is false once something is written to it
/// with a clock that is not behind the mark's. Two marks of each partition are looked at, one of the last look and one that
/// is a minute old or two, for producers whose clocks are behind. (librdkafka 2.0.2 does not tell the id of a topic.)
///
/// Not seen: a log whose predecessor was younger than one look.
struct LogMarks {
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

    private static let olderByMs: Int64 = 60_000
    /// Marks of partitions that nobody answers for are kept so long.
    private static let keptNs: Int64 = 3_600_000_000_000

    /// Looks at all partitions that are known, and at those that were.
    ///
    /// - Parameters:
    ///   - ends: as their leaders told, before `ask` is called.
    ///   - ask: the first record of each partition that is stamped so (milliseconds since the epoch) or later; those
    ///     that are not answered for are left out.
    mutating func look(
        ends: [TopicPartition: Int64], nowNs: Int64, wallMs: Int64,
        ask: ([TopicPartition: Int64]) -> [TopicPartition: StampedRecord]
    ) -> [Change] {
        var found: [TopicPartition: Change] = [:]
        let isLastAnswered = Self.check(&last, ends, nowNs, ask, &found)
        guard last.isEmpty || isLastAnswered else { return [] }
        _ = Self.check(&older, ends, nowNs, ask, &found)
        for partition in found.keys {
            last[partition] = nil
            older[partition] = nil
            coming[partition] = nil
        }
        // Nothing takes the place of a mark that was not looked at.
        let due = ends.filter { last[$0.key].map { $0.checkedNs == nowNs } ?? true }
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
    /// Below it no record is stamped so. Only the log as far as an end that was asked for before is known to be without.
    fileprivate func bound(end: Int64) -> Int64 {
        switch self {
        case .none: end
        case .at(let offset): offset
        }
    }
}
