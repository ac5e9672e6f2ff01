import Testing

@testable import Kafka

/// Who is asked about what, without a broker.
struct PartitionLeadersTests {
    private let all = (0..<6 as Range<Int32>).map { TopicPartition("a", $0) }

    private func begin(_ leaders: inout PartitionLeaders, _ numbers: [Int32]) {
        leaders.beginRound([TopicDescription(name: "a", partitions: numbers.count, leaders: numbers)])
    }

    /// Asks about all, of leaders of which some are silent; what was asked is put down.
    private func ask(
        _ leaders: inout PartitionLeaders, _ numbers: [Int32], silent: Set<Int32>, _ asked: inout [[Int32]]
    ) -> [Int32] {
        asked = []
        let found: [TopicPartition: Int64] = leaders.ask(all) { partitions in
            asked.append(partitions.map(\.partition).sorted())
            let isAnswered = partitions.allSatisfy { !silent.contains(numbers[Int($0.partition)]) }
            return isAnswered ? Dictionary(uniqueKeysWithValues: partitions.map { ($0, 1) }) : nil
        }
        return found.keys.map(\.partition).sorted()
    }

    @Test func `A silent leader is asked by itself, once in a round, until it answers`() {
        var leaders = PartitionLeaders()
        var asked: [[Int32]] = []
        let numbers: [Int32] = [1, 2, 3, 1, 2, -1]
        begin(&leaders, numbers)
        #expect(ask(&leaders, numbers, silent: [], &asked) == [0, 1, 2, 3, 4])
        #expect(asked == [[0, 1, 2, 3, 4]], "who has no leader is not asked for, as that would hide the others, too")
        #expect(ask(&leaders, numbers, silent: [2], &asked) == [0, 2, 3])
        #expect(asked == [[0, 1, 2, 3, 4], [0, 3], [1, 4], [2]])
        #expect(ask(&leaders, numbers, silent: [2], &asked) == [0, 2, 3])
        #expect(asked == [[0, 2, 3]])
        begin(&leaders, numbers)
        #expect(ask(&leaders, numbers, silent: [2], &asked) == [0, 2, 3])
        #expect(asked == [[0, 2, 3], [1, 4]])
        #expect(ask(&leaders, numbers, silent: [], &asked) == [0, 2, 3])
        begin(&leaders, numbers)
        #expect(ask(&leaders, numbers, silent: [], &asked) == [0, 1, 2, 3, 4])
        #expect(ask(&leaders, numbers, silent: [], &asked) == [0, 1, 2, 3, 4])
        #expect(asked == [[0, 1, 2, 3, 4]])
    }

    @Test func `Of many silent leaders three are waited for in one question, and the others come after them`() {
        var leaders = PartitionLeaders()
        var asked: [[Int32]] = []
        let numbers: [Int32] = [1, 2, 3, 4, 5, 6]
        begin(&leaders, numbers)
        #expect(ask(&leaders, numbers, silent: [1, 2, 3, 4], &asked).isEmpty)
        #expect(asked == [[0, 1, 2, 3, 4, 5], [0], [1], [2]])
        #expect(ask(&leaders, numbers, silent: [1, 2, 3, 4], &asked) == [4, 5])
        #expect(asked == [[3, 4, 5], [3], [4], [5]])
    }

    @Test func `Leaders that nobody told of are asked together`() {
        var leaders = PartitionLeaders()
        var asked: [[Int32]] = []
        #expect(ask(&leaders, [1, 1, 1, 1, 1, 1], silent: [], &asked) == [0, 1, 2, 3, 4, 5])
        #expect(ask(&leaders, [1, 1, 1, 1, 1, 1], silent: [1], &asked).isEmpty)
        #expect(asked.count == 1)
    }
}
