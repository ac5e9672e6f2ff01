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
        let pieces = [
            Array(self.token.utf8), Array(hi.utf8), Array("com.example.shop".utf8),
            Array("apns.requests".utf8), Array("user-".utf8) + [0xFF] + Array("1".utf8), Array("traceparent".utf8),
            Array("00-ab".utf8),
        ].map { lend($0) }
        let copied = UnsafeMutableBufferPointer<RecordHeader>.allocate(capacity: 1)
        copied.initialize(repeating: RecordHeader(name: pieces[5], value: pieces[6]))
        content = NotificationContent(
            token: pieces[0], isBroadcast: isBroadcast,
            headers: ParsedRequest.Headers(
                topic: pieces[2], pushType: isBroadcast ? .liveactivity : .alert, priority: 10,
                expiration: 1_795_000_000,
                apnsID: NotificationUUID(high: 0x0102_0304_0506_8708, low: 0x890A_0B0C_0D0E_0F10),
                collapseID: lend("score")),
            app: 1, payload: pieces[1],
            request: RequestPlace(topic: pieces[3], partition: 3, offset: 1_234, index: 7),
            requestKey: pieces[4], requestedAtMs: 1_780_000_000_000,
            copiedHeaders: UnsafeBufferPointer(copied))
    }
}

extension EncodedRecord {
    var headerTexts: [String] { headers.map { "\(text($0.name))=\(text($0.value))" } }
}
