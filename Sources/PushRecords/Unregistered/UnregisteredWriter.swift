/// Writes dead tokens (`apns.unregistered`) into buffers it reuses. Not thread-safe.
package struct UnregisteredWriter: ~Copyable {
    package init(apps: [RecordApp]) {
        fatalError("not yet")
    }

    /// The dead-token record of a notification that ended so; uses the ending's reason and `unregisteredAtMs`, and its
    /// `settledAtMs` as the time it was observed. Lent until the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        fatalError("not yet")
    }
}
