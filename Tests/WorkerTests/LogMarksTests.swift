import Kafka
import Testing

@testable import Worker

/// Which logs are taken for another one, of what their leaders answer.
struct LogMarksTests {
    private static let place = TopicPartition("requests", 0)

    /// A log by its records' timestamps, and the watch that looks at it.
    private struct Log {
        var stamps: [Int64] = []
        /// Offsets that compaction took.
        var taken: Set<Int> = []
        var start = 0
        var isSilent = false
        /// `nil`: the brokers do not tell.
        var isCompacted: Bool? = false
        /// A segment without timestamps is in front, with a file that was written late.
        var isHiddenFromTimes = false
        /// No record can be fetched.
        var isUnreadable = false
        /// How often the offsets of witnesses were looked at.
        let looks = Looks()
        /// Read since the last look.
        var read: LogMarks.Witness?
        var marks = LogMarks()
        /// Milliseconds of both clocks.
        var nowMs: Int64 = 10_000_000_000

        mutating func write(_ count: Int, stampedMs: Int64? = nil) {
            stamps += Array(repeating: stampedMs ?? nowMs, count: count)
        }

        final class Looks {
            var count = 0
        }

        /// The record at `offset` is read.
        mutating func read(_ offset: Int) {
            guard stamps[offset] > read?.timeMs ?? 0 else { return }
            read = LogMarks.Witness(offset: Int64(offset), timeMs: stamps[offset], readNs: nowMs * 1_000_000)
        }

        mutating func look(afterMs: Int64 = 5_000) -> [LogMarks.Change] {
            nowMs += afterMs
            let log = self
            defer { read = nil }
            return marks.look(
                ends: isSilent ? [:] : [place: Int64(stamps.count)], read: read.map { [place: $0] } ?? [:],
                nowNs: nowMs * 1_000_000, wallMs: nowMs,
                LogMarks.Questions(
                    firstRecords: { times in
                        guard !log.isSilent, let timeMs = times[place] else { return [:] }
                        if log.isHiddenFromTimes { return [place: .none] }
                        let first = log.stamps.indices.first { $0 >= log.start && log.stamps[$0] >= timeMs }
                        return [place: first.map { .at(Int64($0)) } ?? .none]
                    },
                    starts: { log.isSilent || $0 != [place] ? [:] : [place: Int64(log.start)] },
                    uncompacted: { log.isCompacted == false ? $0 : [] },
                    recordsAt: { places in
                        log.looks.count += 1
                        guard !log.isSilent, !log.isUnreadable, let offset = places.first.map({ Int($0.offset) }),
                            offset >= log.start, offset <= log.stamps.count
                        else { return [:] }
                        let first = log.stamps.indices.first { $0 >= offset && !log.taken.contains($0) }
                        return [
                            place: first.map { .record(offset: Int64($0), timeMs: log.stamps[$0]) }
                                ?? .end(offset: Int64(log.stamps.count))
                        ]
                    }))
        }
    }

