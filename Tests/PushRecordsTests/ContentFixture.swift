import PushRecords

/// A notification's content. The bytes that it lends are not freed.
struct ContentFixture {
    static let apps = [
        RecordApp(name: "other", environment: .production), RecordApp(name: "shop", environment: .development),
    ]

    let token: String
    var content: NotificationContent

    init(token: String = tokenA, isBroadcast: Bool = false) {
        self.token = isBroadcast ? "dHN0LXNyY2gtY2hubA==" : token
        let copied = UnsafeMutableBufferPointer<RecordHeader>.allocate(capacity: 1)
        copied.initialize(repeating: RecordHeader(name: lend("traceparent"), value: lend("00-ab")))
        content = NotificationContent(
            token: lend(self.token), isBroadcast: isBroadcast,
            headers: ParsedRequest.Headers(
                topic: lend("com.example.shop"), pushType: isBroadcast ? .liveactivity : .alert, priority: 10,
                expiration: 1_795_000_000,
                apnsID: NotificationUUID(high: 0x0102_0304_0506_8708, low: 0x890A_0B0C_0D0E_0F10),
                collapseID: lend("score")),
            app: 1, payload: lend(hi),
            request: RequestPlace(topic: lend("apns.requests"), partition: 3, offset: 1_234, index: 7),
            requestKey: lend(Array("user-".utf8) + [0xFF] + Array("1".utf8)), requestedAtMs: 1_780_000_000_000,
            copiedHeaders: UnsafeBufferPointer(copied))
    }
}

extension EncodedRecord {
    var headerTexts: [String] { headers.map { "\(text($0.name))=\(text($0.value))" } }
}
