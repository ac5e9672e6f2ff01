internal import Kafka

/// Which batch of a partition is to be passed by, from what librdkafka says again and again of one that it cannot unpack.
struct BatchFailures {
    /// What was passed by last.
    private var passed: ClosedRange<Int64>?
    private var suspect: ClosedRange<Int64>?
    private var failures = 0

    /// A batch that looks damaged is asked for so often: what was damaged on its way is whole the next time.
    static let damagedLimit = 3

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
    /// - Parameter batches: all that it may have been, with the same first offset. The shortest is passed by first: where it was
    ///   another one, that fails again.
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
        return batch.isTooLarge || failures >= Self.damagedLimit ? batch : nil
    }

    /// The offsets of `batch` that were not passed by before.
    func fresh(of batch: UnreadableBatch) -> ClosedRange<Int64> {
        guard let passed, passed.lowerBound == batch.offsets.lowerBound, passed.upperBound < batch.offsets.upperBound
        else { return batch.offsets }
        return (passed.upperBound + 1)...batch.offsets.upperBound
    }

    mutating func pass(_ batch: UnreadableBatch) {
        passed = batch.offsets
        suspect = nil
    }
}
