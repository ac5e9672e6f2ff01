package import PushRecords

/// The limits of open notifications and of their bytes, which *topic groups* share by weight. A topic group is one
/// request topic, or all retry topics together. With several apps, each app may use at most half of each limit.
package struct AdmissionBudget {
    /// The time, as measured by `hasWaitedForShare`, after which a full share of an app causes deferrals instead of
    /// waits.
    static let shareWaitNs: Int64 = 5_000_000_000

    struct App {
        /// The number of the app's open notifications, and the number of bytes that they use.
        var open = 0
        var bytes = 0
        /// When the first record began to wait for the app's share, or `nil` if no record waits.
        var fullSinceNs: Int64?
    }

    /// The apps by `AppIndex`.
    private(set) var apps: [App] = []
    var notifications: FairShares
    private(set) var bytes: FairShares
    /// The topic group of each request topic. A new topic may take over an unused group. All retry tiers are group 0.
    private var groups: [String: Int] = [:]
    private let mostBytes: Int
    private var recordBytesMean = 1_024

    /// - Parameters:
    ///   - mostOpen: The maximum number of open notifications while no transport is connected.
    ///   - mostBytes: Reading stops when the open records use this many bytes.
    init(mostOpen: Int, mostBytes: Int) {
        self.mostBytes = mostBytes
        notifications = FairShares(total: mostOpen)
        bytes = FairShares(total: mostBytes)
        setWeight(1, of: 0)
    }

    // MARK: Shares

    mutating func addApp() { apps.append(App()) }

    /// Returns the topic group of a request topic, which may be a new group. Sets the topic's weight.
    mutating func group(of topic: String, weight: Int) -> Int {
        if groups[topic] == nil, let unused = groups.first(where: { isUnused($0.value) }) {
            groups[unused.key] = nil
            groups[topic] = unused.value
        }
        let group = groups[topic] ?? notifications.groups.count
        groups[topic] = group
        setWeight(weight, of: group)
        return group
    }

    /// Returns whether the group has no partition that is read, and no open notification.
    private func isUnused(_ group: Int) -> Bool {
        notifications.groups[group].partitions == 0 && notifications.groups[group].used == 0
            && bytes.groups[group].used == 0
    }

    private mutating func setWeight(_ weight: Int, of group: Int) {
        notifications.setWeight(weight, of: group)
        bytes.setWeight(weight, of: group)
    }

    /// Counts a partition of the topic group as read, or as no longer read.
    mutating func setRead(_ isRead: Bool, _ group: Int) {
        notifications.addPartitions(isRead ? 1 : -1, to: group)
        bytes.addPartitions(isRead ? 1 : -1, to: group)
    }

    // MARK: Limits

    /// Returns how many records may be read for a topic group now.
    func records(for group: Int) -> Int {
        let left = bytes.room(for: group)
        guard left > 0 else { return 0 }
        return min(notifications.room(for: group), max(1, left / recordBytesMean))
    }

    /// Returns how many more notifications above the send horizon a partition may admit, if `open` of its notifications
    /// are already above it. All `partitions` together may use half of the budget above the horizon. The other half
    /// stays free for records below the horizon if commits do not succeed.
    func aboveHorizon(open: Int, partitions: Int) -> Int {
        let most = min(notifications.total, mostBytes / recordBytesMean)
        return max(0, max(1, most / (2 * max(1, partitions))) - open)
    }

    /// Returns whether the app uses its whole share: at least half of the notification limit, or, with open
    /// notifications, at least half of the byte limit.
    func isFull(app: Int) -> Bool {
        apps[app].open * 2 >= notifications.total || areBytesFull(of: app) && apps[app].open > 0
    }

    /// Returns whether the records that were read for this app use at least half of the byte limit. The bytes of a
    /// record still count for this app when its notifications are forwarded to another app.
    func areBytesFull(of app: Int) -> Bool { apps[app].bytes * 2 >= mostBytes }

    /// Returns whether the app's share has been full for so long that records are deferred instead of waiting. The time
    /// counts from when the app's oldest unsent notification began to wait for a stream. If no notification of the app
    /// waits for a stream, the time counts from when the first record had to wait.
    mutating func hasWaitedForShare(app: Int, oldestNs: Int64?, nowNs: Int64) -> Bool {
        let sinceNs = apps[app].fullSinceNs ?? nowNs
        apps[app].fullSinceNs = sinceNs
        return nowNs - (oldestNs ?? sinceNs) >= Self.shareWaitNs
    }

    /// Notes that the app's share is not full, and resets the time since which records wait for the share.
    mutating func endFull(app: Int) { apps[app].fullSinceNs = nil }

    /// Returns when records that wait for the app's share will be deferred, or `nil` if no record waits for the share.
    func shareWaitEndNs(app: Int, oldestNs: Int64?) -> Int64? {
        guard isFull(app: app), let sinceNs = oldestNs ?? apps[app].fullSinceNs else { return nil }
        return sinceNs + Self.shareWaitNs
    }

    // MARK: Use

    /// Counts open notifications and their bytes. Negative numbers remove them.
    ///
    /// - Parameter app: The app's index, or -1 if no app is known.
    @inline(__always)
    mutating func add(notifications count: Int = 0, bytes size: Int = 0, group: Int, app: Int) {
        if count != 0 { notifications.add(count, to: group) }
        if size != 0 { bytes.add(size, to: group) }
        guard app >= 0 else { return }
        apps[app].open += count
        apps[app].bytes += size
        precondition(apps[app].open >= 0, "A removed notification must have been counted for the same app")
    }

    /// Counts an open notification of `size` bytes for another app.
    mutating func move(_ size: Int, from old: Int, to app: Int) {
        apps[old].open -= 1
        apps[old].bytes -= size
        apps[app].open += 1
        apps[app].bytes += size
    }

    /// Counts the bytes of a record, and updates the mean record size.
    mutating func addRecord(_ size: Int, group: Int, app: Int) {
        add(bytes: size, group: group, app: app)
        recordBytesMean = max(64, recordBytesMean + (size - recordBytesMean) / 16)
    }

    /// Returns the approximate number of bytes that a dead letter uses until Kafka acknowledges it. Each header costs
    /// 80 bytes in addition to its name and value, in librdkafka and in the worker.
    package static func letterBytes(
        _ key: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ headers: UnsafeBufferPointer<RecordHeader>
    ) -> Int {
        headers.reduce(key.count + value.count) { $0 + $1.name.count + $1.value.count + 80 }
    }
}

