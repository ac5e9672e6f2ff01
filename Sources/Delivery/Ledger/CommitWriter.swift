/// Writes what the next commit of a partition says: the watermark, what is settled above it, how far ahead may be sent,
/// and whose commit it is.
struct CommitWriter: ~Copyable {
    private var map = CommitMapWriter()
    private let hashSeed: UInt64

    init(hashSeed: UInt64) { self.hashSeed = hashSeed }

    /// The entry of a partition that is ready to commit; it is under way from now on.
    mutating func entry(
        of partition: inout Partition, in store: borrowing NotificationStore, journal: inout Journal
    ) -> PartitionCommit {
        guard let base = partition.ledger.committable else {
            preconditionFailure("what is ready to commit has a watermark")
        }
        let isLast = partition.mayLeave
        var reach = ReachEnd.none
        if isLast {
            let end = partition.ledger.leavingReach { store[$0].doubts > 0 || store[$0].unsettled > 0 }
            reach = end.map { ReachEnd($0) } ?? .none
        } else {
            // What an owner that died may have sent stays in doubt for whoever comes after us, until it is settled.
            let inherited = partition.ledger.inheritedReach
            let counted = partition.fanOuts > 0 ? Self.countedReach(partition, from: base, in: store) : nil
            let next = partition.reach.next(from: base, counted: counted)
            reach = max(next, base < inherited.offset ? inherited : .none)
        }
        map.start(base: base, limit: partition.metadataLimit)
        partition.ledger.write(to: &map) { store.settledIndexes(of: $0) }
        // What is settled and was cut off will be sent again by whoever comes after us: it has to say so.
        if map.isFull { reach = max(reach, ReachEnd(partition.ledger.mapEnd)) }
        reach = reach.cut(at: base + CommitMap.highestReach)
        if !isLast { partition.reach.sent(naming: reach) }
        map.finish(reach: reach.offset, indexes: reach.indexes, owner: owner(of: partition.id))
        if map.isFull {
            journal.counters.mapsCut &+= 1
            if !partition.isMapCut { journal.events.append(.mapCut(partition.id, dropped: map.dropped)) }
        }
        partition.isMapCut = map.isFull
        partition.mapEighths = map.eighths
        partition.isDirty = false
        partition.commits.sent()
        partition.pending = Partition.Pending(
            offset: base, reach: reach, isLast: isLast, characters: map.text.count,
            mark: map.text.withUnsafeBytes { CommitMark(offset: base, metadata: $0, reach: reach) })
        return PartitionCommit(partition: partition.id, offset: base, metadata: map.text)
    }

    /// As many notifications ahead of what was handed out as the reach is to be.
    private static func countedReach(
        _ partition: borrowing Partition, from base: Int64, in store: borrowing NotificationStore
    ) -> ReachEnd {
        partition.ledger.end(
            ahead: partition.reach.countedMargin, of: partition.reach.start(from: base)
        ) { store[$0].count }
    }

    /// The number of an assignment, in its commits: whoever had a partition before, and gets it back, must not take
    /// another's commit for its own, whatever that says.
    func owner(of id: PartitionID) -> Int64 {
        withUnsafeBytes(of: id.generation) {
            Int64(BytesHash.hash($0, seed: hashSeed) % UInt64(CommitMap.ownerLimit))
        }
    }
}
