internal import Kafka

/// The batch of one partition that is to be passed by, since it cannot be unpacked now or ever, and what librdkafka
/// said of it and of those before. Decides only; no clock, no I/O.
struct BatchPassing {
    enum Finding: Equatable {
        /// Nothing is to be done: the batch is passed by in the next turn, or another one is first.
        case none
        /// It was passed by already: the failure was on its way before the last seek, or that came to nothing.
        case passed(ClosedRange<Int64>)
        /// librdkafka tries again. Named where it failed before, too.
        case again(isLasting: Bool)
        /// As `again`, and it is time to ask where the batch ends.
        case endUnknown(isLasting: Bool)
    }

    private var failures = BatchFailures()
    /// A batch that is to be passed by.
    private(set) var unreadable: UnreadableBatch?

    /// Takes a failure of librdkafka's to unpack a batch, all that it may have been.
    mutating func failed(_ batches: [UnreadableBatch]) -> Finding {
        guard unreadable == nil else { return .none }
        if let offsets = failures.passed(of: batches) { return .passed(offsets) }
        unreadable = failures.failed(batches)
        return unreadable == nil ? .again(isLasting: failures.isLasting) : .none
    }

    /// Takes a failure to unpack a batch of which only the first offset is told.
    mutating func failed(_ batch: BatchFailure.Batch, nowNs: Int64) -> Finding {
        guard unreadable == nil else { return .none }
        if let offsets = failures.passed(of: batch) { return .passed(offsets) }
        let mustAsk = failures.failed(batch, nowNs: nowNs)
        return mustAsk ? .endUnknown(isLasting: failures.isLasting) : .again(isLasting: failures.isLasting)
    }

    /// Takes the answer to where a batch ends, if one waits for that.
    mutating func ended(_ batch: BatchFailure.Batch, last: Int64) {
        guard unreadable == nil else { return }
        unreadable = failures.ended(batch, last: last)
    }

    /// The offsets of `batch` that were not passed by before.
    func fresh(of batch: UnreadableBatch) -> ClosedRange<Int64> { failures.fresh(of: batch) }

    /// It was passed by.
    mutating func pass(_ batch: UnreadableBatch) {
        unreadable = nil
        failures.pass(batch)
    }

    /// It is met again, should it be read.
    mutating func leave() { unreadable = nil }
}
