/// What a commit map that was read back says of offsets not received yet. It is used up in offset order.
struct InheritedMap {
    enum Standing {
        /// Not named: to be sent.
        case open
        case settled
        /// Of its notifications, these indexes are settled.
        case partly([Range<Int64>])
    }

    /// What lies below it and is not named by the map may have been sent by the owner before.
    var reach: ReachEnd
    private let map: CommitMap
    private var nextRun = 0
    private var nextPartial = 0

    init(_ map: CommitMap) {
        self.map = map
        reach = map.reachEnd
    }

    /// One past the highest offset it names; 0: none.
    var end: Int64 { map.end }

    /// What naming the rest of it again takes, at most.
    var namingBytes: (runs: Int, partials: Int) {
        var runs = 0
        var end: Int64?
        for run in map.settled[nextRun...] {
            runs += CommitMapWriter.size(run.lowerBound - (end ?? 0))
            runs += CommitMapWriter.size(run.upperBound - run.lowerBound)
            end = run.upperBound
        }
        var partials = 0
        for partial in map.partials[nextPartial...] {
            partials += 6 + 4 + 2
            for range in partial.indexes { partials += 4 + CommitMapWriter.size(range.upperBound) }
        }
        return (runs, partials)
    }

    /// What is said of `offset`, which is above every offset asked for before. What is said of lower ones is forgotten.
    mutating func take(_ offset: Int64) -> Standing {
        while nextRun < map.settled.count, map.settled[nextRun].upperBound <= offset { nextRun += 1 }
        while nextPartial < map.partials.count, map.partials[nextPartial].offset < offset { nextPartial += 1 }
        if nextRun < map.settled.count, map.settled[nextRun].lowerBound <= offset { return .settled }
        if nextPartial < map.partials.count, map.partials[nextPartial].offset == offset {
            return .partly(map.partials[nextPartial].indexes)
        }
        return .open
    }

    /// Gives on to `writer` what is known of offsets from `offset` on, so that the next commit says it too.
    func write(from offset: Int64, to writer: inout CommitMapWriter) {
        var partial = nextPartial
        for run in map.settled[nextRun...] where run.upperBound > offset {
            while partial < map.partials.count, map.partials[partial].offset < run.lowerBound {
                writePartial(partial, from: offset, to: &writer)
                partial += 1
            }
            writer.settled(max(run.lowerBound, offset)..<run.upperBound)
            if writer.isFull { return }
        }
        while partial < map.partials.count {
            writePartial(partial, from: offset, to: &writer)
            partial += 1
        }
    }

    private func writePartial(_ index: Int, from offset: Int64, to writer: inout CommitMapWriter) {
        let partial = map.partials[index]
        if partial.offset >= offset { writer.partial(offset: partial.offset, indexes: partial.indexes) }
    }

    /// One past the highest offset from `offset` on that may have been sent before and is not known to be settled.
    func doubtEnd(from offset: Int64) -> Int64? {
        var end = reach.offset
        for run in map.settled[nextRun...].reversed() where run.upperBound >= end && run.lowerBound < end {
            end = run.lowerBound
        }
        return end > offset ? end : nil
    }
}
