import Kafka
import Testing

@testable import Worker

/// Which partitions count as held up by a transaction, of what the watch and the last fetch told.
struct OpenTransactionsTests {
    private static let place = TopicPartition("requests", 0)
    private static let other = TopicPartition("requests", 1)
    private static let second: Int64 = 1_000_000_000

    private func ends(_ partition: TopicPartition, _ lastStable: Int64?, _ high: Int64) -> OpenTransactions.Ends {
        OpenTransactions.Ends(partition: partition, lastStable: lastStable, highWatermark: high)
    }

    /// The watch tells every 5 s, the core looks 4 times a second: `at` says what is so, in seconds.
    private func firstStall(
        withinSeconds limit: Double, at: (Double) -> (lastStable: Int64, high: Int64)
    ) -> (seconds: Double, stall: OpenTransactions.Stall)? {
        var open = OpenTransactions()
        var seconds = 0.0
        while seconds <= limit {
            let told = (seconds / 5).rounded(.down) * 5
            let stalls = open.look(
                [ends(Self.place, at(told).lastStable, at(seconds).high), ends(Self.other, 7, 7)],
                toldNs: Int64(told * 1e9), nowNs: Int64(seconds * 1e9))
            if let stall = stalls.first { return (seconds, stall) }
            seconds += 0.25
        }
        return nil
    }

    @Test(arguments: [20.0, 21.5, 22.9, 23.1, 24.75])
    func `A last stable offset that stays while the log goes on is told within ten seconds, for its partition`(
        _ begin: Double
    ) throws {
        let found = try #require(
            firstStall(withinSeconds: 60) { $0 < begin ? (100, 100) : (100, 150) })
        #expect(found.seconds - begin <= 10, "\(found.seconds)")
        #expect(found.stall == OpenTransactions.Stall(partition: Self.place, offset: 100, records: 50))
        let fault = found.stall.fault(bootstrapServers: "broker:9092")
        #expect(fault.subject == "partition requests/0")
        #expect(fault.text.contains("50 offsets from 100 on"))
        #expect(fault.advice.contains("--topic requests --partition 0 --start-offset 100"))
    }

    @Test func `Transactions that end, and records that go on being written, are no stall`() {
        // Of a second each, and a hundred records a second.
        #expect(firstStall(withinSeconds: 300) { (Int64($0) * 100, Int64($0 * 100)) } == nil)
        #expect(firstStall(withinSeconds: 300) { (Int64($0 * 100), Int64($0 * 100)) } == nil)
        // One a minute, that takes four seconds.
        let begin = { (seconds: Double) in (seconds / 60).rounded(.down) }
        #expect(
            firstStall(withinSeconds: 300) { seconds in
                let isOpen = seconds - begin(seconds) * 60 < 4
                return (Int64(begin(seconds)) * 10 + (isOpen ? 0 : 10), Int64(begin(seconds)) * 10 + 10)
            } == nil)
    }

    @Test func `What is not known is no stall, and one is over when the offset moves`() {
        var open = OpenTransactions()
        #expect(open.look([ends(Self.place, nil, 150)], toldNs: 9 * Self.second, nowNs: 0).isEmpty)
        #expect(open.look([ends(Self.place, 100, -1)], toldNs: 9 * Self.second, nowNs: 0).isEmpty)
        #expect(open.look([ends(Self.place, 100, 150)], toldNs: 0, nowNs: 0).isEmpty)
        #expect(open.look([ends(Self.place, 100, 150)], toldNs: 5 * Self.second, nowNs: 6 * Self.second).count == 1)
        #expect(open.look([ends(Self.place, 150, 150)], toldNs: 9 * Self.second, nowNs: 9 * Self.second).isEmpty)
        // Read by another meanwhile: it counts from its return.
        #expect(open.look([ends(Self.place, 150, 200)], toldNs: 9 * Self.second, nowNs: 10 * Self.second).isEmpty)
        #expect(open.look([], toldNs: 15 * Self.second, nowNs: 15 * Self.second).isEmpty)
        #expect(open.look([ends(Self.place, 150, 200)], toldNs: 15 * Self.second, nowNs: 16 * Self.second).isEmpty)
    }
}
