import PushRecords

@testable import Delivery

extension NotificationStore {
    /// Returns a store for tests of one part of the machine, with one app and this number of share groups.
    static func forTests(groups: Int = 1) -> NotificationStore {
        var store = NotificationStore(MachineSettings())
        store.budget.addApp()
        // A group that is not read would be reused.
        for group in 1..<max(2, groups) {
            store.budget.setRead(true, store.budget.group(of: "\(group)", weight: 1).group)
        }
        return store
    }

    /// Adds a notification for this device with its own record, as admission does.
    mutating func add(
        _ device: StaticString, app: Int32 = 0, group: Int32 = 0, partition: PartitionSlot = .init(0), offset: Int64 = 0
    ) -> NotificationSlot {
        let record = takeRecord()
        self[record] = Record()
        self[record].partition = partition
        self[record].group = group
        self[record].offset = offset
        self[record].count = 1
        self[record].cursor.index = 1
        let slot = take(of: record, index: 0, app: app)
        self[slot].token = device.lentBytes
        return slot
    }
}

extension AppRoute {
    /// Returns an app with this name for tests of one part of the machine.
    static func named(_ name: String, rateLimit: Int = 0, isPaused: Bool = false) -> AppRoute {
        AppRoute(
            name: name, environment: .production, bundleIDs: ["com.example.\(name)"], isPaused: isPaused,
            rateLimit: rateLimit, guardPolicy: .off)
    }
}
