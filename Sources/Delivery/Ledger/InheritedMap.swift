/// What a commit map that was read back says of offsets not received yet. It is used up in offset order.
struct InheritedMap {
    enum Standing {
        /// To be sent.
        case open
        case settled
        /// These of its indexes are settled.
        case partly([Range<Int64>])
    }

    /// What lies below it and is not settled may have been sent by a previous owner.
    var horizon: Int64
    /// One past the highest offset that the map names settled, or 0 if there is none.
    let end: Int64
    private var settled: ArraySlice<Range<Int64>>
    private var partials: ArraySlice<CommitMap.Partial>

    init(_ map: CommitMap) {
        horizon = map.horizon
        end = map.end
        settled = map.settled[...]
        partials = map.partials[...]
    }

    /// Returns how `offset` stands, which is above every offset asked for before. Lower ones are forgotten.
    mutating func take(_ offset: Int64) -> Standing {
        while let run = settled.first, run.upperBound <= offset { settled = settled.dropFirst() }
        while let partial = partials.first, partial.offset < offset { partials = partials.dropFirst() }
        if let run = settled.first, run.lowerBound <= offset { return .settled }
        if let partial = partials.first, partial.offset == offset { return .partly(partial.indexes) }
        return .open
    }

    /// Gives on to `writer` what is known of offsets from `offset` on, so that the next commit says it too.
    func write(from offset: Int64, to writer: inout CommitMapWriter) {
        for run in settled where run.upperBound > offset {
            writer.settled(max(run.lowerBound, offset)..<run.upperBound)
        }
        for partial in partials where partial.offset >= offset {
            writer.partial(offset: partial.offset, indexes: partial.indexes)
        }
    }

    /// One past the highest offset from `offset` on that may have been sent before and is not known to be settled.
    func doubtEnd(from offset: Int64) -> Int64? {
        var end = horizon
        for run in settled.reversed() where run.upperBound >= end && run.lowerBound < end { end = run.lowerBound }
        return end > offset ? end : nil
    }
}
