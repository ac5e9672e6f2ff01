import PushRecords

@testable import Delivery

extension NotificationStore {
    /// A store for tests of one part of the machine.
    static func forTests() -> NotificationStore { NotificationStore(idleLimit: 0) }

    /// A notification for this device with a record of its own, as admission leaves it.
    mutating func add(
        _ device: StaticString, app: Int32 = 0, group: Int32 = 0, partition: UInt32 = 0, offset: Int64 = 0
    ) -> UInt32 {
        let record = takeRecord()
        self[record: record] = Record()
        self[record: record].partition = partition
        self[record: record].group = group
        self[record: record].offset = offset
        self[record: record].count = 1
        self[record: record].cursor.index = 1
        let slot = take(of: record, index: 0, app: app)
        self[slot].token = device.lentBytes
        return slot
    }
}

extension AppRoute {
    /// An app of this name, for tests of one part of the machine.
    static func named(_ name: String, rateLimit: Int = 0, isPaused: Bool = false) -> AppRoute {
        AppRoute(
            name: name, environment: .production, bundleIDs: ["com.example.\(name)"], isPaused: isPaused,
            rateLimit: rateLimit, guardPolicy: .off)
    }
}
