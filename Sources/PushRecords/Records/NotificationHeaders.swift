/// What a notification says to Apple beside its payload and its target: one value from the parser to the connection,
/// and to the retry record.
///
/// Plain data that owns nothing. Its texts are lent: they are where the request's record is, and from then on, until
/// the notification is settled, in the record's block (`copied`).
package struct NotificationHeaders {
    /// `apns-topic`. Empty: none was given, and the app's is meant; for a broadcast the bundle id of the path.
    package var topic: UnsafeRawBufferPointer
    package var texts: HeaderTexts
    /// `apns-expiration` in seconds since the epoch; `nil`: not sent. A past one is not looked at by the parser.
    package var expiration: UInt32?
    /// With its default when none was given.
    package var pushType: PushType
    /// `apns-priority`; 0: not sent. Background notifications without one have 5 here.
    package var priority: UInt8
    /// `apns-id`. `.none`: the producer gave none; of a request: Apple makes one; of a record: there is none (refused
    /// before it had one, or left to Apple and not answered).
    package var apnsID: NotificationUUID

    @inlinable package init(
        topic: UnsafeRawBufferPointer = .nothing, pushType: PushType = .alert, priority: UInt8 = 0,
        expiration: UInt32? = nil, apnsID: NotificationUUID = .none, texts: HeaderTexts = HeaderTexts()
    ) {
        self.topic = topic
        self.texts = texts
        self.expiration = expiration
        self.pushType = pushType
        self.priority = priority
        self.apnsID = apnsID
    }

    /// Bytes that `copied` writes.
    @inlinable package var byteCount: Int {
        var count = topic.count
        for header in texts.present { count &+= texts[header].count }
        return count
    }

    /// The same with its texts at `next`, one after the other, where there is room for `byteCount` bytes; `next` is
    /// moved behind them.
    @inlinable package func copied(to next: inout UnsafeMutableRawPointer) -> NotificationHeaders {
        var headers = self
        headers.topic = Self.copy(topic, &next)
        headers.texts = HeaderTexts()
        for header in texts.present { headers.texts[header] = Self.copy(texts[header], &next) }
        return headers
    }

    @inlinable static func copy(
        _ bytes: UnsafeRawBufferPointer, _ next: inout UnsafeMutableRawPointer
    ) -> UnsafeRawBufferPointer {
        guard let source = bytes.baseAddress else { return .nothing }
        next.copyMemory(from: source, byteCount: bytes.count)
        defer { next += bytes.count }
        return UnsafeRawBufferPointer(start: next, count: bytes.count)
    }
}
