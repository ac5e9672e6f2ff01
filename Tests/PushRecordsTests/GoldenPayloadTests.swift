import Foundation
import PushRecords
import Testing

/// Compares payloads of the library with the examples on Apple's pages.
@Suite struct GoldenPayloadTests {
    /// An example as published, without its trailing commas, and the payload with the same content.
    struct Example: CustomTestStringConvertible, Sendable {
        var source: String
        var json: String
        var payload: any PushPayload
        var pushType: PushType

        var testDescription: String { source }
    }

    private static func example<P: PushPayload>(
        _ source: String, _ pushType: PushType, _ payload: P, _ fill: (inout P) -> Void, _ json: String
    ) -> Example {
        var payload = payload
        fill(&payload)
        return Example(source: source, json: json, payload: payload, pushType: pushType)
    }

    private static func example(
        _ source: String, _ pushType: PushType, _ payload: some PushPayload, _ json: String
    ) -> Example { example(source, pushType, payload, { _ in }, json) }

    private static let alerts: [Example] = [
        example(
            "Generating a remote notification, Listing 1", .alert,
            AlertPayload(title: "Game Request", subtitle: "Five Card Draw", body: "Bob wants to play poker"),
            {
                $0.category = "GAME_INVITATION"
                $0.custom = ["gameID": "12345678"]
            },
            #"""
            { "aps" : { "alert" : { "title" : "Game Request", "subtitle" : "Five Card Draw",
                                    "body" : "Bob wants to play poker" },
                        "category" : "GAME_INVITATION" },
              "gameID" : "12345678" }
            """#),
        example(
            "Generating a remote notification, Listing 2", .alert, AlertPayload(),
            {
                $0.badge = 9
                $0.sound = .named("bingbong.aiff")
                $0.custom = ["messageID": "ABCDEFGHIJ"]
            }, #"{ "aps" : { "badge" : 9, "sound" : "bingbong.aiff" }, "messageID" : "ABCDEFGHIJ" }"#),
        example(
            "Generating a remote notification, Listing 3", .alert, AlertPayload(),
            { $0.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", "Shelly", "Rick") },
            #"{ "aps" : { "alert" : { "loc-key" : "GAME_PLAY_REQUEST_FORMAT", "loc-args" : [ "Shelly", "Rick"] } } }"#),
        example(
            "Modifying content in newly delivered notifications, Listing 2", .alert,
            AlertPayload(title: "Secret Message!", body: "(Encrypted)"),
            {
                $0.category = "SECRET"
                $0.isMutable = true
                $0.custom["ENCRYPTED_DATA"] = "Salted__·öîQÊ$UDì_¶Ù∞èΩ^¬%gq∞NÿÒQùw"
            },
            #"""
            { "aps" : { "category" : "SECRET", "mutable-content" : 1,
                        "alert" : { "title" : "Secret Message!", "body"  : "(Encrypted)" } },
              "ENCRYPTED_DATA" : "Salted__·öîQÊ$UDì_¶Ù∞èΩ^¬%gq∞NÿÒQùw" }
            """#),
        example(
            "Sending notification requests to APNs, the sample request", .alert, AlertPayload(body: "Hello"),
            #"{ "aps" : { "alert" : "Hello" } }"#),
        example(
            "Local and Remote Notification Programming Guide (archived), Example 2", .alert,
            AlertPayload(title: "Game Request", body: "Bob wants to play poker"),
            {
                $0.actionLocKey = "PLAY"
                $0.badge = 5
                $0.custom = ["acme1": "bar", "acme2": ["bang", "whiz"]]
            },
            #"""
            { "aps" : { "alert" : { "title" : "Game Request", "body" : "Bob wants to play poker",
                                    "action-loc-key" : "PLAY" }, "badge" : 5 },
              "acme1" : "bar", "acme2" : [ "bang",  "whiz" ] }
            """#),
    ]

    /// The content state of Apple's sample code.
    private struct ContentState: Encodable {
        var currentHealthLevel: Double
        var eventDescription: String
    }

    private static func state(_ level: Double, _ text: String) -> PayloadValue {
        try! PayloadValue(encoding: ContentState(currentHealthLevel: level, eventDescription: text))
    }

    private static let adventure = LiveActivityAlert(
        title: LocalizedText("%@ is on an adventure!", "Power Panda"),
        body: LocalizedText("%@ found a sword!", "Power Panda"), sound: .named("chime.aiff"))

    private static func start(_ attributes: PayloadValue, _ updates: LiveActivityStart.Updates?) -> LiveActivityStart {
        LiveActivityStart(
            attributesType: "AdventureAttributes", attributes: attributes,
            contentState: ["currentHealthLevel": 100, "eventDescription": "Adventure has begun!"], alert: adventure,
            updates: updates, timestamp: 1234)
    }

    /// Apple's sample with additional lines, which its page shows for iOS 18.
    private static func started(_ lines: String) -> String {
        #"""
        { "aps": { "timestamp": 1234, "event": "start",
                   "content-state": { "currentHealthLevel": 100, "eventDescription": "Adventure has begun!" },
                   \#(lines),
                   "alert": { "title": { "loc-key": "%@ is on an adventure!", "loc-args": [ "Power Panda" ] },
                              "body": { "loc-key": "%@ found a sword!", "loc-args": [ "Power Panda" ] },
                              "sound": "chime.aiff" } } }
        """#
    }

    private static let liveActivities: [Example] = [
        example(
            "Starting and updating Live Activities with ActivityKit push notifications, start", .liveactivity,
            start(
                [
                    "hero": [
                        "name": "Power Panda", "avatar": "U+1F43C", "healthLevel": 100, "heroType": "Forest Dweller",
                        "healthRecoveryRatePerHour": 0.25, "url": "game:///panda",
                        "battleCode": "game:///panda/battle", "level": 3, "exp": 600,
                        "bio": "Power Panda loves eating bamboo shoots and leaves.",
                    ]
                ], nil),
            started(
                #"""
                "attributes-type": "AdventureAttributes",
                "attributes": { "hero": { "name": "Power Panda", "avatar": "U+1F43C", "healthLevel": 100,
                    "heroType": "Forest Dweller", "healthRecoveryRatePerHour": 0.25, "url": "game:///panda",
                    "battleCode": "game:///panda/battle", "level": 3, "exp": 600,
                    "bio": "Power Panda loves eating bamboo shoots and leaves." } }
                """#)),
        example(
            "Sending broadcast push notification requests to APNs, the sample request", .liveactivity,
            LiveActivityUpdate(contentState: state(0, "Power Panda has been knocked down!"), timestamp: 1_685_952_000),
            {
                $0.alert = LiveActivityAlert(
                    title: LocalizedText("%@ is knocked down!", "Power Panda"),
                    body: LocalizedText("Use a potion to heal %@!", "Power Panda"), sound: .named("HeroDown.mp4"))
            },
            #"""
            { "aps": { "timestamp": 1685952000, "event": "update",
                       "content-state": { "currentHealthLevel": 0.0,
                                          "eventDescription": "Power Panda has been knocked down!" },
                       "alert": { "title": { "loc-key": "%@ is knocked down!", "loc-args": ["Power Panda"] },
                                  "body": { "loc-key": "Use a potion to heal %@!", "loc-args": ["Power Panda"] },
                                  "sound": "HeroDown.mp4" } } }
            """#),
        example(
            "Starting and updating Live Activities with ActivityKit push notifications, relevance score",
            .liveactivity,
            LiveActivityUpdate(contentState: state(0.941, "Power Panda found a sword!"), timestamp: 1_685_952_000),
            { $0.relevanceScore = 100 },
            #"""
            { "aps": { "timestamp": 1685952000, "event": "update", "relevance-score": 100,
                       "content-state": { "currentHealthLevel": 0.941,
                                          "eventDescription": "Power Panda found a sword!" } } }
            """#),
        example(
            "Starting and updating Live Activities with ActivityKit push notifications, dismissal date", .liveactivity,
            LiveActivityEnd(
                contentState: state(0, "Power Panda has been knocked down!"), timestamp: 1_685_952_000,
                dismissal: .at(1_663_177_260)),
            #"""
            { "aps": { "timestamp": 1685952000, "event": "end", "dismissal-date": 1663177260,
                       "content-state": { "currentHealthLevel": 0.0,
                                          "eventDescription": "Power Panda has been knocked down!" } } }
            """#),
    ]

    private static let startsForUpdates = [
        (
            "a channel", LiveActivityStart.Updates.channel("dHN0LXNyY2gtY2hubA=="),
            #""input-push-channel": "dHN0LXNyY2gtY2hubA==""#
        ),
        ("a token", .newToken, #""input-push-token": 1"#),
    ].map { name, updates, member in
        example(
            "Starting and updating Live Activities with ActivityKit push notifications, start with \(name)",
            .liveactivity,
            start(["currentHealthLevel": 100, "eventDescription": "Adventure has begun!"], updates),
            started(
                #"""
                \#(member), "attributes-type": "AdventureAttributes",
                "attributes": { "currentHealthLevel": 100, "eventDescription": "Adventure has begun!" }
                """#))
    }

    /// Payloads for pages without an example, with the members that the page describes or its sample code reads.
    private static let others: [Example] = [
        example(
            "Pushing background updates to your App", .background,
            BackgroundPayload(custom: ["acme1": "bar", "acme2": 42]),
            #"{ "aps" : { "content-available" : 1 }, "acme1" : "bar", "acme2" : 42 }"#),
        example(
            "Updating widgets with WidgetKit push notifications", .widgets, WidgetsPayload(),
            #"{ "aps": { "content-changed": true } }"#),
        example(
            "Updating controls locally and remotely", .controls, ControlsPayload(),
            #"{ "aps" : { "content-changed" : true } }"#),
        example(
            "Using push notifications to signal changes", .fileprovider,
            FileProviderPayload(.workingSet, domain: "<domain identifier>"),
            #"""
            { "container-identifier": "NSFileProviderWorkingSetContainerItemIdentifier",
              "domain": "<domain identifier>" }
            """#),
        example(
            "Using push notifications to signal changes, the root", .fileprovider,
            FileProviderPayload(.root, domain: "d"),
            #"{ "container-identifier": "NSFileProviderRootContainerItemIdentifier", "domain": "d" }"#),
        example(
            "Sending MDM commands to a device", .mdm, MDMPayload(pushMagic: "PushMagicValue"),
            #"{"mdm":"PushMagicValue"}"#),
        example(
            "Creating a Push to Talk app", .pushtotalk,
            PushToTalkPayload(["activeSpeaker": "The name of the active speaker"]),
            #"{"activeSpeaker":"The name of the active speaker"}"#),
        example(
            "Responding to VoIP Notifications from PushKit, the members that its code reads", .voip,
            VoIPPayload(["handle": "+1 555 0100", "callUUID": "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11"]),
            #"{"callUUID": "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11", "handle": "+1 555 0100"}"#),
        example(
            "Keeping your complications up to date: what is in it is the app's", .complication,
            ComplicationPayload(["temperature": -3.5, "sky": "🌨️"]),
            #"{"temperature": -3.5, "sky": "\uD83C\uDF28\uFE0F"}"#),
        example(
            "Creating a location push service extension: a query needs nothing", .location, LocationPayload(),
            #"{"aps":{}}"#),
    ]

    private static let all = alerts + liveActivities + startsForUpdates + others

    @Test(arguments: all)
    func `A payload is equivalent to Apple's example, and the worker accepts it`(example: Example) throws {
        func check(_ payload: some PushPayload) throws {
            let made = try payload.json()
            let theirs = try #require(JSONSerialization.jsonObject(with: Data(example.json.utf8)) as? NSDictionary)
            let ours = try #require(JSONSerialization.jsonObject(with: Data(made)) as? NSDictionary)
            #expect(ours == theirs, "\(String(decoding: made, as: UTF8.self))")
            #expect(try payload.size() == made.count && made == payload.json())
            let notification = PushNotification(payload, topic: .bundleID("com.example.MyApp"))
            let token = try DeviceToken(hex: tokenA)
            for record in [try notification.payloadRecord(to: token), try notification.envelopeRecord(to: [token])] {
                let found = read(record)
                #expect(found.pushType == example.pushType && !found.isInvalid && found.deadLetter == nil)
                #expect(Array(found.payload.utf8) == made)
            }
        }
        try check(example.payload)
    }

    @Test func `There is an example of every push type`() {
        #expect(Set(Self.all.map(\.pushType)) == Set(PushType.allCases))
    }
}
