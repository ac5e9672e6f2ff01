internal import Kafka

/// How the records that are wanted of one partition are read: one after the other where they are near to each other, by
/// going to the next where they are not. A value that is told what was read, and says what to do.
struct LogFetch {
    /// Offsets, and which items of the batch want them.
    struct Wanted: Hashable {
        var offsets: ClosedRange<Int64>
        /// In the order of their indexes.
        var items: [Int]
    }

    /// What became of what was wanted.
    enum Finding: Hashable {
        /// It is the record that was read just now.
        case found(Wanted)
        /// None of its records is there. In words.
        case missing(Wanted, String)
        /// What is at its place, or some of it, cannot be read.
        case unreadable(Wanted, String)
    }

    enum Step: Hashable {
        /// Read on from another offset.
        case start(Int64)
        case goOn
        case done
    }

    /// What is read and not wanted costs less than going somewhere else: beside a busy broker 280 records of 250 bytes
    /// were read in the time of one place that was gone to.
    static let gap: Int64 = 250

    /// In the order of their offsets.
    private let wanted: [Wanted]
    private var next = 0
    /// Something of the next one was found.
    private var hasSome = false
    /// Where the log ended when it was asked last.
    private var end: Int64 = 0

    init(_ wanted: [Wanted]) { self.wanted = wanted }

    /// How far it is, so that an owner sees whether it moves.
    var remaining: Int { wanted.count - next }

    /// Where reading begins, in a log that has these offsets; told again whenever the log says that it does not have an
    /// offset.
    mutating func begin(_ bounds: Range<Int64>) -> (findings: [Finding], step: Step) {
        var findings: [Finding] = []
        end = bounds.upperBound
        while next < wanted.count {
            let one = wanted[next]
            if one.offsets.upperBound < bounds.lowerBound {
                close(&findings, "the log begins at \(bounds.lowerBound)")
            } else if one.offsets.lowerBound >= bounds.upperBound {
                close(&findings, "the log ends at \(bounds.upperBound)")
            } else {
                return (findings, .start(max(one.offsets.lowerBound, bounds.lowerBound)))
            }
        }
        return (findings, .done)
    }

    /// The log itself is not there.
    mutating func giveUp(_ reason: String) -> [Finding] {
        var findings: [Finding] = []
        while next < wanted.count { close(&findings, reason) }
        return findings
    }

    /// The record at this offset was read.
    mutating func took(_ offset: Int64) -> (findings: [Finding], step: Step) {
        var findings: [Finding] = []
        while next < wanted.count, wanted[next].offsets.upperBound < offset {
            close(&findings, "its offset has no record any more")
        }
        guard next < wanted.count else { return (findings, .done) }
        var one = wanted[next]
        if one.offsets.contains(offset) {
            findings.append(.found(one))
            hasSome = true
            guard offset == one.offsets.upperBound else { return (findings, .goOn) }
            pass()
            guard next < wanted.count else { return (findings, .done) }
            one = wanted[next]
        }
        // A place that overlaps with the one before is gone back to.
        let isNear = one.offsets.lowerBound > offset && one.offsets.lowerBound - offset <= Self.gap
        return (findings, isNear ? .goOn : .start(one.offsets.lowerBound))
    }

    /// Nothing stands at or behind this offset. `nil`: there was more, so it is to be asked again where the log ends;
    /// another broker may just have begun to lead it.
    mutating func ended(_ offset: Int64) -> [Finding]? {
        if offset < end { return nil }
        var findings: [Finding] = []
        while next < wanted.count {
            close(
                &findings,
                wanted[next].offsets.lowerBound < offset
                    ? "its offset has no record any more" : "the log ends at \(offset)")
        }
        return findings
    }

    /// What comes next cannot be read.
    mutating func failed(_ reason: String) -> (findings: [Finding], step: Step) {
        guard next < wanted.count else { return ([], .done) }
        let finding = Finding.unreadable(wanted[next], reason)
        pass()
        return ([finding], next < wanted.count ? .start(wanted[next].offsets.lowerBound) : .done)
    }

    private mutating func close(_ findings: inout [Finding], _ reason: String) {
        if !hasSome { findings.append(.missing(wanted[next], reason)) }
        pass()
    }

    private mutating func pass() {
        next += 1
        hasSome = false
    }
}
