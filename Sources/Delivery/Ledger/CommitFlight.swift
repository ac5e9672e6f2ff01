/// The commit of one consumer group: at most one is under way.
struct CommitFlight {
    /// The partitions of the commit under way, in the order of its entries; empty: none is.
    var partitions: [PartitionID] = []
    /// That commit, or the last one.
    private(set) var entries: [PartitionCommit] = []
    var sentNs: Int64 = 0
    /// No commit before this time, but urgent ones.
    var nextNs: Int64 = 0
    /// When the last commit that was acknowledged was sent: we were a member then; `nil`: none was.
    var provenNs: Int64?
    /// The commit under way, or the last one, was of one partition by itself; and the slot of that.
    var isAlone = false
    var lastAlone = PartitionSlot(0)

    /// - Parameter intervalNs: `nil`: one partition alone, which changes nothing for the others.
    mutating func begin(_ nowNs: Int64, intervalNs: Int64?) {
        entries.removeAll(keepingCapacity: true)
        sentNs = nowNs
        isAlone = intervalNs == nil
        if let intervalNs { nextNs = nowNs + intervalNs }
    }

    mutating func append(_ entry: PartitionCommit) {
        partitions.append(entry.partition)
        entries.append(entry)
    }
}
