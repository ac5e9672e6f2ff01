/// What a retry record says beside its notification.
package struct RetryOrder {
    /// How many attempts were used up, this retry's cause included.
    package var attempt: Int32
    package var dueMs: Int64
    /// A reason's text, or ours (`held`); lent, may be empty.
    package var reason: UnsafeRawBufferPointer
    package var sends: Int32
    package var inDoubt: Int32

    package init(attempt: Int32, dueMs: Int64, reason: UnsafeRawBufferPointer, sends: Int32, inDoubt: Int32) {
        self.attempt = attempt
        self.dueMs = dueMs
        self.reason = reason
        self.sends = sends
        self.inDoubt = inDoubt
    }
}

/// Writes retry records (`apns.retry.<delay>`): payload form, the notification's headers spelled out with the defaults
/// they got, and `push-retry-*`. Reuses its buffers; not thread-safe.
package struct RetryWriter: ~Copyable {
    package init(apps: [RecordApp]) {
        fatalError("not yet")
    }

    /// The retry record of a notification; its value is the content's own payload. Lent until the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ order: borrowing RetryOrder)
        -> EncodedRecord
    {
        fatalError("not yet")
    }
}
