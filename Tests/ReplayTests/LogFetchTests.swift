import Testing

@testable import Replay

/// How a log is read for what is wanted of it: against a log of which some offsets have no record.
@Suite struct LogFetchTests {
    private typealias Wanted = LogFetch.Wanted

    /// A log and its reader; counts how often it had to go somewhere.
    private final class Log {
        let records: Set<Int64>
        let bounds: Range<Int64>
        var starts = 0
        var read = 0

        init(records: Set<Int64>, bounds: Range<Int64>) {
            self.records = records
            self.bounds = bounds
        }

        func run(_ wanted: [Wanted]) -> [LogFetch.Finding] {
            var fetch = LogFetch(wanted)
            var (findings, step) = fetch.begin(bounds)
            var position: Int64 = -1
            while true {
                switch step {
                case .done: return findings
                case .start(let offset):
                    starts += 1
                    position = offset
                case .goOn: break
                }
                guard let next = (position..<max(position, bounds.upperBound)).first(where: { records.contains($0) })
                else {
                    return findings + (fetch.ended(bounds.upperBound) ?? [])
                }
                read += 1
                position = next + 1
                let told = fetch.took(next)
                findings += told.findings
                step = told.step
            }
        }
    }

    private func one(_ offset: Int64, _ items: [Int] = [0]) -> Wanted {
        Wanted(offsets: offset...offset, items: items)
    }

    @Test func nearPlacesAreReadInOnePass() {
        let log = Log(records: Set(0..<10_000), bounds: 0..<10_000)
        let wanted = stride(from: 0, to: 10_000, by: 10).map { one(Int64($0), [$0]) }
        #expect(log.run(wanted) == wanted.map { .found($0) })
        #expect(log.starts == 1 && log.read == 9_991)
    }

    @Test func farPlacesAreGoneTo() {
        let log = Log(records: Set(0..<100_000), bounds: 0..<100_000)
        let wanted = stride(from: 7, to: 100_000, by: 5_000).map { one(Int64($0)) }
        #expect(log.run(wanted) == wanted.map { .found($0) })
        #expect(log.starts == 20 && log.read == 20)
        // At the limit it reads on.
        log.starts = 0
        _ = log.run([one(5), one(5 + LogFetch.gap)])
        #expect(log.starts == 1)
        _ = log.run([one(5), one(6 + LogFetch.gap)])
        #expect(log.starts == 3)
    }

    @Test func whatIsNotThereIsNamedWithItsReason() {
        let log = Log(records: [10, 12, 15], bounds: 10..<20)
        #expect(
            log.run([one(3), one(10), one(11), one(12), one(13), one(15), one(17), one(25)]) == [
                .missing(one(3), "the log begins at 10"), .found(one(10)),
                .missing(one(11), "its offset has no record any more"), .found(one(12)),
                .missing(one(13), "its offset has no record any more"), .found(one(15)),
                .missing(one(17), "its offset has no record any more"), .missing(one(25), "the log ends at 20"),
            ])
        let empty = Log(records: [], bounds: 10..<10)
        #expect(
            empty.run([one(9), one(10)]) == [
                .missing(one(9), "the log begins at 10"), .missing(one(10), "the log ends at 10"),
            ])
        #expect(empty.starts == 0)
        var fetch = LogFetch([one(1), one(2)])
        let given = fetch.giveUp("gone")
        #expect(given == [.missing(one(1), "gone"), .missing(one(2), "gone")])
    }

    /// Retention takes what was to be read while it is read.
    @Test func aLogThatLosesItsBeginning() {
        var fetch = LogFetch([one(1), one(5), one(9)])
        let begun = fetch.begin(0..<10)
        #expect(begun.step == .start(1))
        let again = fetch.begin(7..<10)
        #expect(again.step == .start(9))
        #expect(again.findings == [.missing(one(1), "the log begins at 7"), .missing(one(5), "the log begins at 7")])
        let beyond = fetch.begin(20..<20)
        #expect(beyond.step == .done && beyond.findings == [.missing(one(9), "the log begins at 20")])
    }

    @Test func aLogThatSeemsShorterIsAskedAgain() {
        var fetch = LogFetch([one(1), one(9)])
        let begun = fetch.begin(0..<10)
        #expect(begun.step == .start(1))
        let early = fetch.ended(5)
        #expect(early == nil && fetch.remaining == 2)
        let shorter = fetch.begin(0..<5)
        #expect(shorter.step == .start(1))
        let ended = fetch.ended(5)
        #expect(
            ended == [.missing(one(1), "its offset has no record any more"), .missing(one(9), "the log ends at 5")])
    }

    @Test func rangesHaveWhatIsThere() {
        let log = Log(records: [10, 12, 15], bounds: 10..<20)
        let all = Wanted(offsets: 10...12, items: [0])
        let rest = Wanted(offsets: 13...18, items: [1])
        let none = Wanted(offsets: 16...19, items: [2])
        #expect(
            log.run([all, rest, none]) == [
                .found(all), .found(all), .found(rest), .missing(none, "its offset has no record any more"),
            ])
        let before = Wanted(offsets: 5...11, items: [0])
        #expect(log.run([before]) == [.found(before)])
        // Some that lie in another's are gone back to.
        #expect(log.run([Wanted(offsets: 10...15, items: [0]), one(12)]).count == 4)
    }

    @Test func whatCannotBeReadIsPassedBy() {
        var fetch = LogFetch([one(5), one(6), one(2_000)])
        let begun = fetch.begin(0..<9_000)
        #expect(begun.step == .start(5))
        var told = fetch.failed("damaged")
        #expect(told.findings == [.unreadable(one(5), "damaged")] && told.step == .start(6))
        told = fetch.failed("damaged")
        #expect(told.findings == [.unreadable(one(6), "damaged")] && told.step == .start(2_000))
        let found = fetch.took(2_000)
        #expect(found.findings == [.found(one(2_000))] && found.step == .done)
        let last = fetch.failed("again")
        #expect(last.step == .done)
    }

    /// Whatever is wanted of whatever log: each is told once, found exactly where it is.
    @Test(arguments: 0..<200)
    func anyWishesOfAnyLog(seed: UInt64) {
        var generator = Numbers(state: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        let end = Int64(generator.below(3_000)) + 1
        let first = Int64(generator.below(Int(end)))
        let density = generator.below(100) + 1
        let log = Log(records: Set((first..<end).filter { _ in generator.below(100) < density }), bounds: first..<end)
        var wanted: [Wanted] = []
        for number in 0..<generator.below(60) {
            wanted.append(one(Int64(generator.below(Int(end) + 50)), [number]))
        }
        wanted.sort { $0.offsets.lowerBound < $1.offsets.lowerBound }
        wanted = wanted.reduce(into: []) { if $0.last?.offsets != $1.offsets { $0.append($1) } }
        let findings = log.run(wanted)
        #expect(findings.count == wanted.count)
        for (finding, wish) in zip(findings, wanted) {
            if log.records.contains(wish.offsets.lowerBound) {
                #expect(finding == .found(wish))
            } else if case .missing(wish, _) = finding {
            } else {
                Issue.record("\(finding) for \(wish)")
            }
        }
        #expect(log.starts <= wanted.count)
    }

    private struct Numbers {
        var state: UInt64

        mutating func below(_ limit: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return limit == 0 ? 0 : Int(state % UInt64(limit))
        }
    }
}
