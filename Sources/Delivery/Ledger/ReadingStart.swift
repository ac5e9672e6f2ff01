/// Where a partition is to be read from.
package enum ReadingStart: Equatable, Sendable {
    package enum Cause: Equatable, Sendable {
        /// The group has committed nothing.
        case nothingCommitted
        /// No log has such an offset, so no worker wrote it.
        case notBelievable
        /// The log ends below what was committed: it was made anew, or cut.
        case beyondEnd
        /// The log begins above what was committed: retention was quicker.
        case overtaken
    }

    case at(Int64)
    case beginning(because: Cause)

    /// Where to read a partition from that was assigned, before `DeliveryMachine.assign` (which decides likewise).
    ///
    /// - Parameters:
    ///   - committed: as read from the group; `nil` if there is none.
    ///   - logStart: the first offset that the partition's leader has; `nil` or negative if it is unknown.
    ///   - logEnd: its last stable offset, which is as far as a reader of committed records gets. Where something
    ///     committed lies beyond that, its high watermark, since a transaction may be open. `nil` or negative if it is
    ///     unknown.
    package init(committed: Int64?, logStart: Int64?, logEnd: Int64?) {
        self =
            if let committed {
                if !OffsetLimit.holds(committed) {
                    .beginning(because: .notBelievable)
                } else if let logEnd, logEnd >= 0, committed > logEnd {
                    .beginning(because: .beyondEnd)
                } else if let logStart, logStart >= 0, committed < logStart {
                    .beginning(because: .overtaken)
                } else {
                    .at(committed)
                }
            } else {
                .beginning(because: .nothingCommitted)
            }
    }
}

/// The highest offset that is believed. Every sum of an offset and a limit of the machine stays below 2^63, so nothing
/// that a group has committed can overflow.
package enum OffsetLimit {
    package static let highest: Int64 = 1 << 62

    /// Whether an offset, as a broker or a commit tells it, can be one.
    package static func holds(_ offset: Int64) -> Bool { offset >= 0 && offset <= highest }
}