    @Test func `A log that grows, pauses and loses its oldest records stays the same`() {
        var log = Log()
        for round in 0..<100 {
            #expect(log.look().isEmpty)
            if round % 3 == 0 { log.write(7) }
            if round % 10 == 0 { log.write(2, stampedMs: log.nowMs + 3_600_000) }
            if round % 7 == 0 { log.write(2, stampedMs: log.nowMs - 3_600_000) }
            if round % 20 == 19 { log.start = log.stamps.count - 5 }
            if round == 50 { log.start = log.stamps.count }
            if round % 9 == 0 { #expect(log.look(afterMs: 1).isEmpty) }
        }
    }

    @Test(arguments: [1, 300, 301, 700])
    func `A log made anew between two looks is told once, however long it is`(_ count: Int) {
        var log = Log()
        log.write(300)
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        let lastMs = log.nowMs
        log.stamps = []
        log.nowMs += 10
        log.write(count)
        #expect(
            log.look() == [LogMarks.Change(partition: Self.place, from: 0, unchangedNs: lastMs * 1_000_000)])
        for _ in 0..<30 { #expect(log.look().isEmpty) }
        log.stamps = []
        log.write(5)
        #expect(log.look().map(\.from) == [0], "nor is the next one missed")
    }

    @Test func `It is told although it was gone for some looks`() {
        var log = Log()
        log.write(300)
        for _ in 0..<3 { _ = log.look() }
        log.isSilent = true
        for _ in 0..<20 { #expect(log.look().isEmpty) }
        log.isSilent = false
        log.stamps = []
        log.write(400)
        #expect(log.look().map(\.from) == [0])
    }

    @Test(arguments: 24..<50)
    func `Producers whose clocks are behind by less than a minute hide nothing`(_ looks: Int) {
        var log = Log()
        log.write(300)
        for _ in 0..<looks { _ = log.look() }
        log.stamps = []
        log.write(100, stampedMs: log.nowMs - 50_000)
        log.write(300)
        #expect(log.look().map(\.from) == [0])
    }

    @Test func `Of a log that was cut and written on only what is new is told`() {
        var log = Log()
        log.write(300)
        for _ in 0..<3 { _ = log.look() }
        log.stamps.removeLast(10)
        log.nowMs += 10
        log.write(40)
        #expect(log.look().map(\.from) == [290])
    }

    /// As a mirror copies them: the times are those of the records that it read.
    @Test(arguments: [301, 700], [-3_600_000, -50_000] as [Int64])
    func `A log made anew with records of old times is told by a record that was read and is not there`(
        _ count: Int, _ behindMs: Int64
    ) {
        var log = Log()
        #expect(log.look().isEmpty)
        log.write(300)
        for offset in 0..<300 { log.read(offset) }
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        let lastMs = log.nowMs
        log.stamps = []
        log.write(count, stampedMs: log.nowMs + behindMs)
        #expect(log.look().isEmpty, "one look may be mistaken")
        // What is read of the new log does not take its place.
        log.read(count - 1)
        #expect(
            log.look() == [LogMarks.Change(partition: Self.place, from: 0, unchangedNs: lastMs * 1_000_000)])
        for _ in 0..<30 { #expect(log.look().isEmpty) }
    }

    @Test func `A mirror's log that has gone on to later times is told, too`() {
        var log = Log()
        let oldMs = log.nowMs - 3_600_000
        log.write(300, stampedMs: oldMs)
        log.read(299)
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        log.stamps = []
        log.write(100, stampedMs: oldMs - 1_000)
        log.write(250, stampedMs: oldMs + 1_000)
        log.read(340)
        #expect(log.look().map(\.from) + log.look().map(\.from) == [0])
        for _ in 0..<30 { #expect(log.look().isEmpty) }
    }

    @Test func `A record that retention or compaction may have taken, or that one look misses, tells nothing`() {
        var log = Log()
        log.write(300, stampedMs: log.nowMs - 10_000)
        log.write(1, stampedMs: log.nowMs - 5_000)
        log.read(300)
        log.write(300, stampedMs: log.nowMs - 10_000)
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        // A look that misses it, and one that does not.
        let whole = log.stamps
        log.stamps[300] = 0
        #expect(log.look().isEmpty)
        log.stamps = whole
        #expect(log.look().isEmpty)
        log.stamps[300] = 0
        #expect(log.look().isEmpty)
        log.start = 400
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        for isCompacted in [true, nil] {
            log.isCompacted = isCompacted
            log.write(1)
            let last = log.stamps.count - 1
            log.read(last)
            log.write(10, stampedMs: log.nowMs - 5_000)
            for _ in 0..<3 { #expect(log.look().isEmpty) }
            log.stamps[last] = 0
            for _ in 0..<5 { #expect(log.look().isEmpty) }
        }
    }

    @Test func `A log that is shorter than what was read of it is left to its reader`() {
        var log = Log()
        log.write(300)
        log.read(299)
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        log.stamps = []
        log.write(200, stampedMs: log.nowMs - 3_600_000)
        for _ in 0..<5 { #expect(log.look().isEmpty) }
        log.write(200, stampedMs: log.nowMs - 3_600_000)
        #expect(log.look().map(\.from) + log.look().map(\.from) == [0])
    }

    private static let witness = LogMarks.Witness(offset: 7, timeMs: 100, readNs: 1)

    @Test(
        arguments: [
            (nil, .unknown), (.record(offset: 7, timeMs: 100), .sameLog), (.record(offset: 7, timeMs: 99), .anotherLog),
            (.record(offset: 7, timeMs: -1), .anotherLog), (.record(offset: 8, timeMs: 100), .anotherLog),
            (.record(offset: 6, timeMs: 100), .unknown), (.end(offset: 7), .unknown), (.end(offset: 8), .anotherLog),
        ] as [(BatchProbe.RecordAt?, LogMarks.Verdict)])
    func `What stands at a witness's offset tells`(_ record: BatchProbe.RecordAt?, _ verdict: LogMarks.Verdict) {
        #expect(LogMarks.verdict(of: Self.witness, record) == verdict)
    }

    /// Kafka takes the file's time for the latest one of a segment without timestamps, and looks into no other.
    @Test func `A log of which brokers find nothing by times is the same while its record stands there`() {
        var log = Log()
        for _ in 0..<20 {
            log.write(5)
            log.read(log.stamps.count - 1)
            #expect(log.look().isEmpty)
        }
        log.isHiddenFromTimes = true
        for _ in 0..<200 { #expect(log.look().isEmpty) }
        #expect(log.looks.count > 10 && log.looks.count < 20, "once a minute, not at each look")
        // Records are read, of later times and of earlier ones.
        for round in 0..<40 {
            log.write(3, stampedMs: log.nowMs - (round % 2 == 0 ? 0 : 3_600_000))
            log.read(log.stamps.count - 1)
            #expect(log.look().isEmpty)
        }
        // Now it is made anew.
        log.stamps = []
        log.write(900, stampedMs: log.nowMs - 3_600_000)
        var told: [Int64] = []
        for _ in 0..<15 { told += log.look().map(\.from) }
        #expect(told == [0])
    }

    @Test func `Without an answer from the record's own offset there is no verdict, and it is asked for again`() {
        var log = Log()
        log.write(300)
        log.read(299)
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        log.isUnreadable = true
        log.stamps = []
        log.write(700, stampedMs: log.nowMs - 3_600_000)
        for _ in 0..<100 { #expect(log.look().isEmpty) }
        #expect(log.looks.count > 5 && log.looks.count < 20, "less and less often")
        log.isUnreadable = false
        var told: [Int64] = []
        for _ in 0..<15 { told += log.look().map(\.from) }
        #expect(told == [0])
    }

    /// Records of later times than the worker's clock, which a segment without timestamps hides for a while.
    @Test(arguments: [false, true])
    func `What speaks against a mark is no verdict while the record that was read stands above`(_ isUnreadable: Bool) {
        var log = Log()
        log.write(300, stampedMs: log.nowMs + 3_600_000)
        log.read(299)
        log.isHiddenFromTimes = true
        for _ in 0..<3 { #expect(log.look().isEmpty) }
        log.isHiddenFromTimes = false
        log.isUnreadable = isUnreadable
        for _ in 0..<10 { #expect(log.look().isEmpty) }
        log.isUnreadable = false
        for _ in 0..<10 { #expect(log.look().isEmpty) }
        log.stamps = []
        log.write(600)
        var told: [Int64] = []
        for _ in 0..<15 { told += log.look().map(\.from) }
        #expect(told == [0])
    }
}
