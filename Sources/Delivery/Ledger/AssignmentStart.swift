/// The offset at which to start consuming a newly assigned partition.
package enum AssignmentStart: Equatable, Sendable {
    case at(Int64)
    /// The start of the log, because the group has no committed offset.
    case nothingCommitted
    /// The start of the log, because the committed offset is beyond the log's end or invalid. The topic was
    /// recreated, or the log was truncated.
    case logChanged
    /// The start of the log, because it is above the committed offset: retention has deleted the records in between.
    case overtaken

    /// Determines where to start consuming a newly assigned partition. `DeliveryMachine.assign` uses the same rule.
    ///
    /// - Parameters:
    ///   - committed: The group's committed offset, or `nil` if there is none.
    ///   - logStart: The log start offset of the partition's leader, or `nil` or a negative number if unknown.
    ///   - logEnd: The leader's last stable offset, where a `read_committed` consumer stops, or `nil` or negative if
    ///     unknown. If the committed offset is higher, pass the high watermark or `nil`: a transaction may be open.
    package init(committed: Int64?, logStart: Int64?, logEnd: Int64?) {
        guard let committed else {
            self = .nothingCommitted
            return
        }
        let isBeyondEnd = logEnd.map { $0 >= 0 && committed > $0 } ?? false
        self =
            if !OffsetLimit.holds(committed) || isBeyondEnd {
                .logChanged
            } else if let logStart, committed < logStart {
                .overtaken
            } else {
                .at(committed)
            }
    }
}

/// The highest valid offset. The sum of an offset and any limit of the machine is below 2^63, so no committed offset
/// can cause an overflow.
package enum OffsetLimit {
    package static let highest: Int64 = 1 << 62

    /// Returns whether an offset from a broker or a commit is valid.
    package static func holds(_ offset: Int64) -> Bool { offset >= 0 && offset <= highest }
}
