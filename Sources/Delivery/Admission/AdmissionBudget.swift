package import PushRecords

/// The room for what is open, notifications and their bytes: shared between topics by weight, and half of it at most
/// for one app where there are several.
package struct AdmissionBudget {
    /// How long a record waits for its app's share of the room before it is held: counted from when the oldest unsent
    /// notification of that app became ready.
    static let shareWaitNs: Int64 = 5_000_000_000

    struct App {
        /// Notifications of it that are open, and the bytes they hold.
        var open = 0
        var bytes = 0
        /// Since when records wait for its share and none is admitted, if any wait.
        var fullSinceNs: Int64?
    }

    /// By `AppIndex`.
    private(set) var apps: [App] = []
    private(set) var notifications: FairShares
    private(set) var bytes: FairShares
    /// Share group of each request topic that is read, or that records are open of; all tiers are group 0.
    private var groups: [String: Int] = [:]
    private let mostBytes: Int
    private var recordBytesMean = 1_024

    /// - Parameters:
    ///   - mostOpen: notifications, while no connection takes any (`setTotal`).
    ///   - mostBytes: that they hold.
    init(mostOpen: Int, mostBytes: Int) {
        self.mostBytes = mostBytes
        notifications = FairShares(total: mostOpen)
        bytes = FairShares(total: mostBytes)
        _ = addGroup(weight: 1)
    }

    // MARK: Shares

    mutating func addApp() { apps.append(App()) }

    /// Weights of the share groups that there are.
    var weights: [Int] { notifications.groups.map(\.weight) }

    /// The share group of a request topic, with this weight from now on, and whether it is a new one.
    mutating func group(of topic: String, weight: Int) -> (group: Int, isNew: Bool) {
        if groups[topic] == nil, let unused = groups.first(where: { isUnused($0.value) }) {
            groups[unused.key] = nil
            groups[topic] = unused.value
        }
        if let known = groups[topic] {
            notifications.setWeight(weight, of: known)
            bytes.setWeight(weight, of: known)
            return (known, false)
        }
        let group = addGroup(weight: weight)
        groups[topic] = group
        return (group, true)
    }

    /// Whether no partition of the group is read and nothing of it is open.
    private func isUnused(_ group: Int) -> Bool {
        notifications.groups[group].partitions == 0 && notifications.groups[group].used == 0
            && bytes.groups[group].used == 0
    }

    private mutating func addGroup(weight: Int) -> Int {
        _ = bytes.addGroup(weight: weight)
        return notifications.addGroup(weight: weight)
    }

    /// A partition of the group is read, or not any more.
    mutating func setRead(_ isRead: Bool, _ group: Int) {
        notifications.addPartitions(isRead ? 1 : -1, to: group)
        bytes.addPartitions(isRead ? 1 : -1, to: group)
    }

    /// So many notifications may be open from now on.
    mutating func setTotal(_ mostOpen: Int) { notifications.setTotal(mostOpen) }

    // MARK: Is there any

    /// Notifications that may be open.
    var total: Int { notifications.total }

    /// How many records may be read for a group.
    func records(for group: Int) -> Int {
        let left = bytes.room(for: group)
        guard left > 0 else { return 0 }
        return min(notifications.room(for: group), max(1, left / recordBytesMean))
    }

    /// Of what is admitted above the horizon, all partitions together have at most half of the room, notifications and
    /// bytes: a commit that is never taken leaves the rest to others. How many more one may have there, of so many
    /// partitions.
    func aboveHorizon(open: Int, partitions: Int) -> Int {
        let most = min(notifications.total, mostBytes / recordBytesMean)
        return max(0, max(1, most / (2 * max(1, partitions))) - open)
    }

    /// With several apps, one holds at most half of what may be open, notifications and bytes.
    func isFull(app: Int) -> Bool {
        apps[app].open * 2 >= notifications.total || areBytesFull(of: app) && apps[app].open > 0
    }

    /// Whether records read for this app hold half of all bytes. (Their notifications may be another app's by now; the
    /// bytes stay here.)
    func areBytesFull(of app: Int) -> Bool { apps[app].bytes * 2 >= mostBytes }

    /// Whether the app's share was full for so long that records are held instead of waiting: its oldest unsent
    /// notification has waited for a stream that long, or, where all are in flight, nothing more of it was admitted for
    /// that long.
    mutating func hasWaitedForShare(app: Int, oldestNs: Int64?, nowNs: Int64) -> Bool {
        let sinceNs = apps[app].fullSinceNs ?? nowNs
        apps[app].fullSinceNs = sinceNs
        return nowNs - (oldestNs ?? sinceNs) >= Self.shareWaitNs
    }

    /// Nothing waits for the app's share.
    mutating func endFull(app: Int) { apps[app].fullSinceNs = nil }

    /// When what waits for the share of an app is deferred instead; `nil` if it waits for something else.
    func shareWaitEndNs(app: Int, oldestNs: Int64?) -> Int64? {
        guard isFull(app: app), let sinceNs = oldestNs ?? apps[app].fullSinceNs else { return nil }
        return sinceNs + Self.shareWaitNs
    }

    // MARK: Taken and given back

    /// Counts what is open, or is no more where it is negative: notifications, and bytes that they hold.
    ///
    /// - Parameter app: -1 if no app is known.
    @inline(__always)
    mutating func add(notifications count: Int = 0, bytes size: Int = 0, group: Int, app: Int) {
        if count != 0 { notifications.add(count, to: group) }
        if size != 0 { bytes.add(size, to: group) }
        guard app >= 0 else { return }
        apps[app].open += count
        apps[app].bytes += size
        precondition(apps[app].open >= 0, "what is given back was taken")
    }

    /// What an open notification takes is another app's from now on.
    mutating func move(_ size: Int, from old: Int, to app: Int) {
        apps[old].open -= 1
        apps[old].bytes -= size
        apps[app].open += 1
        apps[app].bytes += size
    }

    /// Counts the block of a record.
    mutating func addRecord(_ size: Int, group: Int, app: Int) {
        add(bytes: size, group: group, app: app)
        recordBytesMean = max(64, recordBytesMean + (size - recordBytesMean) / 16)
    }

    /// Returns about how many bytes a dead letter takes until it is written. Each header takes 80 beside its name and
    /// value, in librdkafka and here.
    package static func letterBytes(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> Int {
        headers.reduce(key.count + value.count) { $0 + $1.name.count + $1.value.count + 80 }
    }
}

/// How the room for open notifications, or for bytes, is shared between topics: half of it is reserved, split by
/// weight between those that are read; the other half is free for all.
package struct FairShares {
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

    /// There is more room, or less: a group that uses more than its share keeps it until it gives it back.
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

    /// The group uses so much more, or less where it is negative.
    @inline(__always)
    package mutating func add(_ amount: Int, to group: Int) {
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
