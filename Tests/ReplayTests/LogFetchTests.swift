import Testing

@testable import Replay

/// How a log is read for the records that are wanted of it, against a log of which some offsets have no record.
@Suite struct LogFetchTests {
    /// A log and its reader, which counts seeks.
    private final class Log {
        let records: Set<Int64>
        let bounds: Range<Int64>
        var seeks = 0
        var read = 0
        var missing: [Int64] = []

        init(_ records: some Sequence<Int64>, in bounds: Range<Int64>) {
            self.records = Set(records)
            self.bounds = bounds
        }

        /// Returns the offsets that were found.
        func run(_ wanted: [Int64]) -> [Int64] {
            (seeks, read, missing) = (0, 0, [])
            var fetch = LogFetch(wanted)
            var found: [Int64] = []
            var (missing, step) = fetch.begin(bounds)
            self.missing = missing
            var position: Int64 = -1
            while true {
                switch step {
                case .done: return found
                case .seek(let offset):
                    seeks += 1
                    position = offset
                case .goOn: break
                }
                guard let next = (position..<max(position, bounds.upperBound)).first(where: { records.contains($0) })
                else {
                    #expect(fetch.isPassed(bounds.upperBound))
                    self.missing += fetch.wanted
                    return found
                }
                read += 1
                position = next + 1
                let isFound: Bool
                (missing, isFound, step) = fetch.read(next)
                self.missing += missing
                if isFound { found.append(next) }
            }
        }
    }

    @Test func `Near records are read in one pass, far ones by seeking`() {
        let log = Log(0..<100_000, in: 0..<100_000)
        let near = Array(stride(from: 0, to: 10_000, by: 10)).map { Int64($0) }
        #expect(log.run(near.reversed()) == near && log.seeks == 1 && log.read == 9_991)
        let far = Array(stride(from: 7, to: 100_000, by: 5_000)).map { Int64($0) }
        #expect(log.run(far) == far && log.seeks == 20 && log.read == 20)
        _ = log.run([5, 5 + LogFetch.gap])
        #expect(log.seeks == 1)
        _ = log.run([5, 6 + LogFetch.gap])
        #expect(log.seeks == 2)
    }

    @Test func `What is not there is missing`() {
        let log = Log([10, 12, 15], in: 10..<20)
        #expect(log.run([3, 10, 11, 12, 13, 15, 17, 25]) == [10, 12, 15])
        #expect(log.missing == [3, 25, 11, 13, 17])
        let empty = Log([], in: 10..<10)
        #expect(empty.run([9, 10]) == [] && empty.missing == [9, 10] && empty.seeks == 0)
    }

    @Test func `A log may lose its beginning while it is read, or seem shorter`() {
        var fetch = LogFetch([1, 5, 9])
        #expect(fetch.begin(0..<10).step == .seek(1))
        #expect(!fetch.isPassed(9) && fetch.isPassed(10))
        let again = fetch.begin(7..<10)
        #expect(again.missing == [1, 5] && again.step == .seek(9))
        let beyond = fetch.begin(20..<20)
        #expect(beyond.missing == [9] && beyond.step == .done)
    }

    @Test func `What cannot be read is passed by`() {
        var fetch = LogFetch([5, 6, 2_000])
        #expect(fetch.begin(0..<9_000).step == .seek(5))
        #expect(fetch.skip() == .seek(6))
        #expect(fetch.skip() == .seek(2_000))
        let last = fetch.read(2_000)
        #expect(last.isFound && last.step == .done && fetch.skip() == .done)
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `Whatever is wanted of whatever log is found or missing`(seed: UInt64) {
        var state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1
        func below(_ limit: Int64) -> Int64 {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return limit == 0 ? 0 : Int64(state % UInt64(limit))
        }
        let end = below(3_000) + 1
        let first = below(end)
        let density = below(100) + 1
        let log = Log((first..<end).filter { _ in below(100) < density }, in: first..<end)
        let wanted = Set((0..<below(60)).map { _ in below(end + 50) })
        #expect(log.run(Array(wanted)) == wanted.filter { log.records.contains($0) }.sorted())
        #expect(log.missing.sorted() == wanted.filter { !log.records.contains($0) }.sorted())
        #expect(log.seeks <= wanted.count)
    }
}
