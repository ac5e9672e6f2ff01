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

    @Test func oneThatCameAsItWasWrittenIsPassedByAtOnce() {
        var failures = BatchFailures()
        let batch = UnreadableBatch(5...7, size: 100, isTooLarge: false, isAsWritten: true)
        #expect(failures.failed([batch]) == batch)
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

    @Test func whereOneEndsIsAskedForAtTheThirdFailureAndAgainWhereNoAnswerCame() {
        var failures = BatchFailures()
        let open = BatchFailure.Batch(baseOffset: 5, size: 100)
        #expect(failures.failed(open, nowNs: 1) == false)
        #expect(failures.failed(BatchFailure.Batch(baseOffset: 5, size: 99), nowNs: 1) == false)
        for _ in 0..<2 { #expect(failures.failed(open, nowNs: 2) == false) }
        #expect(failures.ended(open, last: 7) == nil)
        #expect(failures.failed(open, nowNs: 3) == true)
        #expect(failures.failed(open, nowNs: 4) == false)
        #expect(failures.failed(open, nowNs: 3 + BatchFailures.askEveryNs) == true)
        #expect(failures.failed(open, nowNs: 4 + BatchFailures.askEveryNs) == false)
    }

    @Test func anAnswerCountsOnlyForTheBatchThatIsWaitedFor() {
        var failures = BatchFailures()
        let open = BatchFailure.Batch(baseOffset: 5, size: 100)
        for _ in 0..<3 { _ = failures.failed(open, nowNs: 1) }
        #expect(failures.ended(BatchFailure.Batch(baseOffset: 5, size: 99), last: 7) == nil)
        #expect(failures.ended(BatchFailure.Batch(baseOffset: 4, size: 100), last: 7) == nil)
        #expect(failures.ended(open, last: 4) == nil)
        let batch = Self.batch(5...7, tooLarge: false)
        #expect(failures.ended(open, last: 7) == batch)
        failures.pass(batch)
        #expect(failures.ended(open, last: 7) == nil)
        #expect(failures.passed(of: open) == 5...7)
        #expect(failures.passed(of: BatchFailure.Batch(baseOffset: 8, size: 100)) == nil)
    }

    /// A log was cut, and another batch begins where one was passed by.
    @Test(arguments: [Int64(6), 7, 9]) func oneOfAnotherSizeAtTheSameOffsetIsAnotherBatch(last: Int64) {
        var failures = BatchFailures()
        failures.pass(Self.batch(5...7, tooLarge: false))
        let other = BatchFailure.Batch(baseOffset: 5, size: 101)
        #expect(failures.passed(of: other) == nil)
        for _ in 0..<2 { #expect(failures.failed(other, nowNs: 1) == false) }
        #expect(failures.failed(other, nowNs: 1) == true)
        let ended = failures.ended(other, last: last)
        #expect(ended?.offsets == 5...max(7, last))
        if let ended { failures.pass(ended) }
        #expect(failures.passed(of: other) == 5...max(7, last))
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

/// What is made of such failures, one partition's.
struct BatchPassingTests {
    private let large = UnreadableBatch(5...7, size: 100, isTooLarge: true)
    private let damaged = UnreadableBatch(8...9, size: 50, isTooLarge: false)
    private let open = BatchFailure.Batch(baseOffset: 10, size: 70)

    @Test func whileOneIsToBePassedByNoOtherTakesItsPlace() {
        var passing = BatchPassing()
        #expect(passing.failed([large]) == .none)
        #expect(passing.failed([UnreadableBatch(20...21, size: 10, isTooLarge: true)]) == .none)
        #expect(passing.failed(open, nowNs: 0) == .none)
        #expect(passing.unreadable == large)
        passing.pass(large)
        #expect(passing.unreadable == nil)
        #expect(passing.failed([large]) == .passed(5...7), "its failure was on its way before the seek")
    }

    @Test func oneThatIsLeftIsMetAgain() {
        var passing = BatchPassing()
        #expect(passing.failed([large]) == .none)
        passing.leave()
        #expect(passing.unreadable == nil)
        #expect(passing.failed([damaged]) == .again(isLasting: false))
        #expect(passing.failed([damaged]) == .again(isLasting: true))
        #expect(passing.failed([large]) == .none)
        #expect(passing.unreadable == large, "it was not passed by")
    }

    @Test func anEndThatComesLateTakesNoOthersPlace() {
        var passing = BatchPassing()
        let findings = (0..<3).map { passing.failed(open, nowNs: $0) }
        #expect(findings == [.again(isLasting: false), .again(isLasting: true), .endUnknown(isLasting: true)])
        #expect(passing.failed([large]) == .none)
        passing.ended(open, last: 12)
        #expect(passing.unreadable == large)
        passing.leave()
        passing.ended(open, last: 12)
        #expect(passing.unreadable?.offsets == 10...12)
    }
}
