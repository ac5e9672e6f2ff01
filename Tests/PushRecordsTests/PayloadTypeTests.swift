import PushRecords
import Testing

private let token = try! DeviceToken(hex: tokenA)
private let channel = "dHN0LXNyY2gtY2hubA=="

/// The properties of a notification that its payload determines.
@Suite struct PayloadTypeTests {
    private static let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_700_000_000)

    @Test(arguments: [
        (AlertPayload(body: "a") as any PushPayload, "com.example.shop", nil as UInt32?),
        (BackgroundPayload(), "com.example.shop", nil), (ComplicationPayload(), "com.example.shop.complication", nil),
        (ControlsPayload(), "com.example.shop.push-type.controls", nil),
        (FileProviderPayload(.root, domain: "d"), "com.example.shop.pushkit.fileprovider", nil),
        (update, "com.example.shop.push-type.liveactivity", nil),
        (LocationPayload(), "com.example.shop.location-query", nil),
        (MDMPayload(pushMagic: "m"), "com.example.shop", nil),
        (PushToTalkPayload(["a": 1]), "com.example.shop.voip-ptt", 0),
        (VoIPPayload(["a": 1]), "com.example.shop.voip", 0),
        (WidgetsPayload(), "com.example.shop.push-type.widgets", nil),
    ])
    func `The payload's type determines topic, push type and expiration`(
        payload: any PushPayload, topic: String, expiration: UInt32?
    ) throws {
        func check(_ payload: some PushPayload) throws {
            let notification = PushNotification(payload, topic: .bundleID("com.example.shop"))
            let erased = try notification.encoded()
            #expect(erased.pushType == payload.pushType && notification.pushType == payload.pushType)
            for record in [
                try notification.payloadRecord(to: token), try notification.envelopeRecord(to: [token]),
                try erased.payloadRecord(to: token), try erased.envelopeRecord(to: [token]),
            ] {
                let found = read(record)
                #expect(found.topic == topic && found.expiration == expiration && found.pushType == payload.pushType)
                #expect(try !found.isInvalid && Array(found.payload.utf8) == payload.json())
            }
            // A topic that already has the suffix stays unchanged.
            let suffixed = PushNotification(payload, topic: .bundleID(topic))
            #expect(try read(suffixed.payloadRecord(to: token)).topic == topic)
            #expect(payload.sizeLimit == (payload.pushType == .voip ? 5_120 : 4_096))
        }
        try check(payload)
    }

    /// The same notification for a device has a topic with a suffix.
    @Test func `A broadcast's topic has no suffix`() throws {
        var notification = PushNotification(Self.update, topic: .bundleID("com.example.shop"))
        notification.expiration = .nowOrNever
        notification.priority = .powerConsiderate
        for record in [
            try notification.payloadRecord(toChannel: channel), try notification.envelopeRecord(toChannel: channel),
            try notification.encoded().payloadRecord(toChannel: channel),
        ] {
            let found = read(record)
            #expect(found.topic == "com.example.shop" && found.channelID == channel && !found.isInvalid)
            #expect(found.expiration == 0 && found.priority == 5 && found.pushType == .liveactivity)
        }
        #expect(try read(notification.payloadRecord(to: token)).topic == "com.example.shop.push-type.liveactivity")
        #expect(Self.update.broadcastSizeLimit == 5_120 && Self.update.sizeLimit == 4_096)
    }

    /// Encoding the payload keeps the priority.
    @Test func `Every priority has its number`() throws {
        func numbers<P>(_ payload: P, _ priorities: [P.Priority]) throws -> [UInt8] where P: PushPayload {
            try priorities.map { priority in
                var notification = PushNotification(payload)
                notification.priority = priority
                #expect(try notification.encoded().priority == priority.priority)
                return read(try notification.payloadRecord(to: token)).priority
            }
        }
        #expect(try numbers(AlertPayload(body: "a"), PushPriority.allCases) == [10, 5, 1])
        #expect(try numbers(BackgroundPayload(), [.powerConsiderate]) == [5])
        #expect(try numbers(Self.update, WakingPriority.allCases) == [10, 5])
        #expect(try numbers(PushToTalkPayload(["a": 1]), [.immediate]) == [10])
    }

    @Test func `A program can have its own payload type`() throws {
        struct Shipped: CollapsiblePayload {
            var order: Int64
            var pushType: PushType { .alert }
            func json() throws(RequestError) -> [UInt8] { try AlertPayload(title: "Order \(order)").json() }
        }
        var notification = PushNotification(Shipped(order: 4711))
        notification.collapseID = "4711"
        let found = read(try notification.payloadRecord(to: token))
        #expect(found.payload == #"{"aps":{"alert":{"title":"Order 4711"}}}"# && found.collapseID == "4711")
    }

    private static let refused: [(any PushPayload, String)] = [
        (MDMPayload(pushMagic: ""), "mdm: PushMagic must not be empty"),
        (BackgroundPayload(custom: ["aps": [:]]), "custom must not contain aps"),
        (VoIPPayload(["a": .number(.nan)]), "a: JSON cannot represent nan"),
        (LiveActivityUpdate(contentState: 1, timestamp: 1), "content-state must be an object"),
        (
            LiveActivityUpdate(contentState: .encoded(Array("[{}]".utf8)), timestamp: 1),
            "content-state must be an object"
        ),
        (
            LiveActivityUpdate(contentState: .encoded(Array("{".utf8)), timestamp: 1),
            "content-state is not JSON: ends too early"
        ),
        (LiveActivityUpdate(contentState: [:], timestamp: -1), "timestamp must be a number of seconds since 1970"),
        (
            LiveActivityUpdate(contentState: [:], timestamp: 1_700_000_000_000),
            "timestamp must be a number of seconds since 1970 (not milliseconds): 1700000000000"
        ),
        (
            LiveActivityEnd(contentState: nil, timestamp: 1, dismissal: .at(-1)),
            "dismissal-date must be a number of seconds"
        ),
        (LiveActivityEnd(contentState: [1], timestamp: 1), "content-state must be an object"),
        (with { $0.staleDate = 1_700_000_000_000 }, "stale-date must be a number of seconds"),
        (with { $0.relevanceScore = .infinity }, "relevance-score: JSON cannot represent inf"),
        (
            LiveActivityStart(
                attributesType: "A", attributes: "a", contentState: [:],
                alert: LiveActivityAlert(title: "t", body: "b"),
                timestamp: 1), "attributes must be an object"
        ),
    ]

    private static func with(_ change: (inout LiveActivityUpdate) -> Void) -> LiveActivityUpdate {
        var update = update
        change(&update)
        return update
    }

    @Test(arguments: refused)
    func `An invalid value is refused with the member's name`(payload: any PushPayload, words: String) throws {
        let error = #expect(throws: RequestError.self) { try payload.json() }
        #expect(error?.reason == .badRequestPayload && error?.detail.hasPrefix(words) == true, "\(error?.detail ?? "")")
    }

    /// The golden payloads compare meaning. This test compares bytes.
    @Test func `Live Activity payloads have the expected JSON`() throws {
        var start = LiveActivityStart(
            attributesType: "A", attributes: ["b": 1, "a": 2], contentState: .encoded(Array(#"{"z":1,"a":2}"#.utf8)),
            alert: LiveActivityAlert(title: "🐼", body: "b", sound: .standard), updates: .newToken, timestamp: 1)
        start.staleDate = 2
        start.relevanceScore = 50
        #expect(
            text(lend(try start.json()))
                == #"{"aps":{"timestamp":1,"event":"start","content-state":{"z":1,"a":2},"attributes-type":"A","#
                + #""attributes":{"a":2,"b":1},"input-push-token":1,"stale-date":2,"relevance-score":50.0,"#
                + #""alert":{"title":"🐼","body":"b","sound":"default"}}}"#)
        var end = LiveActivityEnd(contentState: nil, timestamp: 1, dismissal: .immediately)
        end.alert = LiveActivityAlert(title: .plain("t"), body: .localized(LocalizedText("K")))
        #expect(
            text(lend(try end.json()))
                == #"{"aps":{"timestamp":1,"event":"end","dismissal-date":1,"#
                + #""alert":{"title":"t","body":{"loc-key":"K"}}}}"#)
    }
}
