internal import Kafka

/// Finds where a batch ends of which librdkafka tells only the first offset, by what comes first when its partition is
/// read from other offsets: from one inside of it the same batch, from one behind it something else.
///
/// From its first offset on in steps that double, and once something else was found, halving between: at most some
/// sixty looks. An offset counts as the batch's only where the batch was met from it, so no record is taken for a part
/// of it.
struct BatchEndSearch {
    enum Step: Hashable {
        case look(at: Int64)
        /// The batch's last offset.
        case ended(last: Int64)
        /// The batch is not there, or what was found does not fit together: the log changed meanwhile.
        case failed
    }

    private let batch: BatchFailure.Batch
    /// The last offset from which the batch was met; below the batch at first.
    private var inside: Int64
    /// The batch ends below it.
    private var behind: Int64
    /// `nil` once something else was found.
    private var stride: Int64? = 1
    private var hasFailed: Bool

    /// - Parameter logEnd: the high watermark.
    init(_ batch: BatchFailure.Batch, logEnd: Int64) {
        self.batch = batch
        inside = batch.baseOffset - 1
        // A batch counts its offsets with 31 bits.
        let (most, isOver) = batch.baseOffset.addingReportingOverflow(1 << 31)
        behind = isOver ? logEnd : min(logEnd, most)
        hasFailed = batch.baseOffset < 0 || logEnd <= batch.baseOffset
    }

    var next: Step {
        if hasFailed { return .failed }
        if inside < batch.baseOffset { return .look(at: batch.baseOffset) }
        if behind - inside <= 1 { return .ended(last: inside) }
        return .look(at: inside + min(stride ?? .max, (behind - inside) / 2))
    }

    /// Takes what was found from the offset on that `next` named.
    mutating func found(_ finding: BatchProbe.Finding) {
        guard case .look(let offset) = next else { return }
        switch finding {
        case .batch(batch):
            if inside >= batch.baseOffset { stride = stride.map { min(2 * $0, 1 << 31) } }
            inside = offset
        case .batch(let other): foundElse(at: other.baseOffset, from: offset)
        case .record(let found), .end(let found):
            // Both come from where reading began, or from behind.
            if found < offset { hasFailed = true } else { foundElse(at: found, from: offset) }
        }
    }

    /// Another batch may begin below the offset that was read from.
    private mutating func foundElse(at found: Int64, from offset: Int64) {
        behind = min(behind, found, offset)
        stride = nil
        if behind <= max(inside, batch.baseOffset) { hasFailed = true }
    }
}
