import Kafka
import Testing

@testable import Worker

/// Which logs are taken for another one, of what their leaders answer.
struct LogMarksTests {
    private static let place = TopicPartition("requests", 0)

    /// A log by its records' timestamps, and the watch that looks at it.
    private struct Log {
        var stamps: [Int64] = []
        var start = 0
        var isSilent = false
        var marks = LogMarks()
        /// Milliseconds of both clocks.
        var nowMs: Int64 = 1_000_000

        mutating func write(_ count: Int, stampedMs: Int64? = nil) {
            stamps += Array(repeating: stampedMs ?? nowMs, count: count)
        }

        mutating func look(afterMs: Int64 = 5_000) -> [LogMarks.Change] {
            nowMs += afterMs
            let (log, isSilent) = (self, isSilent)
            return marks.look(
                ends: isSilent ? [:] : [place: Int64(stamps.count)], nowNs: nowMs * 1_000_000, wallMs: nowMs
            ) { times in
                guard !isSilent, let timeMs = times[place] else { return [:] }
                let first = log.stamps.indices.first { $0 >= log.start && log.stamps[$0] >= timeMs }
                return [place: first.map { .at(Int64($0)) } ?? .none]
            }
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
}
