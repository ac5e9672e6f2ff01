import Kafka
import Testing

@testable import Worker

/// Which batch is passed by, from failures alone.
struct BatchFailuresTests {
    private static func batch(_ offsets: ClosedRange<Int64>, tooLarge: Bool = true) -> UnreadableBatch {
        UnreadableBatch(offsets, size: 100, isTooLarge: tooLarge)
    }

    @Test func oneThatIsTooLargeIsPassedByAtOnce() {
        var failures = BatchFailures()
        #expect(failures.failed([Self.batch(5...7)]) == Self.batch(5...7))
    }

    @Test func oneThatLooksDamagedIsAskedForThreeTimes() {
        var failures = BatchFailures()
        let damaged = Self.batch(5...7, tooLarge: false)
        #expect(failures.failed([damaged]) == nil)
        #expect(failures.failed([damaged]) == nil)
        #expect(failures.failed([damaged]) == damaged)
    }

    @Test func failuresOfAnotherBatchDoNotCountForIt() {
        var failures = BatchFailures()
        let damaged = Self.batch(5...7, tooLarge: false)
        let other = Self.batch(8...9, tooLarge: false)
        for batch in [damaged, damaged, other, other, damaged] { #expect(failures.failed([batch]) == nil) }
    }

    @Test func oneThatIsPutOffIsNeverPassedBy() {
        var failures = BatchFailures()
        for _ in 0..<10 { #expect(failures.failed([]) == nil) }
    }

    /// Partitions may have batches that differ only in how many offsets they have.
    @Test func ofBatchesAlikeTheShorterComesFirst() {
        var failures = BatchFailures()
        let alike = [Self.batch(0...99), Self.batch(0...9)]
        #expect(failures.failed(alike) == Self.batch(0...9))
        #expect(failures.fresh(of: alike[1]) == 0...9)
        failures.pass(alike[1])
        #expect(failures.passed(of: alike) == nil)
        #expect(failures.failed(alike) == alike[0])
        #expect(failures.fresh(of: alike[0]) == 10...99)
        failures.pass(alike[0])
        #expect(failures.failed(alike) == nil)
        #expect(failures.passed(of: alike) == 0...99)
        #expect(failures.passed(of: []) == nil)
        #expect(failures.failed([Self.batch(100...100)]) == Self.batch(100...100))
    }
}
