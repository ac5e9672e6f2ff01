import PushRecords
import Testing

@Suite struct AlertPayloadTests {
    private static let written: [(@Sendable (inout AlertPayload) -> Void, String)] = [
        ({ _ in }, #"{"aps":{}}"#),
        ({ $0.body = "Hi" }, #"{"aps":{"alert":"Hi"}}"#),
        (
            {
                $0.title = "T"
                $0.subtitle = "S \"q\""
                $0.body = "ü\n"
            }, #"{"aps":{"alert":{"title":"T","subtitle":"S \"q\"","body":"ü\n"}}}"#
        ),
        ({ $0.subtitle = "S" }, #"{"aps":{"alert":{"subtitle":"S"}}}"#),
        ({ $0.badge = 0 }, #"{"aps":{"badge":0}}"#),
        ({ $0.sound = .standard }, #"{"aps":{"sound":"default"}}"#),
        ({ $0.sound = .named("a.caf") }, #"{"aps":{"sound":"a.caf"}}"#),
        ({ $0.sound = .critical(volume: 0.5) }, #"{"aps":{"sound":{"critical":1,"name":"default","volume":0.5}}}"#),
        (
            {
                $0.category = "c"
                $0.threadID = "t"
                $0.isMutable = true
                $0.isContentAvailable = true
                $0.interruptionLevel = .timeSensitive
                $0.relevanceScore = 0.25
            },
            #"{"aps":{"category":"c","thread-id":"t","mutable-content":1,"content-available":1,"interruption-level":"time-sensitive","relevance-score":0.25}}"#
        ),
        (
            {
                $0.title = "T"
                $0.localizedTitle = LocalizedText("T_KEY", "a", "b")
                $0.localizedSubtitle = LocalizedText("S_KEY", arguments: ["\u{1F69A}"])
                $0.localizedBody = LocalizedText("B_KEY")
                $0.launchImage = "L.png"
                $0.action = "View"
                $0.actionLocKey = "PLAY"
            },
            #"{"aps":{"alert":{"title":"T","title-loc-key":"T_KEY","title-loc-args":["a","b"],"subtitle-loc-key":"S_KEY","#
                + #""subtitle-loc-args":["🚚"],"loc-key":"B_KEY","launch-image":"L.png","action":"View","action-loc-key":"PLAY"}}}"#
        ),
        (
            {
                $0.targetContentID = "w"
                $0.filterCriteria = "f"
                $0.urlArguments = ["a", ""]
                $0.more = ["x-new": 1]
            }, #"{"aps":{"target-content-id":"w","filter-criteria":"f","url-args":["a",""],"x-new":1}}"#
        ),
        (
            { $0.custom = ["b": [1, 2.5, nil, true, "x"], "a": ["d": [:], "c": [[]]]] },
            #"{"aps":{},"a":{"c":[[]],"d":{}},"b":[1,2.5,null,true,"x"]}"#
        ),
        ({ $0.custom["e"] = .encoded(Array(#"{"z": 1, "a" :2}"#.utf8)) }, #"{"aps":{},"e":{"z": 1, "a" :2}}"#),
    ]

    @Test(arguments: written)
    func `Each property of an alert payload is a member of aps`(
        fill: @Sendable (inout AlertPayload) -> Void, json: String
    ) throws {
        var payload = AlertPayload()
        fill(&payload)
        #expect(String(decoding: try payload.json(), as: UTF8.self) == json)
        #expect(try payload.size() == json.utf8.count && payload.sizeLimit == 4_096)
    }

    private static let refused: [(@Sendable (inout AlertPayload) -> Void, String)] = [
        ({ $0.badge = -1 }, "badge must not be negative"),
        ({ $0.relevanceScore = 1.1 }, "relevance-score must be between 0 and 1"),
        ({ $0.relevanceScore = .nan }, "relevance-score must be between 0 and 1"),
        ({ $0.sound = .critical("a", volume: -0.1) }, "the volume of sound must be between 0 and 1"),
        ({ $0.custom["aps"] = [:] }, "custom must not contain aps; use the payload's own properties"),
        ({ $0.more["badge"] = 1 }, "more must not contain badge; set the payload's property instead"),
        ({ $0.more["url-args"] = [] }, "more must not contain url-args; set the payload's property instead"),
        ({ $0.custom["x"] = nested(64) }, "x is nested deeper than 64 levels"),
        ({ $0.more["x"] = nested(63) }, "aps.x is nested deeper than 64 levels"),
        ({ $0.custom["x"] = nested(1_000) }, "x is nested deeper than 64 levels"),
        ({ $0.custom["a"] = ["b": .number(.infinity)] }, "a.b: JSON cannot represent inf"),
        ({ $0.more["x"] = .encoded(Array("1,2".utf8)) }, "aps.x is not JSON: more bytes after the value"),
        ({ $0.custom["x"] = .encoded([]) }, "x is not JSON: ends too early"),
    ]

    @Test(arguments: refused)
    func `An invalid value in an alert payload is refused with its name`(
        fill: @Sendable (inout AlertPayload) -> Void, words: String
    ) {
        var payload = AlertPayload()
        fill(&payload)
        let error = #expect(throws: RequestError.self) { try payload.json() }
        #expect(error?.reason == .badRequestPayload && error?.detail.hasPrefix(words) == true, "\(error?.detail ?? "")")
    }

    @Test func `A payload may be nested as deeply as the worker accepts`() throws {
        var payload = AlertPayload()
        payload.custom["x"] = nested(63)
        payload.more["x"] = nested(62)
        _ = try PushNotification(payload).payloadRecord(to: DeviceToken(hex: tokenA))
    }
}

/// Nested arrays.
private func nested(_ levels: Int) -> PayloadValue {
    var value: PayloadValue = []
    for _ in 1..<levels { value = [value] }
    return value
}
