internal import Kafka

/// Which batch of a partition is to be passed by, from what librdkafka says again and again of one that it cannot
/// unpack.
struct BatchFailures {
    /// What was passed by last.
    private var passed: ClosedRange<Int64>?
    /// Its size: where only its first offset is told, a batch of a log that was cut may begin there, too, and go on
    /// further.
    private var passedSize = 0
    private var suspect: ClosedRange<Int64>?
    private var failures = 0
    private var open: Open?

    /// A batch whose end is not known.
    private struct Open {
        let batch: BatchFailure.Batch
        var failures = 0
        /// When its end was asked for last (monotonic).
        var askedNs: Int64?
    }

    /// A batch that looks damaged is asked for so often: what was damaged on its way is whole the next time.
    static let damagedLimit = 3
    /// Where no answer came, the end of a batch is asked for again after this time.
    static let askEveryNs: Int64 = 15_000_000_000

    /// Whether one has failed more than once: what was damaged on its way is whole the next time, and nothing to name.
    var isLasting: Bool { max(failures, open?.failures ?? 0) > 1 }

    /// What was passed by, where a failure can only be of that.
    func passed(of batches: [UnreadableBatch]) -> ClosedRange<Int64>? {
        guard let passed, !batches.isEmpty,
            batches.allSatisfy({
                $0.offsets.lowerBound == passed.lowerBound && $0.offsets.upperBound <= passed.upperBound
            })
        else { return nil }
        return passed
    }

    /// Takes one failure; returns the batch that nobody will ever read, where it is known.
    ///
    /// - Parameter batches: all that it may have been, with the same first offset. The shortest is passed by first:
    ///   where it was another one, that fails again.
    mutating func failed(_ batches: [UnreadableBatch]) -> UnreadableBatch? {
        let batch =
            batches
            .filter { batch in
                guard let passed, passed.lowerBound == batch.offsets.lowerBound else { return true }
                return batch.offsets.upperBound > passed.upperBound
            }
            .min { $0.offsets.upperBound < $1.offsets.upperBound }
        guard let batch else { return nil }
        if suspect != batch.offsets {
            suspect = batch.offsets
            failures = 0
        }
        failures += 1
        return batch.isTooLarge || batch.isAsWritten || failures >= Self.damagedLimit ? batch : nil
    }

    /// The offsets of `batch` that were not passed by before.
    func fresh(of batch: UnreadableBatch) -> ClosedRange<Int64> {
        guard let passed, passed.lowerBound == batch.offsets.lowerBound, passed.upperBound < batch.offsets.upperBound
        else { return batch.offsets }
        return (passed.upperBound + 1)...batch.offsets.upperBound
    }

    mutating func pass(_ batch: UnreadableBatch) {
        passed = batch.offsets
        passedSize = batch.size
        suspect = nil
        open = nil
    }

    // MARK: Batches whose end is not known

    /// What was passed by, where a failure can only be of that.
    func passed(of batch: BatchFailure.Batch) -> ClosedRange<Int64>? {
        passed.flatMap { $0.lowerBound == batch.baseOffset && passedSize == batch.size ? $0 : nil }
    }

    /// Takes one failure; true: it is time to ask where the batch ends.
    mutating func failed(_ batch: BatchFailure.Batch, nowNs: Int64) -> Bool {
        var state = open.flatMap { $0.batch == batch ? $0 : nil } ?? Open(batch: batch)
        defer { open = state }
        state.failures = min(state.failures + 1, Self.damagedLimit)
        guard state.failures >= Self.damagedLimit, state.askedNs.map({ nowNs - $0 >= Self.askEveryNs }) ?? true else {
            return false
        }
        state.askedNs = nowNs
        return true
    }

    /// Takes an answer to that; `nil`: it is of none that is waited for.
    func ended(_ batch: BatchFailure.Batch, last: Int64) -> UnreadableBatch? {
        guard let open, open.batch == batch, open.askedNs != nil, last >= batch.baseOffset else { return nil }
        // What was passed by is not gone back to.
        let end = passed.map { $0.lowerBound == batch.baseOffset ? max(last, $0.upperBound) : last } ?? last
        return UnreadableBatch(batch.baseOffset...end, size: batch.size, isTooLarge: false)
    }
}
