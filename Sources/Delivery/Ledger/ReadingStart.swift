/// Where a partition is to be read from.
package enum ReadingStart: Equatable, Sendable {
    case at(Int64)
    /// At the log's beginning, since the group has committed nothing.
    case nothingCommitted
    /// At its beginning: the log ends below what was committed, or no log has such an offset. It was made anew, or cut.
    case logChanged
    /// At its beginning, which is above what was committed: retention was quicker.
    case overtaken

    /// Where to read a partition from that was assigned, before `DeliveryMachine.assign` (which decides likewise).
    ///
    /// - Parameters:
    ///   - committed: as read from the group; `nil` if there is none.
    ///   - logStart: the first offset that the partition's leader has; `nil` or negative if it is unknown.
    ///   - logEnd: its last stable offset, which is as far as a reader of committed records gets. Where something
    ///     committed lies beyond that, its high watermark, since a transaction may be open. `nil` or negative if it is
    ///     unknown.
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

/// The highest offset that is believed. Every sum of an offset and a limit of the machine stays below 2^63, so nothing
/// that a group has committed can overflow.
package enum OffsetLimit {
    package static let highest: Int64 = 1 << 62

    /// Whether an offset, as a broker or a commit tells it, can be one.
    package static func holds(_ offset: Int64) -> Bool { offset >= 0 && offset <= highest }
}
