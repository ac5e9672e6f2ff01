/// How the room for open notifications, or for bytes, is shared between topics: half of it is reserved, split by
/// weight between those that are read; the other half is free for all.
package struct Shares {
    package struct Group: Equatable {
        package var weight: Int
        /// Partitions being read; without any it has no reserve.
        package var partitions = 0
        package var used = 0
        package var reserved = 0
    }

    package private(set) var total: Int
    package private(set) var groups: [Group] = []
    /// Used beyond the reserves.
    package private(set) var sharedUsed = 0
    package private(set) var used = 0

    package init(total: Int) { self.total = total }

    package mutating func addGroup(weight: Int) -> Int {
        groups.append(Group(weight: max(1, weight)))
        return groups.count - 1
    }

    package mutating func setWeight(_ weight: Int, of group: Int) { groups[group].weight = max(1, weight) }

    /// A partition of the group begins to be read (1), or is no longer (-1).
    package mutating func addPartitions(_ change: Int, to group: Int) {
        groups[group].partitions += change
        divide()
    }

    /// There is more room, or less: who uses more than his share keeps it until he gives it back.
    package mutating func setTotal(_ total: Int) {
        guard total != self.total else { return }
        self.total = total
        divide()
    }

    private mutating func divide() {
        let weights = groups.reduce(0) { $0 + ($1.partitions > 0 ? $1.weight : 0) }
        sharedUsed = 0
        for index in groups.indices {
            groups[index].reserved =
                groups[index].partitions > 0 ? total / 2 * groups[index].weight / weights : 0
            sharedUsed += max(0, groups[index].used - groups[index].reserved)
        }
    }

    /// How much more this group may use now.
    package func room(for group: Int) -> Int {
        let reserve = max(0, groups[group].reserved - groups[group].used)
        let shared = max(0, total - total / 2 - sharedUsed)
        // A topic that has just begun waits for its reserve while others still use it.
        return max(0, min(reserve + shared, total - used))
    }

    package mutating func take(_ amount: Int, for group: Int) { change(by: amount, group) }
    package mutating func giveBack(_ amount: Int, for group: Int) { change(by: -amount, group) }

    @inline(__always)
    private mutating func change(by amount: Int, _ group: Int) {
        groups.withUnsafeMutableBufferPointer { groups in
            let reserved = groups[group].reserved
            let before = max(0, groups[group].used - reserved)
            groups[group].used += amount
            precondition(groups[group].used >= 0, "what is given back was taken")
            used += amount
            sharedUsed += max(0, groups[group].used - reserved) - before
        }
    }
}
