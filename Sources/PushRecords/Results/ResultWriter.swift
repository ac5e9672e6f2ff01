/// Writes results (`apns.results`) into buffers it reuses: no allocation per result once they have grown.
///
/// Not thread-safe: one writer belongs to one thread.
package struct ResultWriter: ~Copyable {
    /// Most bytes of `request.key`.
    package static let keyLimit = 1_024

    package init(apps: [RecordApp]) {
        fatalError("not yet")
    }

    /// The result of one notification; lent until the next `write`.
    package mutating func write(_ content: borrowing NotificationContent, _ ending: borrowing Ending) -> EncodedRecord {
        fatalError("not yet")
    }
}