/// A limit of open notifications, or of bytes, that topic groups (`AdmissionBudget`) share. Half of the limit is
/// reserved, divided by weight among the groups that are read. The other half is available to all groups.
package struct FairShares {
    package struct Group: Equatable {
        package var weight = 1
        /// The number of the group's partitions that are read. A group without such partitions has no reserve.
        package var partitions = 0
        package var used = 0
        package var reserved = 0
    }

    package private(set) var total: Int
    package private(set) var groups: [Group] = []
    /// The amount that all groups together use beyond their reserves.
    package private(set) var sharedUsed = 0
    package private(set) var used = 0

    package init(total: Int) { self.total = total }

    /// Sets the weight of a topic group, or adds the next group.
    package mutating func setWeight(_ weight: Int, of group: Int) {
        if group == groups.count { groups.append(Group()) }
        groups[group].weight = max(1, weight)
    }

    /// Adds `change` (1 or -1) to the number of the group's partitions that are read.
    package mutating func addPartitions(_ change: Int, to group: Int) {
        groups[group].partitions += change
        divide()
    }

    /// Changes the limit. A group whose use exceeds its new share gets no more until its use has fallen.
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

    /// Returns how much more this topic group may use now.
    package func room(for group: Int) -> Int {
        let reserve = max(0, groups[group].reserved - groups[group].used)
        let shared = max(0, total - total / 2 - sharedUsed)
        // A group that was just added waits for its reserve while other groups still use that part of the limit.
        return max(0, min(reserve + shared, total - used))
    }

    /// Increases the use of the topic group, or reduces it if `amount` is negative.
    @inline(__always)
    package mutating func add(_ amount: Int, to group: Int) {
        groups.withUnsafeMutableBufferPointer { groups in
            let reserved = groups[group].reserved
            let before = max(0, groups[group].used - reserved)
            groups[group].used += amount
            precondition(groups[group].used >= 0, "A released amount must have been added to the same group")
            used += amount
            sharedUsed += max(0, groups[group].used - reserved) - before
        }
    }
}
