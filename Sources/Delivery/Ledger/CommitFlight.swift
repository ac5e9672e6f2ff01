/// The commit of one consumer group: at most one is under way, and its metadata is kept in one block that is reused.
struct CommitFlight {
    /// The partitions of the commit under way, in the order of its entries; empty: none is.
    var partitions: [PartitionID] = []
    var sentNs: Int64 = 0
    /// No commit before this time, but urgent ones.
    var nextNs: Int64 = 0
    /// When the last commit that was acknowledged was sent: we were a member then; `nil`: none was.
    var provenNs: Int64?
    /// The commit under way, or the last one, was of one partition by itself; and the slot of that.
    var isAlone = false
    var lastAlone: UInt32 = 0

    private var list: [CommitEntry] = []
    private var text = UnsafeMutableRawBufferPointer.allocate(byteCount: 8_192, alignment: 1)
    private var used = 0

    /// To be called once, when nobody borrows an entry any more.
    func deallocate() { text.deallocate() }

    /// - Parameter intervalNs: `nil`: one partition alone, which changes nothing for the others.
    mutating func begin(_ nowNs: Int64, intervalNs: Int64?) {
        list.removeAll(keepingCapacity: true)
        used = 0
        sentNs = nowNs
        isAlone = intervalNs == nil
        if let intervalNs { nextNs = nowNs + intervalNs }
    }

    mutating func append(_ id: PartitionID, offset: Int64, text more: [UInt8]) {
        partitions.append(id)
        if used + more.count > text.count { grow(for: more.count) }
        let place = UnsafeMutableRawBufferPointer(rebasing: text[used..<used + more.count])
        place.copyBytes(from: more)
        used += more.count
        list.append(CommitEntry(partition: id, offset: offset, metadata: UnsafeRawBufferPointer(place)))
    }

    /// What was appended. The block may have moved while it grew: only now are the places final.
    mutating func entries() -> [CommitEntry] {
        var start = 0
        for index in list.indices {
            let count = list[index].metadata.count
            list[index].metadata = UnsafeRawBufferPointer(
                rebasing: UnsafeRawBufferPointer(text)[start..<start + count])
            start += count
        }
        return list
    }

    private mutating func grow(for more: Int) {
        let wider = UnsafeMutableRawBufferPointer.allocate(byteCount: max(text.count * 2, used + more), alignment: 1)
        wider.copyMemory(from: UnsafeRawBufferPointer(rebasing: text[..<used]))
        text.deallocate()
        text = wider
    }
}
